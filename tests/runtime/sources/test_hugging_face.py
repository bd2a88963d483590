"""`gptservice-runtime fetch` of a hub's model, as a real process against the stand-in hub."""

import asyncio
import json
import os
import platform
import signal
from pathlib import Path

import pytest

from e2e import peak_memory
from e2e.hub.faults import Fault
from e2e.hub.repository import Repository
from e2e.hub.sample import make_repository, needed
from e2e.hub.server import SIGNATURE, Hub
from gptservice_runtime import contract, digest
from tests.runtime.harness import free_ports, until
from tests.runtime.sources.conftest import MakePod
from tests.runtime.sources.fetching import PATIENT, Outcome, Pod

TOKEN = "hf_" + "a" * 30


def snapshot(cache: Path, repository: Repository) -> Path:
    return cache / "models" / "org--name" / repository.commit


def assert_fetched(outcome: Outcome, pod: Pod, repository: Repository) -> None:
    """Reported, linked, and byte for byte what the hub has."""
    assert outcome.code == contract.EXIT_OK, outcome.log
    root = pod.link.resolve()
    names = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
    assert len(names) == 5
    for name in names:
        assert (pod.link / name).read_bytes() == repository.files[name].path.read_bytes(), name
    assert outcome.message["revision"] == repository.commit
    assert outcome.message["bytes"] == needed(repository)
    assert outcome.message["digest"] == digest.of_path(repository.folder)


async def test_a_model_is_fetched(pod: MakePod, hub: Hub, repository: Repository) -> None:
    one = pod(options=PATIENT)
    outcome = await one.fetch()
    assert_fetched(outcome, one, repository)
    assert outcome.message["uri"] == "hf://org/name"
    assert hub.sent == needed(repository)
    assert sorted(path.name for path in snapshot(one.cache, repository).parent.iterdir()) == [
        repository.commit,
        f"{repository.commit}.json",
        f"{repository.commit}.lock",
        "refs",
    ]


async def test_a_second_fetch_downloads_nothing(pod: MakePod, hub: Hub, repository: Repository) -> None:
    first = await pod().fetch()
    sent = hub.sent
    second = pod("second")
    outcome = await second.fetch()
    assert_fetched(outcome, second, repository)
    assert hub.sent == sent
    assert outcome.message["digest"] == first.message["digest"]


async def test_pods_that_share_a_cache_download_once(pod: MakePod, hub: Hub, repository: Repository) -> None:
    hub.faults.append(Fault("cdn", seconds_per_mebibyte=0.5))
    pods = [pod(f"pod-{number}", options=PATIENT) for number in range(3)]
    for each in pods:
        await each.start()
    outcomes = [await each.ended() for each in pods]
    for each, outcome in zip(pods, outcomes, strict=True):
        assert_fetched(outcome, each, repository)
    print(f"three pods, one cache: {hub.sent} bytes sent, {hub.sent / needed(repository):.3f} x the model")
    assert hub.sent <= 1.05 * needed(repository)


async def test_a_killed_download_is_gone_on_with(pod: MakePod, hub: Hub, repository: Repository) -> None:
    hub.faults.append(Fault("cdn", seconds_per_mebibyte=1))
    killed, waiting, later = pod("killed"), pod("waiting"), pod("later")
    await killed.start()
    await until(lambda: hub.sent > 1_000_000, "a part of the download")
    await waiting.start()
    assert killed.process is not None
    killed.process.send_signal(signal.SIGKILL)
    await killed.ended()
    hub.faults.clear()
    outcomes = [(each, await each.ended()) for each in (waiting,)] + [(later, await later.fetch())]
    for each, outcome in outcomes:
        assert_fetched(outcome, each, repository)
    print(f"killed and gone on with: {hub.sent} bytes sent, {hub.sent / needed(repository):.3f} x the model")
    # What was on its way when it was killed is lost: what the sockets' buffers hold.
    assert hub.sent <= 1.05 * needed(repository) + 4 * 600_000
    assert any(one.range for one in hub.seen)


