"""`gptservice-runtime inspect` as people run it, against real servers: what it says is what a fetch then finds."""

import asyncio
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e import documents
from e2e.hub.faults import Fault
from e2e.hub.sample import make_repository
from e2e.hub.server import Hub
from e2e.sources import registry
from gptservice_operator.api import v1
from gptservice_runtime import contract
from tests.runtime.harness import PACKAGE_PARENT
from tests.runtime.sources import fetching, places
from tests.runtime.sources.conftest import MakePod
from tests.runtime.sources.fetching import size_of
from tests.runtime.sources.places import Place, Servers

COMMAND = (sys.executable, "-m", "gptservice_runtime", "inspect", "--stall", "0.5", "--pause", "0.01")
BY_DIGEST = ("oci",)
"""Places that tell every file's sha256."""
PINNED = ("oci", "oci-tar")


@dataclass(frozen=True)
class Said:
    """How the command ended, and what it said."""

    code: int
    out: str
    err: str

    @property
    def spec(self) -> Any:
        assert self.code == contract.EXIT_OK, self.err
        (spec,) = yaml.safe_load(self.out).values()
        v1.GPTModelSpec.model_validate(spec)
        return spec


def contents(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


async def inspect(
    folder: Path, uri: str, *flags: str, secret: Mapping[str, str] | None = None, endpoint: str = ""
) -> Said:
    """In a folder of its own, in which nothing may be written."""
    credentials, work = folder / "credentials", folder / "work"
    for made in (credentials, work):
        made.mkdir(exist_ok=True)
    for key, value in (secret or {}).items():
        (credentials / key).write_text(value)
    given = ("--credentials-directory", str(credentials)) if secret else ()
    before = contents(folder)
    process = await asyncio.create_subprocess_exec(
        *(*COMMAND, "--uri", uri, *given, *flags),
        cwd=work,
        env={
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": str(PACKAGE_PARENT),
            **({"HF_ENDPOINT": endpoint} if endpoint else {}),
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert contents(folder) == before
    assert process.returncode is not None
    return Said(process.returncode, out.decode(), err.decode())


def weights_of(model: Path) -> int:
    """The second copy in another format is not served."""
    return sum(path.stat().st_size for path in model.glob("*.safetensors"))


@pytest.fixture(params=places.NAMES)
def place(request: pytest.FixtureRequest, servers: Servers) -> Iterator[Place]:
    with servers.place(request.param) as found:
        yield found


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return str(request.node.callspec.params["place"])


def assert_no_secret(said: Said, place: Place) -> None:
    for secret in [*place.credentials.values(), *(place.wrong or {}).values(), "Signature=", "token-of-the-gate"]:
        if not secret.startswith(("http", "us-east", "-----BEGIN")) and secret != "puller":
            assert secret.strip() not in said.out + said.err


@pytest.mark.api  # needs Go binaries, no cluster
async def test_it_says_what_a_fetch_finds(
    place: Place, name: str, tmp_path: Path, servers: Servers, pod_at: MakePod
) -> None:
    said = await inspect(tmp_path, place.uri, secret=place.credentials)
    assert place.gate.sent == 0
    assert_no_secret(said, place)
    one = pod_at(place, uri=said.spec["uri"])
    fetched = await one.fetch()
    fetching.assert_model(fetched, one, servers.model)
    assert f"revision {fetched.message['revision']}" in said.out
    assert (said.spec["uri"] != place.uri) == (name in PINNED)
    assert said.spec.get("digest") == (fetched.message["digest"] if name in BY_DIGEST else None)
    if not place.packed:
        assert int(said.spec["weightsSize"]) == weights_of(servers.model)
        assert f"5 files, 3.0 MB ({size_of(servers.model)} bytes)" in said.out


@pytest.mark.api
@pytest.mark.parametrize("place", ["https"], indirect=True)
async def test_of_an_archive_the_size_is_the_archive_s(place: Place, tmp_path: Path, servers: Servers) -> None:
    said = await inspect(tmp_path, f"{place.uri}?Signature=secret", secret=place.credentials)
    assert int(said.spec["weightsSize"]) == (servers.files / "model.tar").stat().st_size > weights_of(servers.model)
    assert said.spec["uri"] == place.uri
    assert "behind its '?'" in said.out
    assert "secret" not in said.out + said.err


@pytest.mark.api
@pytest.mark.parametrize("place", ["oci-tar"], indirect=True)
async def test_of_compressed_layers_no_size_is_told(place: Place, tmp_path: Path, servers: Servers) -> None:
    packed = registry.packed_folder(servers.model, mode="w:gz")
    servers.registry.push_layers([packed], "org/compressed", "v1", registry.TAR_GZIP)
    uri = place.uri.replace("org/image", "org/compressed")
    said = await inspect(tmp_path, uri, secret=place.credentials)
    assert "weightsSize" not in said.spec
    assert f"1 archive, {len(packed) / 1e6:.1f} MB" in said.out


@pytest.mark.api
async def test_what_is_not_there_is_told(place: Place, tmp_path: Path) -> None:
    said = await inspect(tmp_path, place.missing, secret=place.credentials)
    assert (said.code, said.out) == (contract.EXIT_FAILURE, "")
    assert "ModelNotFound: " in said.err
    assert "Traceback" not in said.err


@pytest.mark.api
@pytest.mark.parametrize("place", [name for name in places.NAMES if name != "gs"], indirect=True)
async def test_wrong_credentials_are_refused_and_not_told(place: Place, tmp_path: Path) -> None:
    said = await inspect(tmp_path, place.uri, secret=place.wrong)
    assert said.code == contract.EXIT_FAILURE
    assert "ModelAccessDenied: " in said.err
    assert place.remedy in said.err
    assert_no_secret(said, place)


LASTING = [
    pytest.param(Fault("api", status=503), "ModelDownloadFailed", id="fails"),
    pytest.param(Fault("api", status=429, headers={"Retry-After": "0"}), "HubThrottled", id="throttled"),
    pytest.param(Fault("api", stop_after=0), "ModelDownloadStalled", id="stalls"),
]


@pytest.mark.api
@pytest.mark.parametrize("place", ["s3", "oci"], indirect=True)
@pytest.mark.parametrize(("fault", "reason"), LASTING)
async def test_a_source_that_does_not_answer_is_soon_given_up(
    place: Place, tmp_path: Path, fault: Fault, reason: str
) -> None:
    place.gate.faults.append(Fault(**vars(fault)))
    said = await inspect(tmp_path, place.uri, secret=place.credentials)
    assert said.code == contract.EXIT_FAILURE
    assert f"{reason}: " in said.err
    assert "that was try 3 of 3" in said.err


async def test_a_hub_s_model_is_pinned_to_its_commit(hub: Hub, tmp_path: Path, pod: MakePod) -> None:
    said = await inspect(tmp_path, "org/name", endpoint=hub.endpoint)
    repository = hub.repositories["org/name"]
    assert said.spec["uri"] == f"hf://org/name@{repository.commit}"
    assert int(said.spec["weightsSize"]) == weights_of(repository.folder)
    fetched = await pod(uri=said.spec["uri"]).fetch()
    assert fetched.message["revision"] == repository.commit


async def test_the_page_s_command_prints_what_the_page_shows(tmp_path: Path) -> None:
    page, name = "docs/operations.md: Where models come from", "Qwen/Qwen3-0.6B"
    command = documents.block("docs/operations.md: Where models come from, sh 1").text
    repository = make_repository(tmp_path / "hub", 3_000_000)
    async with Hub({name: repository}).serving() as hub:
        process = await asyncio.create_subprocess_shell(
            command,
            env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HF_ENDPOINT": hub.endpoint},
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await process.communicate()
    printed = out.decode().replace(repository.commit, "<commit>")
    shown = documents.block(f"{page}, text 1").text
    numbers = re.compile(r"[0-9.]+ [GM]B|\b[0-9]+\b")
    assert numbers.sub("…", printed) == numbers.sub("…", shown)


async def test_a_hub_without_such_a_model(hub: Hub, tmp_path: Path) -> None:
    said = await inspect(tmp_path, "hf://org/none", endpoint=hub.endpoint)
    assert (said.code, said.out) == (contract.EXIT_FAILURE, "")
    assert "ModelAccessDenied: " in said.err or "ModelNotFound: " in said.err


async def test_a_folder_stands_for_a_claim(hub: Hub, tmp_path: Path) -> None:
    model = hub.repositories["org/name"].folder
    said = await inspect(tmp_path, f"pvc://models/{model.name}", "--source-root", str(model.parent))
    assert said.spec == {"uri": f"pvc://models/{model.name}", "weightsSize": str(weights_of(model))}


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("ftp://host/m.tar", "it serves hf://"),
        ("pvc://models/none", "there is no"),
        ("https://user:password-of-one@host/m.tar", "write https://host/path"),
        ("https://host/folder?Signature=secret-of-one", "name one .tar"),
    ],
)
async def test_what_cannot_be_asked_is_refused_without_secrets(tmp_path: Path, uri: str, words: str) -> None:
    said = await inspect(tmp_path, uri)
    assert (said.code, said.out) == (contract.EXIT_FAILURE, "")
    assert words in said.err
    assert "of-one" not in said.err


@pytest.mark.parametrize("flag", ["--cache-limit", "--credentials-directory", "--token-directory"])
async def test_a_wrong_flag_is_refused(tmp_path: Path, flag: str) -> None:
    """A folder that is not there, too: asking without credentials would only seem to answer."""
    said = await inspect(tmp_path, "hf://org/name", flag, "5")
    assert said.code == contract.EXIT_USAGE
    assert flag in said.err


@pytest.mark.parametrize(
    "uri",
    [
        "https://[x/m.tar?sig=SIGNED",
        "https://host:99999/m.tar?sig=SIGNED",
        "https://..../m.tar?sig=SIGNED",
        "oci://r:99999/a",
        "http://host/m.tar?sig=SIGNED",
        "hf://org/name?token=SIGNED",
        "s3://bucket/path?sig=SIGNED",
    ],
)
async def test_what_is_no_address_is_a_reason_that_repeats_no_signature(tmp_path: Path, uri: str) -> None:
    said = await inspect(tmp_path, uri)
    assert said.code == contract.EXIT_FAILURE
    assert "Traceback" not in said.err
    assert said.err.startswith("gptservice-runtime inspect: InvalidSpec: ")
    assert "SIGNED" not in said.err + said.out
