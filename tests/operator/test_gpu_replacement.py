"""Whole passes: a pod whose GPU is called unhealthy is deleted once, and neither a crash nor a restart makes it two."""

from typing import Any

import pytest

from gptservice_operator import errors, gpu_health, names
from tests.operator import builders, test_kept_templates
from tests.operator.builders import Body
from tests.operator.test_kept_templates import REVISION, key, restart
from tests.operator.test_reconcile import KEY, STATUS, World, settled

DELETED = "delete Pod"
TWO: Body = {"model": "pvc://models/m", "replicas": 2}


def run(world: World, name: str, health: str, **more: Any) -> None:
    labels = {**names.labels("chat"), names.REVISION: key(world)}
    one = builders.on_device(health=health)
    world.cluster.add(builders.pod(name, ready=True, labels=labels, containers=[one], **more))
    world.see()


async def ill(*, beside: bool = True) -> World:
    """Return a world with a pod on an unhealthy GPU, and another one beside it."""
    world = await settled(TWO)
    counts = {"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "availableReplicas": 2}
    world.cluster.edit("Deployment", "chat")["status"] = counts
    run(world, "bad", "Unhealthy")
    if beside:
        run(world, "good", "Healthy")
    return world


def mark(world: World) -> str | None:
    (revision,) = [body for (kind, *_), body in world.cluster.objects.items() if kind == REVISION]
    found: str | None = revision["metadata"]["annotations"].get(names.GPU_UNHEALTHY)
    return found


async def test_it_is_kept_before_the_pod_goes() -> None:
    world = await ill()
    assert await world.run_pass() == [REVISION, DELETED, STATUS]
    assert str(mark(world)).startswith(builders.uid_of("Pod", "bad"))
    assert world.cluster.get_body("Pod", "good") is not None


async def test_what_is_told() -> None:
    world = await ill(beside=False)
    await world.settle()
    degraded = world.condition("Degraded")
    assert (degraded["status"], degraded["reason"]) == ("True", "GPUUnhealthy")
    for said in ("pod bad", "GPU-1 (nvidia.com/gpu)", "nvidia-smi"):
        assert said in degraded["message"]
    assert world.condition("Ready")["status"] == "True"
    assert world.cluster.get_body("Pod", "bad") is not None, "no other serves"


async def test_no_pod_goes_that_nothing_would_remember() -> None:
    world = await ill()
    world.cluster.failures["apply", REVISION] = errors.Transient("no answer")
    await world.failing_pass(errors.Transient)
    assert world.cluster.get_body("Pod", "bad") is not None
    assert mark(world) is None


async def test_a_deletion_that_fails_is_tried_again() -> None:
    world = await ill()
    world.cluster.failures["delete", "Pod"] = errors.Transient("no answer")
    await world.failing_pass(errors.Transient)
    assert world.cluster.get_body("Pod", "bad") is not None
    world.cluster.failures.clear()
    restart(world)
    assert DELETED in await world.run_pass()


async def test_the_next_one_has_to_wait_whatever_process_sees_it_and_whatever_the_spec_says() -> None:
    world = await ill()
    await world.run_pass()
    world.edit_spec(maxTokens=7)
    restart(world)
    await world.settle()
    run(world, "worse", "Unhealthy")
    restart(world)
    again = await world.reconciler().reconcile(KEY)
    assert again is not None
    assert gpu_health.PERIOD_SECONDS - 60 < again < gpu_health.PERIOD_SECONDS
    assert world.cluster.get_body("Pod", "worse") is not None
    world.seconds += int(again) + 1
    assert DELETED in await world.run_pass()


@pytest.mark.parametrize("writes", [1, 2])
async def test_a_crash_makes_it_neither_two_nor_none(writes: int) -> None:
    world = await ill()
    await test_kept_templates.TestCrashes.crash_after(world, writes)
    restart(world)
    await world.settle()
    assert world.cluster.get_body("Pod", "bad") is None
    assert world.cluster.get_body("Pod", "good") is not None