@pytest.mark.parametrize("size", ["same", "shorter", "gone"])
async def test_a_file_that_changed_in_the_cache_is_fetched_again(
    pod: MakePod, hub: Hub, repository: Repository, size: str
) -> None:
    await pod().fetch()
    sent, broken = hub.sent, snapshot(pod().cache, repository) / "model-00002-of-00002.safetensors"
    if size == "gone":
        broken.unlink()
    else:
        content = bytearray(broken.read_bytes())
        content[1000] ^= 0xFF
        broken.write_bytes(content if size == "same" else content[:-1])
    second = pod("second", options=PATIENT)
    assert_fetched(await second.fetch(), second, repository)
    assert hub.sent - sent == broken.stat().st_size


async def test_corruption_without_a_trace_is_found_where_a_digest_is_demanded(
    pod: MakePod, repository: Repository
) -> None:
    await pod().fetch()
    broken = snapshot(pod().cache, repository) / "model-00001-of-00002.safetensors"
    before = broken.stat()
    content = bytearray(broken.read_bytes())
    content[1000] ^= 0xFF
    broken.write_bytes(content)
    os.utime(broken, ns=(before.st_atime_ns, before.st_mtime_ns))
    second = pod("second", options=["--digest", digest.of_path(repository.folder)])
    assert_fetched(await second.fetch(), second, repository)


async def test_a_file_whose_time_alone_changed_is_not_fetched_again(
    pod: MakePod, hub: Hub, repository: Repository
) -> None:
    await pod().fetch()
    sent = hub.sent
    os.utime(snapshot(pod().cache, repository) / "model-00001-of-00002.safetensors")
    assert (await pod("second").fetch()).code == contract.EXIT_OK
    assert hub.sent == sent


HEALING = [
    pytest.param(Fault("cdn", times=2, stop_after=200_000), id="stalls twice"),
    pytest.param(Fault("cdn", times=3, stop_after=300_000, then="close"), id="breaks off three times"),
    pytest.param(Fault("cdn", times=1, corrupt=True), id="corrupt once"),
    pytest.param(Fault("cdn", times=2, status=503), id="fails twice"),
    pytest.param(Fault("cdn", times=2, status=403), id="a signed address has run out"),
    pytest.param(Fault("resolve", times=3, status=429, headers={"Retry-After": "0"}), id="throttled"),
    pytest.param(Fault("api", times=2, status=429, headers={"Retry-After": "1"}), id="list throttled"),
    pytest.param(Fault("api", times=3, status=500), id="list fails"),
    pytest.param(Fault("api", times=2, stop_after=0), id="list stalls"),
]


@pytest.mark.parametrize("fault", HEALING)
async def test_what_passes_heals(pod: MakePod, hub: Hub, repository: Repository, fault: Fault) -> None:
    hub.faults.append(Fault(**vars(fault)))
    one = pod()
    assert_fetched(await one.fetch(), one, repository)
    assert hub.faults[0].times == 0, "the fault was not met"


LASTING = [
    pytest.param(Fault("cdn", stop_after=0), "ModelDownloadStalled", "no byte came for 0.5 s", id="stalls"),
    pytest.param(Fault("cdn", stop_after=0, then="close"), "ModelDownloadFailed", "connection failed", id="breaks off"),
    pytest.param(Fault("cdn", corrupt=True), "ChecksumMismatch", "not what the hub announced", id="corrupt"),
    pytest.param(Fault("resolve", status=502), "ModelDownloadFailed", "answered 502", id="fails"),
    pytest.param(
        Fault("resolve", status=429, headers={"Retry-After": "0"}), "HubThrottled", "answered 429", id="throttled"
    ),
    pytest.param(Fault("resolve", status=403), "ModelAccessDenied", "huggingFaceTokenSecretRef", id="denied"),
    pytest.param(Fault("resolve", status=404), "ModelNotFound", "answered 404", id="gone"),
    pytest.param(Fault("api", status=503), "ModelDownloadFailed", "answered 503", id="list fails"),
    pytest.param(Fault("api", stop_after=0), "ModelDownloadFailed", "no answer", id="list stalls"),
]


