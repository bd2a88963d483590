"""What only registries have: tags that move, indexes, layers, tokens."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from e2e.sources import registry
from gptservice_runtime import contract, digest
from tests.runtime.sources.conftest import MakePod
from tests.runtime.sources.fetching import assert_model
from tests.runtime.sources.places import Place, Servers

pytestmark = pytest.mark.api  # needs Go binaries, no cluster


@pytest.fixture
def place(servers: Servers) -> Iterator[Place]:
    with servers.place("oci") as found:
        yield found


def at(place: Place, name: str) -> Place:
    return replace(place, uri=f"oci://{place.gate.address}/{name}")


async def test_a_tag_is_resolved_and_a_digest_asks_nobody_again(
    place: Place, pod_at: MakePod, servers: Servers
) -> None:
    digest_of_manifest = servers.registry.push_files(servers.model, "org/pinned", "v1")
    first = await pod_at(at(place, "org/pinned:v1")).fetch()
    assert first.message["revision"] == digest_of_manifest
    asked = len(place.gate.seen)
    pinned = pod_at(at(place, f"org/pinned@{digest_of_manifest}"), "pinned")
    outcome = await pinned.fetch()
    assert_model(outcome, pinned, servers.model)
    assert outcome.message["revision"] == digest_of_manifest
    assert len(place.gate.seen) == asked


async def test_a_tag_that_moves_is_another_revision(place: Place, pod_at: MakePod, servers: Servers) -> None:
    moving = at(place, "org/moving")
    entries = {"config.json": b"{}", "model.safetensors": b"first"}
    servers.registry.push_layers([registry.packed(entries)], "org/moving", "latest")
    first = await pod_at(moving).fetch()
    servers.registry.push_layers([registry.packed({**entries, "model.safetensors": b"second"})], "org/moving", "latest")
    second = await pod_at(moving, "second").fetch()
    assert first.message["revision"] != second.message["revision"]
    assert first.message["digest"] != second.message["digest"]


async def test_an_index_leads_to_its_manifest(place: Place, pod_at: MakePod, servers: Servers) -> None:
    inner = servers.registry.push_files(servers.model, "org/index", "inner")
    outer = servers.registry.push_index("org/index", "v1", inner, 1000)
    one = pod_at(at(place, "org/index:v1"))
    outcome = await one.fetch()
    assert_model(outcome, one, servers.model)
    assert outcome.message["revision"] == outer


async def test_layers_with_gzip_are_unpacked(place: Place, pod_at: MakePod, servers: Servers) -> None:
    layer = registry.packed_folder(servers.model, "models/", "w:gz")
    servers.registry.push_layers([layer], "org/gzip", "v1", registry.TAR_GZIP)
    one = pod_at(at(place, "org/gzip:v1"))
    assert_model(await one.fetch(), one, servers.model)


async def test_a_layer_that_leads_out_of_its_folder_is_refused(place: Place, pod_at: MakePod, servers: Servers) -> None:
    entries = {"config.json": b"{}", "model.safetensors": b"x", "../../../pwned": b"x"}
    servers.registry.push_layers([registry.packed(entries)], "org/evil", "v1")
    one = pod_at(at(place, "org/evil:v1"))
    outcome = await one.fetch()
    assert outcome.message["reason"] == "ModelAccessDenied", outcome.log
    assert "leads out of its folder" in outcome.message["message"]
    assert not list(one.folder.rglob("pwned"))


async def test_credentials_of_another_registry_are_named_by_host(place: Place, pod_at: MakePod) -> None:
    secret = {".dockerconfigjson": registry.docker_configuration("other.example.com")}
    outcome = await pod_at(place, secret=secret).fetch()
    assert outcome.message["reason"] == "ModelAccessDenied", outcome.log
    assert "for other.example.com, and none for" in outcome.message["message"]
    assert place.gate.seen == []


async def test_without_credentials_the_remedy_is_a_secret(place: Place, pod_at: MakePod) -> None:
    outcome = await pod_at(place, secret={}).fetch()
    assert outcome.message["reason"] == "ModelAccessDenied", outcome.log
    assert ".dockerconfigjson" in outcome.message["message"]


async def test_a_password_is_shown_to_who_gives_tokens_and_a_token_to_the_registry(
    place: Place, pod_at: MakePod
) -> None:
    assert (await pod_at(place).fetch()).code == contract.EXIT_OK
    shown = {
        (one.path.partition("?")[0] == "/token", (one.authorization or "").partition(" ")[0]) for one in place.gate.seen
    }
    assert shown == {(True, "Basic"), (False, "Bearer"), (False, "")}


async def test_one_gguf_file_is_a_model(place: Place, pod_at: MakePod, servers: Servers) -> None:
    folder = servers.model.with_name("gguf")
    folder.mkdir()
    (folder / "m.gguf").write_bytes(b"GGUF")
    servers.registry.push_files(folder, "org/gguf", "v1")
    one = pod_at(at(place, "org/gguf:v1"))
    outcome = await one.fetch()
    assert outcome.code == contract.EXIT_OK, outcome.log
    assert outcome.message["digest"] == digest.of_path(folder / "m.gguf")
