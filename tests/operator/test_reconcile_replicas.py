"""Turning autoscaling on and off in whole passes: a process that dies after any write leaves a state that heals."""

from collections.abc import Callable
from typing import Any

import pytest

from gptservice_operator import errors, names
from tests.operator import builders
from tests.operator.builders import NAMESPACE, Body
from tests.operator.fake_cluster import FakeCluster, Write
from tests.operator.test_reconcile import KEY, STATUS, World

HPA = "HorizontalPodAutoscaler"
SCALED: Body = {"model": "pvc://models/m", "replicas": 3, "autoscaling": {"minReplicas": 2, "maxReplicas": 4}}
FIXED: Body = {"model": "pvc://models/m", "replicas": 3}
STOPPED: Body = {**SCALED, "replicas": 0}
HAND_OVER = f"Deployment ({names.REPLICAS_MANAGER})"


class DeathError(Exception):
    """The process was killed."""


class Mortal(FakeCluster):
    """Dies after so many writes of children."""

    left: int | None = None

    async def apply(self, manifest: Any, *, manager: str, uid: str | None = None) -> Body:
        found = await super().apply(manifest, manager=manager, uid=uid)
        self._count()
        return found

    async def delete(self, kind: Any, namespace: str, name: str, uid: str) -> None:
        await super().delete(kind, namespace, name, uid)
        self._count()

    def _count(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left <= 0:
                raise DeathError


def world(spec: Body) -> World:
    made = World()
    made.cluster = Mortal()
    made.cluster.add(builders.service(spec=spec))
    made.see()
    return made


def count(made: World) -> int:
    return int(made.body("Deployment")["spec"]["replicas"])


def owners(made: World) -> frozenset[str]:
    return builders.replicas_managers(made.body("Deployment"))


def autoscaler(made: World) -> Body | None:
    return made.cluster.get_body(HPA, "chat")


def scale(made: World, replicas: int) -> None:
    """Do what the autoscaler does: it alone owns the count afterwards."""
    deployment = made.cluster.edit("Deployment", "chat")
    deployment["spec"]["replicas"] = replicas
    builders.own_replicas(deployment, "kube-controller-manager")
    made.see()


def set_spec(made: World, spec: Body) -> None:
    body = made.cluster.edit("GPTService", "chat")
    body["spec"] = spec
    body["metadata"]["generation"] += 1
    made.see()


def children(writes: list[Write]) -> list[str]:
    return [write.kind for write in writes if write.kind != STATUS]


async def test_a_new_service_gets_its_count_and_then_its_autoscaler() -> None:
    made = world(SCALED)
    await made.reconciler().reconcile(KEY)
    written = children(made.cluster.writes)
    assert written[written.index("Deployment") :][:3] == ["Deployment", HAND_OVER, HPA]
    assert (count(made), owners(made)) == (3, {names.REPLICAS_MANAGER})


async def test_the_autoscaler_s_steps_cause_no_write() -> None:
    made = world(SCALED)
    await made.settle()
    for replicas in (4, 2, 3):
        scale(made, replicas)
        assert children_of(await made.run_pass()) == []
        assert count(made) == replicas


def children_of(kinds: list[str]) -> list[str]:
    return [kind for kind in kinds if kind != STATUS]


async def test_an_edit_of_the_spec_leaves_the_count_alone() -> None:
    made = world(SCALED)
    await made.settle()
    scale(made, 4)
    set_spec(made, {**SCALED, "maxTokens": 7})
    assert children_of(await made.run_pass()) == ["ControllerRevision", "Deployment"]
    assert (count(made), owners(made)) == (4, {"kube-controller-manager"})


async def test_off_deletes_the_autoscaler_before_the_count_is_applied() -> None:
    made = world(SCALED)
    await made.settle()
    scale(made, 4)
    set_spec(made, FIXED)
    assert children_of(await made.run_pass()) == [f"delete {HPA}", "Deployment"]
    assert autoscaler(made) is None
    assert (count(made), owners(made)) == (3, {names.MANAGER})
    made.see()
    assert await made.run_pass() == []


async def test_an_autoscaler_that_is_held_by_a_finalizer_keeps_its_count() -> None:
    made = world(SCALED)
    await made.settle()
    scale(made, 4)
    made.cluster.edit(HPA, "chat")["metadata"]["finalizers"] = ["example.com/held"]
    set_spec(made, FIXED)
    assert await made.failing_pass(errors.Transient) == [f"delete {HPA}", STATUS]
    assert count(made) == 4
    assert made.condition("Ready")["reason"] == "ChildDeleting"
    assert "example.com/held" in made.condition("Ready")["message"]
    made.cluster.remove(HPA, "chat")
    made.see(lost=None)
    made.forget(HPA, "chat")
    await made.settle()
    assert count(made) == 3


async def test_an_autoscaler_without_its_label_is_found_when_it_has_to_go() -> None:
    made = world(SCALED)
    await made.settle()
    scale(made, 4)
    del made.cluster.edit(HPA, "chat")["metadata"]["labels"]
    made.forget(HPA, "chat")
    set_spec(made, FIXED)
    assert children_of(await made.run_pass()) == [f"delete {HPA}", "Deployment"]
    assert count(made) == 3


@pytest.mark.parametrize("kind", ["Deployment", HPA])
async def test_nothing_is_done_about_the_count_while_one_of_the_two_cannot_be_seen(kind: str) -> None:
    made = world(SCALED)
    await made.settle()
    scale(made, 4)
    set_spec(made, {**SCALED, "maxTokens": 7})
    made.forget(kind, "chat")
    made.cluster.failures["get", kind] = errors.Transient("no answer")
    assert await made.failing_pass(errors.Transient) == ["ControllerRevision", STATUS]
    assert count(made) == 4


async def test_a_stop_and_a_resume() -> None:
    made = world(SCALED)
    await made.settle()
    scale(made, 4)
    set_spec(made, STOPPED)
    await made.settle()
    assert (count(made), autoscaler(made)) == (0, None)
    set_spec(made, SCALED)
    await made.settle()
    assert (count(made), owners(made)) == (3, {names.REPLICAS_MANAGER})
    assert autoscaler(made) is not None


async def running(spec: Body) -> World:
    """Return a service with four running pods, by its autoscaler if it has one."""
    made = world(spec)
    await made.settle()
    scale(made, 4)
    return made


REFUSED: list[Any] = [
    pytest.param({"model": "https://host/folder"}, id="by the operator"),
    pytest.param({"model": "missing"}, id="for want of a model"),
    pytest.param({"model": 5}, id="as it cannot be read"),
]


@pytest.mark.parametrize("change", REFUSED)
@pytest.mark.parametrize("spec", [FIXED, SCALED])
async def test_a_stop_is_carried_out_though_the_spec_is_refused(spec: Body, change: Body) -> None:
    made = await running(spec)
    set_spec(made, {**spec, **change, "replicas": 0})
    assert children_of(await made.run_pass()) == [HAND_OVER]
    assert count(made) == 0
    assert "no pod is left to run" in made.condition("Accepted")["message"]
    made.see()
    assert children_of(await made.run_pass()) == []
    set_spec(made, {**spec, "replicas": 0})
    await made.settle()
    assert (count(made), owners(made), autoscaler(made)) == (0, {names.MANAGER}, None)
    set_spec(made, spec)
    await made.settle()
    assert count(made) == 3


@pytest.mark.parametrize("replicas", [False, "0", None, 1])
async def test_nothing_but_a_count_of_0_stops_a_refused_service(replicas: Any) -> None:
    made = await running(FIXED)
    set_spec(made, {"model": "missing", "replicas": replicas})
    assert children_of(await made.run_pass()) == []
    assert count(made) == 4


async def test_a_stop_does_not_wait_for_the_revision_of_the_same_edit() -> None:
    made = await running(SCALED)
    made.cluster.failures["apply", "ControllerRevision"] = errors.Invalid("refused by a policy")
    set_spec(made, {**STOPPED, "maxTokens": 7})
    with pytest.raises(errors.Invalid):
        await made.reconciler().reconcile(KEY)
    assert count(made) == 0


async def test_a_stop_does_not_wait_for_an_autoscaler_that_is_held() -> None:
    made = await running(SCALED)
    made.cluster.edit(HPA, "chat")["metadata"]["finalizers"] = ["example.com/held"]
    set_spec(made, STOPPED)
    assert (await made.failing_pass(errors.Transient))[:2] == [HAND_OVER, f"delete {HPA}"]
    assert count(made) == 0
    assert "example.com/held" in made.condition("Ready")["message"]


async def test_a_stop_does_not_wait_for_an_autoscaler_that_cannot_be_seen() -> None:
    made = await running(SCALED)
    made.forget(HPA, "chat")
    made.cluster.failures["get", HPA] = errors.Transient("no answer")
    set_spec(made, STOPPED)
    await made.failing_pass(errors.Transient)
    assert count(made) == 0


async def test_a_deployment_of_somebody_else_is_not_stopped() -> None:
    made = await running(FIXED)
    made.cluster.edit("Deployment", "chat")["metadata"]["ownerReferences"] = []
    made.see()
    set_spec(made, {"model": "missing", "replicas": 0})
    assert children_of(await made.run_pass()) == []
    assert count(made) == 4


async def test_a_deployment_scaled_to_nothing_by_hand_is_raised_again() -> None:
    """An autoscaler leaves 0 alone for ever."""
    made = world(SCALED)
    await made.settle()
    scale(made, 0)
    await made.run_pass()
    assert count(made) == 3


HAND_OVERS: list[Any] = [
    pytest.param(FIXED, SCALED, lambda made: None, id="on"),
    pytest.param(SCALED, FIXED, lambda made: scale(made, 4), id="off, after the autoscaler has acted"),
    pytest.param(SCALED, FIXED, lambda made: None, id="off, before it has acted"),
    pytest.param(SCALED, STOPPED, lambda made: scale(made, 4), id="stop"),
    pytest.param(STOPPED, SCALED, lambda made: None, id="resume"),
    pytest.param(None, SCALED, lambda made: None, id="creation"),
]


@pytest.mark.parametrize("deadly", range(1, 7))
@pytest.mark.parametrize(("before", "after", "meanwhile"), HAND_OVERS)
async def test_death_after_any_write_heals(
    before: Body | None, after: Body, meanwhile: Callable[[World], None], deadly: int
) -> None:
    made = world(before or after)
    cluster = made.cluster
    assert isinstance(cluster, Mortal)
    if before is not None:
        await made.settle()
        meanwhile(made)
        set_spec(made, after)
    seen: list[int] = []
    cluster.left = deadly
    try:
        await made.reconciler().reconcile(KEY)
    except DeathError:
        seen.append(count(made) if made.cluster.get_body("Deployment", "chat") else -1)
    cluster.left = None
    made.store = cluster.fill(type(made.store)())
    await made.settle()
    stopped = after is STOPPED
    assert (autoscaler(made) is not None) == (after is SCALED)
    assert count(made) == (0 if stopped else 3)
    assert names.MANAGER in owners(made) or after is SCALED
    if before is not None and not stopped and before is not STOPPED:
        # On the way, the count never fell to what the API server says where nobody says anything.
        assert 1 not in seen


async def test_the_namespace_of_a_hand_over_is_the_service_s() -> None:
    made = world(SCALED)
    await made.reconciler().reconcile(KEY)
    (write,) = [write for write in made.cluster.writes if write.kind == HAND_OVER]
    assert write.body == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "chat", "namespace": NAMESPACE},
        "spec": {"replicas": 3},
    }
    assert write.uid == made.body("Deployment")["metadata"]["uid"]