@pytest.mark.parametrize(("fault", "reason", "words"), LASTING)
async def test_what_lasts_is_named(pod: MakePod, hub: Hub, fault: Fault, reason: str, words: str) -> None:
    hub.faults.append(Fault(**vars(fault)))
    one = pod()
    outcome = await one.fetch()
    assert (outcome.code, outcome.message["reason"]) == (contract.EXIT_FAILURE, reason), outcome.log
    assert words in outcome.message["message"]
    assert outcome.message["phase"] == "Fetching"
    assert SIGNATURE not in outcome.log + json.dumps(outcome.message)
    assert not one.link.exists()


@pytest.mark.parametrize(
    ("uri", "token", "reason", "words"),
    [
        pytest.param("hf://org/name@no-such", None, "ModelNotFound", "revision", id="revision"),
        pytest.param("hf://org/none", None, "ModelAccessDenied", "private or gated, or does not exist", id="hidden"),
        pytest.param("hf://org/none", TOKEN, "ModelNotFound", "check the organisation", id="repository"),
        pytest.param("hf://org/gated", None, "ModelAccessDenied", "huggingFaceTokenSecretRef", id="gated"),
        pytest.param("hf://org/gated", TOKEN, "ModelAccessDenied", "ask for access", id="gated, not let in"),
        pytest.param("hf://org/name", "  \n", "ModelAccessDenied", "'token' of the Secret is empty", id="empty token"),
        pytest.param("hf://org/name", "a b", "ModelAccessDenied", "more than one word", id="token of two words"),
        pytest.param("hf://org/gguf", None, "ModelNotFound", "GGUF files have to be named", id="GGUF"),
    ],
)
async def test_refusals_say_what_to_do(
    pod: MakePod, hub: Hub, tmp_path: Path, uri: str, token: str | None, reason: str, words: str
) -> None:
    gguf = tmp_path / "gguf"
    gguf.mkdir()
    (gguf / "model.Q4.gguf").write_bytes(b"GGUF")
    gated = make_repository(tmp_path / "gated", 1000)
    gated.gated = True
    hub.repositories = {**hub.repositories, "org/gated": gated, "org/gguf": Repository(gguf)}
    one = pod(uri=uri)
    if token is not None:
        one.give_token(token)
    outcome = await one.fetch()
    assert outcome.message["reason"] == reason, outcome.log
    assert words in outcome.message["message"]
    assert TOKEN not in outcome.log + json.dumps(outcome.message)
    assert hub.sent == 0


async def test_a_token_opens_and_goes_to_the_hub_alone(pod: MakePod, hub: Hub, repository: Repository) -> None:
    repository.gated, repository.readers = True, {TOKEN}
    one = pod()
    one.give_token(f"  {TOKEN}\n")
    outcome = await one.fetch()
    assert_fetched(outcome, one, repository)
    sent = {(seen.place, seen.authorization) for seen in hub.seen}
    assert sent == {("api", f"Bearer {TOKEN}"), ("resolve", f"Bearer {TOKEN}"), ("cdn", None)}
    assert TOKEN not in outcome.log


async def test_two_keys_in_a_secret_are_refused_by_name(pod: MakePod) -> None:
    one = pod()
    one.give_token(TOKEN, "a")
    one.give_token(TOKEN, "b")
    outcome = await one.fetch()
    assert outcome.message["reason"] == "ModelAccessDenied"
    assert "2 keys (a, b)" in outcome.message["message"]


async def test_a_hub_that_lists_names_alone_is_asked_for_each_file(
    pod: MakePod, hub: Hub, repository: Repository
) -> None:
    hub.with_blobs = False
    one = pod()
    assert_fetched(await one.fetch(), one, repository)


async def test_a_hub_that_cannot_be_reached_is_named(pod: MakePod, hub: Hub) -> None:
    (hub.port,) = free_ports(1)
    outcome = await pod().fetch()
    assert outcome.message["reason"] == "ModelDownloadFailed"
    assert hub.endpoint in outcome.message["message"]


