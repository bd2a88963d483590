"""What every source has in common, against real servers: the same faults, told in the same words."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e import peak_memory
from e2e.hub.faults import Fault
from gptservice_runtime import contract, digest
from tests.runtime.harness import free_ports, until
from tests.runtime.sources import places
from tests.runtime.sources.conftest import MakePod
from tests.runtime.sources.fetching import PATIENT, Outcome, assert_model, size_of
from tests.runtime.sources.places import Place, Servers

pytestmark = pytest.mark.api  # needs Go binaries, no cluster


@pytest.fixture(params=places.NAMES)
def place(request: pytest.FixtureRequest, servers: Servers) -> Iterator[Place]:
    with servers.place(request.param) as found:
        yield found


@pytest.fixture
def pod(pod_at: MakePod, place: Place) -> MakePod:
    """Makes pods that fetch from the place."""
    return lambda name="pod", **options: pod_at(place, name, **options)


def assert_no_secret(outcome: Outcome, place: Place) -> None:
    told = outcome.log + json.dumps(outcome.message)
    secrets = [*place.credentials.values(), *(place.wrong or {}).values(), "Signature=", "token-of-the-gate"]
    for secret in secrets:
        if not secret.startswith(("http", "us-east", "-----BEGIN")) and secret != "puller":
            assert secret.strip() not in told


async def test_a_model_is_fetched_once(pod: MakePod, place: Place, servers: Servers) -> None:
    one = pod(options=PATIENT)
    outcome = await one.fetch()
    assert_model(outcome, one, servers.model)
    assert_no_secret(outcome, place)
    assert outcome.message["uri"] == place.uri
    sent = place.gate.sent
    assert sent == size_of(servers.model) or place.packed
    second = pod("second")
    again = await second.fetch()
    assert_model(again, second, servers.model)
    assert place.gate.sent == sent
    assert again.message["revision"] == outcome.message["revision"]


async def test_a_killed_download_is_gone_on_with(pod: MakePod, place: Place, servers: Servers) -> None:
    place.gate.faults.append(Fault("cdn", seconds_per_mebibyte=0.5))
    killed, later = pod("killed"), pod("later")
    await killed.start()
    await until(lambda: place.gate.sent > 1_000_000, "a part of the download")
    assert killed.process is not None
    killed.process.send_signal(signal.SIGKILL)
    await killed.ended()
    place.gate.faults.clear()
    before = place.gate.sent
    assert_model(await later.fetch(), later, servers.model)
    assert any(one.range for one in place.gate.seen)
    assert place.gate.sent - before < before + place.gate.sent


HEALING = [
    pytest.param(Fault("cdn", times=2, stop_after=200_000), id="stalls twice"),
    pytest.param(Fault("cdn", times=3, stop_after=300_000, then="close"), id="breaks off three times"),
    pytest.param(Fault("cdn", times=1, corrupt=True), id="corrupt once"),
    pytest.param(Fault("cdn", times=2, status=503), id="fails twice"),
    pytest.param(Fault("cdn", times=3, status=429, headers={"Retry-After": "0"}), id="throttled"),
    pytest.param(Fault("api", times=2, status=429, headers={"Retry-After": "1"}), id="list throttled"),
    pytest.param(Fault("api", times=3, status=500), id="list fails"),
]


@pytest.mark.parametrize("fault", HEALING)
async def test_what_passes_heals(pod: MakePod, place: Place, servers: Servers, fault: Fault) -> None:
    place.gate.faults.append(Fault(**vars(fault)))
    one = pod()
    if fault.corrupt and place.uri.startswith("https"):
        # A web server announces no digest: the archive cannot be told from another until one is demanded.
        one.options = ["--digest", digest.of_path(servers.model)]
        outcome = await one.fetch()
        assert outcome.message["reason"] in ("ChecksumMismatch", "ModelLoadFailed", "ModelNotFound"), outcome.log
        return
    assert_model(await one.fetch(), one, servers.model)
    assert place.gate.faults[0].times == 0, "the fault was not met"


LASTING = [
    pytest.param(Fault("cdn", stop_after=0), "ModelDownloadStalled", "no byte came for 0.5 s", id="stalls"),
    pytest.param(Fault("cdn", stop_after=9, then="close"), "ModelDownloadFailed", "that was try 6", id="breaks off"),
    pytest.param(Fault("cdn", status=502), "ModelDownloadFailed", "answered 502", id="fails"),
    pytest.param(
        Fault("cdn", status=429, headers={"Retry-After": "0"}), "HubThrottled", "answered 429", id="throttled"
    ),
    pytest.param(Fault("cdn", status=403), "ModelAccessDenied", "answered 403", id="denied"),
    pytest.param(Fault("cdn", status=404), "ModelNotFound", "answered 404", id="gone"),
    pytest.param(Fault("api", status=503), "ModelDownloadFailed", "answered 503", id="list fails"),
    pytest.param(Fault("api", status=401), "ModelAccessDenied", "answered 401", id="list denied"),
]


@pytest.mark.parametrize(("fault", "reason", "words"), LASTING)
async def test_what_lasts_is_named(pod: MakePod, place: Place, fault: Fault, reason: str, words: str) -> None:
    place.gate.faults.append(Fault(**vars(fault)))
    one = pod()
    outcome = await one.fetch()
    assert (outcome.code, outcome.message["reason"]) == (contract.EXIT_FAILURE, reason), outcome.log
    assert words in outcome.message["message"]
    assert_no_secret(outcome, place)
    assert not one.link.exists()


@pytest.mark.parametrize("place", ["s3", "gs", "oci", "oci-tar"], indirect=True)
async def test_bytes_that_are_never_right_are_refused(pod: MakePod, place: Place) -> None:
    place.gate.faults.append(Fault("cdn", corrupt=True))
    outcome = await pod().fetch()
    assert outcome.message["reason"] == "ChecksumMismatch", outcome.log
    assert "not what the" in outcome.message["message"]


@pytest.mark.parametrize("place", [name for name in places.NAMES if name != "gs"], indirect=True)
async def test_wrong_credentials_are_refused_and_not_told(pod: MakePod, place: Place) -> None:
    """The server that stands for Google's asks nobody for credentials; what is wrong with them is told by others."""
    assert place.wrong is not None
    outcome = await pod(secret=place.wrong).fetch()
    assert outcome.message["reason"] == "ModelAccessDenied", outcome.log
    assert place.remedy in outcome.message["message"]
    assert_no_secret(outcome, place)
    assert place.gate.sent == 0


