"""The generated key: when its Secret is made, what is in it, and that its value is nowhere else."""

import base64
import re
from typing import Any

import pytest
from kubernetes.client import models

from gptservice_operator import errors, keys, names, render
from gptservice_operator.render.resolved import Resolved
from gptservice_operator.store import Observed
from tests.operator import builders
from tests.operator.builders import Body
from tests.operator.fake_cluster import FakeCluster

OURS = builders.uid_of("GPTService", "chat")
SECRET = names.key_secret("chat", OURS)
MODEL: Body = {"model": "pvc://models/m"}
GENERATED = builders.resolved(MODEL)
THEIRS = builders.resolved({**MODEL, "auth": {"apiKeys": {"secretRef": {"name": "team-keys"}}}})
NONE = builders.resolved({**MODEL, "auth": {"disabled": True}})
VALUE = "AbC-_" + "x" * 38


def deployment(annotations: Any = None, *, controller: str | None = OURS) -> Observed:
    metadata = {"name": "chat"} if annotations is None else {"name": "chat", "annotations": annotations}
    return Observed("d-1", controller, {"metadata": metadata})


def rendered(resolved: Resolved) -> Observed:
    """Return the Deployment as we have written it."""
    (manifest,) = [manifest for manifest in render.render(resolved) if manifest["kind"] == "Deployment"]
    return Observed("d-1", OURS, manifest)


@pytest.mark.parametrize(
    ("resolved", "live", "missing"),
    [
        pytest.param(GENERATED, None, True, id="no Deployment yet"),
        pytest.param(GENERATED, rendered(GENERATED), False, id="a Deployment that was written after it"),
        pytest.param(GENERATED, deployment(), True, id="one that says nothing: of an earlier version, or edited"),
        pytest.param(GENERATED, deployment("text"), True, id="annotations of a wrong type"),
        pytest.param(GENERATED, deployment({names.KEY_SECRET: "another"}), True, id="one that names another Secret"),
        pytest.param(GENERATED, rendered(THEIRS), True, id="one from when the user brought the keys"),
        pytest.param(GENERATED, deployment(controller="theirs"), False, id="somebody else's"),
        pytest.param(GENERATED, deployment(controller=None), False, id="nobody's"),
        pytest.param(THEIRS, None, False, id="the user brings the keys"),
        pytest.param(NONE, None, False, id="no key is asked for"),
    ],
)
def test_when_it_is_made(resolved: Resolved, live: Observed | None, missing: bool) -> None:
    assert keys.is_missing(resolved, live) is missing


def test_the_secret_is_one_that_kubernetes_knows_and_anybody_can_rotate() -> None:
    manifest = keys.render_secret(GENERATED, SECRET, "sk-key")
    models.V1Secret.model_validate(manifest)
    assert manifest["type"] == "Opaque"
    assert manifest["metadata"] == GENERATED.metadata(SECRET)
    assert names.controller_uid(manifest["metadata"]) == OURS
    assert names.labels("chat").items() <= manifest["metadata"]["labels"].items()
    assert "immutable" not in manifest
    assert {key: base64.b64decode(value) for key, value in manifest["data"].items()} == {"api-key": b"sk-key"}


def value_of(cluster: FakeCluster) -> str:
    (secret,) = cluster.secrets.values()
    return base64.b64decode(secret["data"]["api-key"]).decode()


async def make(cluster: FakeCluster, resolved: Resolved = GENERATED, **more: Any) -> None:
    await keys.make(cluster.as_cluster(), resolved, **more)


async def test_the_randomness_is_what_was_given() -> None:
    cluster, asked = FakeCluster(), list[int]()

    def random(count: int) -> str:
        asked.append(count)
        return VALUE

    await make(cluster, random=random)
    assert value_of(cluster) == f"sk-{VALUE}"
    assert asked == [32], "256 bits"


async def test_by_default_every_key_is_another_and_fits_every_client() -> None:
    values = set[str]()
    for _ in range(20):
        cluster = FakeCluster()
        await make(cluster)
        values.add(value_of(cluster))
    assert len(values) == 20
    assert all(re.fullmatch(r"sk-[A-Za-z0-9_-]{43}", value) for value in values)


async def test_one_that_is_there_stays_as_it_is() -> None:
    cluster = FakeCluster()
    await make(cluster)
    before = value_of(cluster)
    await make(cluster)
    assert value_of(cluster) == before
    assert cluster.posts == [SECRET, SECRET]


@pytest.mark.parametrize("resolved", [THEIRS, NONE], ids=["the user's", "none"])
async def test_without_a_generated_key_nothing_is_made(resolved: Resolved) -> None:
    cluster = FakeCluster()
    await make(cluster, resolved)
    assert cluster.posts == []


@pytest.mark.parametrize("kind", [errors.Waiting, errors.Invalid, errors.Absent, errors.Transient])
async def test_a_refusal_keeps_its_kind_and_does_not_tell_the_key(kind: type[errors.OperatorError]) -> None:
    """An admission webhook may quote the object that it refuses."""
    encoded = base64.b64encode(f"sk-{VALUE}".encode()).decode()
    cluster = FakeCluster()
    cluster.failures["create", "Secret"] = kind(f"create Secret: denied: data: {encoded} which is sk-{VALUE}")
    with pytest.raises(kind) as raised:
        await make(cluster, random=lambda _: VALUE)
    assert str(raised.value) == "create Secret: denied: data: *** which is ***"
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__, "a traceback would show the first error"


async def test_the_server_s_wish_to_wait_is_kept() -> None:
    cluster = FakeCluster()
    cluster.failures["create", "Secret"] = errors.Transient("busy", retry_after=7)
    with pytest.raises(errors.Transient) as raised:
        await make(cluster)
    assert raised.value.retry_after == 7


async def test_the_log_names_the_secret_and_nothing_of_its_value(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    await make(FakeCluster(), random=lambda _: VALUE)
    assert SECRET in caplog.text
    assert VALUE not in caplog.text
    assert base64.b64encode(f"sk-{VALUE}".encode()).decode() not in caplog.text


def test_no_rendered_manifest_is_a_secret_or_holds_one() -> None:
    """What is rendered is hashed, stored, compared and logged."""
    for resolved in (GENERATED, THEIRS, NONE):
        assert "Secret" not in {manifest["kind"] for manifest in render.render(resolved)}
        assert "sk-" not in str(render.render(resolved))
