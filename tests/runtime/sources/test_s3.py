"""What only S3 has: ETags of parts, objects that are replaced, credentials of the pod's own."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from e2e.hub.faults import Fault
from e2e.sources import registry, s3
from gptservice_runtime import contract
from tests.runtime.harness import until
from tests.runtime.sources.conftest import MakePod
from tests.runtime.sources.fetching import assert_model
from tests.runtime.sources.places import Place, Servers

pytestmark = pytest.mark.api  # needs Go binaries, no cluster
PART = 5 << 20


@pytest.fixture
def place(servers: Servers) -> Iterator[Place]:
    with servers.place("s3") as found:
        yield found


@pytest.fixture
def in_parts(servers: Servers, place: Place, tmp_path: Path) -> Place:
    """A model whose weights were uploaded in parts: their ETag is not the MD5 of their bytes."""
    model = tmp_path / "large"
    model.mkdir()
    (model / "config.json").write_text("{}")
    (model / "model.safetensors").write_bytes(bytes(range(256)) * (2 * PART // 256 + 1000))
    servers.s3.upload(model, "large")
    servers.s3.upload_in_parts(model / "model.safetensors", "large/model.safetensors")
    return replace(place, uri="s3://models/large")


async def test_weights_that_were_uploaded_in_parts_are_checked_too(in_parts: Place, pod_at: MakePod) -> None:
    in_parts.gate.faults.append(Fault("cdn", name="model.safetensors", corrupt=True, times=1))
    outcome = await pod_at(in_parts).fetch()
    assert outcome.code == contract.EXIT_OK, outcome.log
    assert "what arrived is not what the object store announced" in outcome.log


async def test_an_object_that_is_replaced_meanwhile_is_not_mixed(
    in_parts: Place, pod_at: MakePod, servers: Servers
) -> None:
    in_parts.gate.faults.append(Fault("cdn", name="model.safetensors", seconds_per_mebibyte=0.3, stop_after=3 << 20))
    one = pod_at(in_parts)
    await one.start()
    await until(lambda: in_parts.gate.sent >= 1 << 20, "a part of the download")
    servers.s3.client().put_object(Bucket=s3.BUCKET, Key="large/model.safetensors", Body=b"other weights")
    in_parts.gate.faults.clear()
    outcome = await one.ended()
    assert outcome.message["reason"] == "ModelDownloadFailed", outcome.log
    assert "replaced while it was being fetched" in outcome.message["message"]
    again = await pod_at(in_parts, "again").fetch()
    assert again.code == contract.EXIT_OK, again.log


async def test_a_replaced_model_has_another_revision(place: Place, pod_at: MakePod, servers: Servers) -> None:
    client = servers.s3.client()
    for name, body in (("config.json", b"{}"), ("model.safetensors", b"weights")):
        client.put_object(Bucket=s3.BUCKET, Key=f"changing/{name}", Body=body)
    changing = replace(place, uri="s3://models/changing")
    first = await pod_at(changing).fetch()
    client.put_object(Bucket=s3.BUCKET, Key="changing/model.safetensors", Body=b"newer")
    second = await pod_at(changing, "second").fetch()
    assert first.message["revision"] != second.message["revision"]
    assert second.message["bytes"] == len(b"{}newer")


async def test_an_archive_is_a_model(place: Place, pod_at: MakePod, servers: Servers) -> None:
    packed = registry.packed_folder(servers.model, mode="w:gz")
    servers.s3.client().put_object(Bucket=s3.BUCKET, Key="packed/model.tar.gz", Body=packed)
    one = pod_at(replace(place, uri="s3://models/packed/model.tar.gz"))
    assert_model(await one.fetch(), one, servers.model)


async def test_a_gguf_object_is_linked_by_its_name(place: Place, pod_at: MakePod, servers: Servers) -> None:
    servers.s3.client().put_object(Bucket=s3.BUCKET, Key="m.Q4.gguf", Body=b"GGUF")
    one = pod_at(replace(place, uri="s3://models/m.Q4.gguf"))
    outcome = await one.fetch()
    assert outcome.code == contract.EXIT_OK, outcome.log
    assert one.link.resolve().name == "m.Q4.gguf"
    assert one.link.read_bytes() == b"GGUF"


async def test_the_pod_s_own_identity_opens_it(place: Place, pod_at: MakePod, servers: Servers) -> None:
    own = {key: value.strip() for key, value in place.credentials.items()}
    one = pod_at(place, secret={}, environment=own)
    assert_model(await one.fetch(), one, servers.model)


async def test_without_any_credentials_it_says_where_they_could_come_from(place: Place, pod_at: MakePod) -> None:
    variables = {"AWS_ENDPOINT_URL": place.gate.url, "AWS_EC2_METADATA_DISABLED": "true"}
    outcome = await pod_at(place, secret={}, environment=variables).fetch()
    assert outcome.message["reason"] == "ModelAccessDenied", outcome.log
    assert "neither modelCredentialsSecretRef nor the pod's service account" in outcome.message["message"]


async def test_half_of_the_credentials_is_refused(place: Place, pod_at: MakePod) -> None:
    half = {key: value for key, value in place.credentials.items() if key != "AWS_SECRET_ACCESS_KEY"}
    outcome = await pod_at(place, secret=half).fetch()
    assert outcome.message["reason"] == "ModelAccessDenied", outcome.log
    assert "but not AWS_SECRET_ACCESS_KEY" in outcome.message["message"]


async def test_a_slow_down_is_throttling(place: Place, pod_at: MakePod) -> None:
    place.gate.faults.append(Fault("cdn", status=503, body=b"<Error><Code>SlowDown</Code></Error>"))
    outcome = await pod_at(place).fetch()
    assert outcome.message["reason"] == "HubThrottled", outcome.log