async def test_nothing_there_is_told(pod: MakePod, place: Place) -> None:
    outcome = await pod(uri=place.missing).fetch()
    assert outcome.message["reason"] == "ModelNotFound", outcome.log
    assert place.gate.sent == 0


async def test_an_empty_value_is_refused_by_its_key(pod: MakePod, place: Place) -> None:
    key = next(key for key in place.credentials if key != "ca.crt")
    outcome = await pod(secret={**place.credentials, key: " \n"}).fetch()
    assert outcome.message["reason"] == "ModelAccessDenied", outcome.log
    assert f"key {key!r} of the Secret is empty" in outcome.message["message"]
    assert place.gate.seen == []


async def test_a_secret_of_something_else_is_refused_by_its_keys(pod: MakePod, place: Place) -> None:
    outcome = await pod(secret={"unknown": "x"}).fetch()
    assert outcome.message["reason"] == "ModelAccessDenied", outcome.log
    assert "the Secret has the keys unknown" in outcome.message["message"]


async def test_a_model_that_does_not_fit_is_refused_before_a_byte_comes(pod: MakePod, place: Place) -> None:
    outcome = await pod(options=["--cache-limit", "1000000"]).fetch()
    assert outcome.message["reason"] == "DiskFull", outcome.log
    assert place.gate.sent == 0


async def test_weights_that_are_larger_than_the_memory_are_refused(pod: MakePod, place: Place) -> None:
    outcome = await pod(options=["--memory-limit", "1000000"]).fetch()
    assert outcome.message["reason"] == "OutOfMemory", outcome.log
    assert "spec.resources.limits.memory" in outcome.message["message"]
    assert place.gate.sent == 0 or place.packed


async def test_a_model_in_the_cache_is_served_while_its_source_fails(
    pod: MakePod, place: Place, servers: Servers
) -> None:
    await pod().fetch()
    place.gate.faults.append(Fault("api", status=503))
    second = pod("second")
    outcome = await second.fetch()
    assert_model(outcome, second, servers.model)
    assert "which is in the cache" in outcome.log


async def test_who_cannot_be_reached_is_named(pod: MakePod, place: Place) -> None:
    (free,) = free_ports(1)
    secret = {key: value.replace(str(place.gate.port), str(free)) for key, value in place.credentials.items()}
    outcome = await pod(uri=place.uri.replace(str(place.gate.port), str(free)), secret=secret).fetch()
    assert outcome.message["reason"] == "ModelDownloadFailed", outcome.log


async def test_memory_does_not_grow_with_the_model(pod: MakePod, place: Place, tmp_path: Path) -> None:
    file = tmp_path / "peak"
    outcome = await pod(prefix=peak_memory.measuring(file)).fetch()
    assert outcome.code == contract.EXIT_OK, outcome.log
    peak = peak_memory.measured(file) >> 20
    print(f"{place.uri}: peak memory {peak} MiB")
    assert peak < 300