async def test_a_model_in_the_cache_is_served_while_the_hub_fails(
    pod: MakePod, hub: Hub, repository: Repository
) -> None:
    await pod().fetch()
    hub.faults.append(Fault("api", status=503))
    second = pod("second")
    outcome = await second.fetch()
    assert_fetched(outcome, second, repository)
    assert f"serving revision {repository.commit}, which is in the cache" in outcome.log


async def test_a_pinned_model_in_the_cache_asks_nobody(pod: MakePod, hub: Hub, repository: Repository) -> None:
    uri = f"hf://org/name@{repository.commit}"
    assert (await pod(uri=uri).fetch()).code == contract.EXIT_OK
    asked = len(hub.seen)
    second = pod("second", uri=uri)
    assert_fetched(await second.fetch(), second, repository)
    assert len(hub.seen) == asked


async def test_a_digest_is_demanded(pod: MakePod, repository: Repository) -> None:
    right = digest.of_path(repository.folder)
    assert (await pod(options=["--digest", right]).fetch()).code == contract.EXIT_OK
    other = pod("other", options=["--digest", f"sha256:{'0' * 64}"])
    outcome = await other.fetch()
    assert outcome.message["reason"] == "ChecksumMismatch"
    assert right in outcome.message["message"]
    assert not other.link.exists()


async def test_a_model_that_does_not_fit_is_refused_before_a_byte_comes(pod: MakePod, hub: Hub) -> None:
    outcome = await pod(options=["--cache-limit", "1000000"]).fetch()
    assert outcome.message["reason"] == "DiskFull"
    assert "3.0 MB more are needed" in outcome.message["message"]
    assert "spec.cache.size" in outcome.message["message"]
    assert hub.sent == 0


async def test_a_volume_that_fills_up_meanwhile_is_named(pod: MakePod, repository: Repository) -> None:
    one = pod()
    parts = snapshot(one.cache, repository).with_suffix(".pods") / platform.node()
    part = parts / "model-00002-of-00002.safetensors.part"
    part.parent.mkdir(parents=True)
    part.symlink_to("/dev/full")
    outcome = await one.fetch()
    assert outcome.message["reason"] == "DiskFull", outcome.log
    assert "No space left on device" in outcome.message["message"]


async def test_a_cache_that_cannot_be_written_is_named(pod: MakePod) -> None:
    one = pod()
    one.cache.mkdir()
    (one.cache / "models").write_text("not a folder")
    outcome = await one.fetch()
    assert outcome.message["reason"] == "ModelDownloadFailed", outcome.log
    assert str(one.cache / "models") in outcome.message["message"]
    assert "fsGroup" in outcome.message["message"]


async def test_progress_is_on_the_metrics_page(pod: MakePod, hub: Hub, repository: Repository) -> None:
    hub.faults.append(Fault("cdn", seconds_per_mebibyte=2))
    one = pod()
    await one.start()
    page = ""

    async def shows() -> bool:
        nonlocal page
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", one.port)
        except OSError:
            return False
        writer.write(b"GET /metrics HTTP/1.0\r\n\r\n")
        page = (await reader.read()).decode()
        writer.close()
        return f"gptservice_fetch_size_bytes {needed(repository)}" in page

    await until(shows, "the size of the model")
    assert "gptservice_fetch_received_bytes_total " in page
    assert one.process is not None
    one.process.terminate()
    assert (await one.ended()).code == 128 + signal.SIGTERM


async def test_memory_does_not_grow_with_the_model(pod: MakePod, hub: Hub, tmp_path: Path) -> None:
    large = make_repository(tmp_path / "large", 1000)
    with (large.folder / "model-00001-of-00002.safetensors").open("wb") as file:
        file.truncate(400 << 20)
    hub.repositories = {"org/name": large}
    file = tmp_path / "peak"
    one = pod(prefix=peak_memory.measuring(file))
    outcome = await one.fetch()
    assert outcome.code == contract.EXIT_OK, outcome.log
    peak = peak_memory.measured(file) >> 20
    print(f"peak memory for a file of 400 MiB: {peak} MiB")
    assert peak < 300
