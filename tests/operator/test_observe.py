"""Children that the watches do not show are looked at one by one, before anything is written."""

import pytest

from gptservice_operator import errors, names, observe, render
from gptservice_operator.actions import child_key
from gptservice_operator.store import Observed, Store
from tests.operator import builders
from tests.operator.builders import NAMESPACE, Body
from tests.operator.fake_cluster import FakeCluster

OWNER = builders.uid_of("GPTService", "chat")
DESIRED = render.render(builders.resolved())
KEYS = [child_key(manifest) for manifest in DESIRED]
DEPLOYMENT = ("Deployment", "chat")
OTHERS = [key for key in KEYS if key != DEPLOYMENT]


async def look(
    cluster: FakeCluster, store: Store, known: dict[tuple[str, str], Observed] | None = None
) -> observe.View:
    return await observe.complete(cluster.as_cluster(), store, KEYS, known or {}, builders.service())


def live(key: tuple[str, str]) -> Body:
    (manifest,) = [manifest for manifest in DESIRED if child_key(manifest) == key]
    return builders.live(manifest)


async def test_what_is_known_is_not_asked_for() -> None:
    cluster = FakeCluster()
    known = {key: Observed("u", OWNER, {}) for key in KEYS}
    view = await look(cluster, Store(), known)
    assert cluster.reads == []
    assert view.observed == known
    assert not view.absent


async def test_what_is_not_known_is_asked_for_once_each() -> None:
    cluster = FakeCluster()
    view = await look(cluster, Store(), {DEPLOYMENT: Observed("u", OWNER, {})})
    assert cluster.reads == [(kind, NAMESPACE, name) for kind, name in OTHERS]
    assert view.absent == set(OTHERS)
    assert set(view.observed) == {DEPLOYMENT}


async def test_our_own_without_its_label_is_found_and_stored() -> None:
    cluster, store = FakeCluster(), Store()
    store.put(builders.entry(builders.service()))
    body = cluster.add(live(DEPLOYMENT))
    del body["metadata"]["labels"]
    view = await look(cluster, store)
    assert view.observed[DEPLOYMENT].controller_uid == OWNER
    snapshot = store.snapshot((NAMESPACE, "chat"))
    assert snapshot is not None
    assert DEPLOYMENT in snapshot.children


async def test_somebody_else_s_is_found_and_not_stored() -> None:
    cluster, store = FakeCluster(), Store()
    store.put(builders.entry(builders.service()))
    cluster.add(live(DEPLOYMENT))["metadata"]["ownerReferences"] = []
    view = await look(cluster, store)
    assert view.observed[DEPLOYMENT].controller_uid is None
    snapshot = store.snapshot((NAMESPACE, "chat"))
    assert snapshot is not None
    assert not snapshot.children


async def test_one_that_cannot_be_looked_at_is_neither_there_nor_absent() -> None:
    cluster = FakeCluster()
    failure = errors.Transient("no answer")
    cluster.failures["get", "Deployment"] = failure
    view = await look(cluster, Store())
    assert view.unknown == {DEPLOYMENT: failure}
    assert view.absent == set(OTHERS)
    assert DEPLOYMENT not in view.observed


async def test_a_fault_of_our_own_escapes() -> None:
    cluster = FakeCluster()
    cluster.failures["get", "Service"] = KeyError("x")  # type: ignore[assignment]
    with pytest.raises(KeyError):
        await look(cluster, Store())


@pytest.mark.parametrize(
    ("body", "lives"),
    [
        pytest.param(builders.service(), True, id="it is there"),
        pytest.param(None, False, id="it is gone"),
        pytest.param(builders.service(uid="another"), False, id="it was made again"),
        pytest.param(builders.service(deletionTimestamp="2026-01-05T12:00:00Z"), False, id="it is being deleted"),
    ],
)
async def test_whether_the_service_still_lives(body: Body | None, lives: bool) -> None:
    cluster = FakeCluster()
    if body is not None:
        cluster.add(body)
    assert await observe.is_live(cluster.as_cluster(), NAMESPACE, "chat", OWNER) is lives


def test_the_manifests_of_these_tests_are_ours() -> None:
    assert {names.controller_uid(manifest["metadata"]) for manifest in DESIRED} == {OWNER}
