"""Whole passes: a revision that fails is rolled back and stays so, whatever process sees to it."""

import json
from typing import Any

import pytest

from gptservice_operator import errors, names, revisions
from gptservice_operator.marks import Marks
from tests.operator import builders, test_kept_templates
from tests.operator.builders import Body
from tests.operator.test_kept_templates import REVISION, key, restart, revision_bodies, text
from tests.operator.test_reconcile import KEY, STATUS, World, settled

GAVE_UP = json.dumps({"reason": "ModelLoadFailed", "message": "these weights are broken", "phase": "load"})
GIVEN_UP = builders.container(terminated={"exitCode": 1, "finishedAt": "2026-01-05T12:00:00Z", "message": GAVE_UP})
LACKS = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
FIRST: Body = {"model": "pvc://models/m", "replicas": 1, "maxTokens": 1}


def of_template(world: World) -> str | None:
    return revisions.key_of_template(world.body("Deployment")["spec"]["template"])


def run(world: World, name: str, revision: str, **more: Any) -> None:
    """Have the Deployment have a pod of a revision."""
    world.cluster.add(builders.pod(name, labels={**names.labels("chat"), names.REVISION: revision}, **more))
    world.see()


def serve(world: World, name: str, revision: str) -> None:
    """Have a pod be ready for long, and the Deployment be done."""
    run(world, name, revision, ready=True)
    body = world.cluster.edit("Pod", name)
    body["status"]["conditions"][-1]["lastTransitionTime"] = "2026-01-05T11:00:00Z"
    world.cluster.edit("Deployment", "chat")["status"] = {
        "observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1,
    }  # fmt: skip
    world.see()


def rolling(world: World) -> None:
    """Have the Deployment have a pod of its newest revision beside a ready one of the older."""
    status = {"observedGeneration": 1, "replicas": 2, "updatedReplicas": 1, "readyReplicas": 1}
    world.cluster.edit("Deployment", "chat")["status"] = status
    world.see()


async def stable(spec: Body = FIRST) -> World:
    """Return a world whose first revision is stable."""
    world = await settled(spec)
    serve(world, "old", key(world))
    await world.settle()
    assert world.body("GPTService")["status"]["stableRevision"] == names.controller_revision("chat", key(world))
    return world


async def edited(world: World, **fields: Any) -> tuple[str, str]:
    """Roll out an edit; return the keys before and after."""
    before = key(world)
    world.edit_spec(**fields)
    await world.settle()
    rolling(world)
    assert of_template(world) == key(world) != before
    return before, key(world)


async def failing(**fields: Any) -> tuple[World, str, str]:
    """Return a world whose second revision has a pod that gave up, and the keys of both."""
    world = await stable()
    old, new = await edited(world, **{"maxTokens": 2, **fields})
    run(world, "new", new, containers=[GIVEN_UP])
    return world, old, new


def marks(world: World, revision: str) -> dict[str, str]:
    return revisions.marks(revision_bodies(world)[names.controller_revision("chat", revision)])


def strategy(world: World) -> tuple[Any, Any]:
    found = world.body("Deployment")["spec"]["strategy"]["rollingUpdate"]
    return found["maxSurge"], found["maxUnavailable"]


def annotate_retry(world: World, value: str) -> None:
    world.cluster.edit("GPTService", "chat")["metadata"]["annotations"] = {names.RETRY: value}
    world.see()


class TestRollback:
    async def test_the_stable_revision_comes_back_once_the_failure_is_kept(self) -> None:
        world, old, new = await failing()
        before = text(revision_bodies(world)[names.controller_revision("chat", old)]["data"])
        assert await world.run_pass() == [REVISION, "Deployment", STATUS]
        assert of_template(world) == old
        assert marks(world, new)[names.FAILED].startswith("ModelLoadFailed: ")
        assert text(revision_bodies(world)[names.controller_revision("chat", old)]["data"]) == before
        assert strategy(world) == (1, 0)

    async def test_what_it_says_afterwards(self) -> None:
        world, old, _ = await failing()
        await world.settle()
        world.cluster.remove("Pod", "new")
        world.forget("Pod", "new")
        serve(world, "old", old)
        await world.settle()
        found = {kind: world.condition(kind) for kind in ("Accepted", "Available", "Degraded", "Ready", "Progressing")}
        assert {kind: one["status"] for kind, one in found.items()} == {
            "Accepted": "True", "Available": "True", "Degraded": "True", "Ready": "False", "Progressing": "False",
        }  # fmt: skip
        for kind in ("Degraded", "Ready"):
            assert found[kind]["reason"] == "RolledBack"
            assert "these weights are broken" in found[kind]["message"]
            assert "kubectl logs" not in found[kind]["message"], "that pod is gone"
        status = world.body("GPTService")["status"]
        assert status["phase"] == "Degraded"
        assert status["stableRevision"] == names.controller_revision("chat", old)
        assert status["lastFailure"]["reason"] == "ModelLoadFailed"

    async def test_it_stays_so_in_the_next_process_without_a_write(self) -> None:
        world, old, _ = await failing()
        await world.settle()
        world.cluster.remove("Pod", "new")
        restart(world)
        serve(world, "old", old)
        await world.settle()
        restart(world)
        assert await world.run_pass() == []
        assert of_template(world) == old

    async def test_the_stable_revision_is_made_again_for_the_next_failure(self) -> None:
        world, old, new = await failing()
        await world.settle()
        name = names.controller_revision("chat", old)
        world.cluster.remove(REVISION, name)
        world.forget(REVISION, name)
        await world.settle()
        assert world.body("GPTService")["status"]["stableRevision"] == name
        _, newer = await edited(world, maxTokens=3)
        run(world, "newer", newer, containers=[GIVEN_UP])
        await world.settle()
        assert of_template(world) == old != new

    async def test_one_whose_label_is_gone_is_not_made_anew(self) -> None:
        world, old, _ = await failing()
        await world.settle()
        name = names.controller_revision("chat", old)
        before = text(revision_bodies(world)[name]["data"])
        world.forget(REVISION, name)
        await world.settle()
        assert text(revision_bodies(world)[name]["data"]) == before
        assert world.body("GPTService")["status"]["stableRevision"] == name

    async def test_nothing_is_rolled_back_before_the_failure_is_kept(self) -> None:
        world, _, new = await failing()
        world.cluster.failures["apply", REVISION] = errors.Transient("no answer")
        await world.failing_pass(errors.Transient)
        assert of_template(world) == new

    @pytest.mark.parametrize("fields", [{"rollout": {"autoRollback": False}}, {"replicas": 0}])
    async def test_not_if_nobody_wants_it(self, fields: Body) -> None:
        world, _, new = await failing(**fields)
        await world.settle()
        assert (of_template(world), marks(world, new)) == (new, {})

    async def test_the_count_follows_the_spec_all_the_same(self) -> None:
        world, old, _ = await failing()
        await world.settle()
        world.edit_spec(replicas=3)
        await world.settle()
        assert world.body("Deployment")["spec"]["replicas"] == 3
        assert of_template(world) == old

    async def test_one_that_somebody_deletes_meanwhile_goes_on_running(self) -> None:
        world, old, _ = await failing()
        await world.settle()
        before = text(world.body("Deployment")["spec"]["template"])
        world.cluster.remove(REVISION, names.controller_revision("chat", old))
        restart(world)
        await world.settle()
        assert text(world.body("Deployment")["spec"]["template"]) == before
        assert world.condition("Ready")["reason"] == "RolledBack"


class TestWayOut:
    async def test_another_edit_is_rolled_out_and_the_failure_forgotten(self) -> None:
        world, _, new = await failing()
        await world.settle()
        world.edit_spec(maxTokens=3)
        await world.settle()
        assert of_template(world) == key(world) != new
        assert marks(world, new) == {}

    async def test_going_back_by_hand_too(self) -> None:
        world, old, new = await failing()
        await world.settle()
        world.edit_spec(maxTokens=1)
        await world.settle()
        assert of_template(world) == old
        assert marks(world, new) == {}

    async def test_a_retry_is_rolled_out_and_may_fail_again(self) -> None:
        world, old, new = await failing()
        await world.settle()
        world.cluster.remove("Pod", "new")
        restart(world)
        annotate_retry(world, "1")
        await world.settle()
        assert (of_template(world), set(marks(world, new))) == (new, {names.TRIED})
        ended = builders.container(terminated={"exitCode": 1, "message": GAVE_UP})
        run(world, "again", new, containers=[ended])
        await world.settle()
        assert of_template(world) == old
        assert marks(world, new)[names.RETRY_SEEN] == "1"

    async def test_a_retry_is_not_judged_by_the_pod_that_failed_before_it(self) -> None:
        world, old, new = await failing()
        await world.settle()
        assert world.cluster.get_body("Pod", "new") is not None
        annotate_retry(world, "1")
        await world.settle()
        restart(world)
        await world.settle()
        assert of_template(world) == new
        again = {"exitCode": 1, "finishedAt": "2026-01-05T13:00:00Z", "message": GAVE_UP}
        world.cluster.edit("Pod", "new")["status"]["containerStatuses"] = [builders.container(terminated=again)]
        world.see()
        await world.settle()
        assert of_template(world) == old

    async def test_clients_go_on_where_they_were(self) -> None:
        world, _, _ = await failing(tls={"secretName": "cert"})
        await world.settle()
        assert [port["port"] for port in world.body("Service")["spec"]["ports"]] == [80]
        status = world.body("GPTService")["status"]
        assert status["endpoint"] == "http://chat.team-a.svc:80"
        assert world.condition("Accepted")["reason"] == "AcceptedWithWarnings"
        assert "spec.tls: the pods that came back are as before" in world.condition("Accepted")["message"]


class TestReferences:
    async def test_what_the_stable_pods_need_stays_until_another_is_stable(self) -> None:
        world = await stable({**FIRST, "serviceAccountName": None})
        old, new = await edited(world, serviceAccountName="theirs")
        await world.settle()
        assert world.cluster.get_body("ServiceAccount", "chat-pods") is not None
        world.cluster.remove("Pod", "old")
        restart(world)
        run(world, "new", new, ready=True)
        done = {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1}
        world.cluster.edit("Deployment", "chat")["status"] = done
        since = "2026-01-05T12:00:30Z"
        world.cluster.edit("Pod", "new")["status"]["conditions"][-1]["lastTransitionTime"] = since
        world.see()
        await world.settle()
        assert world.cluster.get_body("ServiceAccount", "chat-pods") is not None, f"{old} is the stable one still"
        world.seconds = 200
        assert await world.reconciler().reconcile(KEY) == 0
        await world.settle()
        assert world.cluster.get_body("ServiceAccount", "chat-pods") is None


class TestSwitch:
    @staticmethod
    async def waiting(**fields: Any) -> tuple[World, str, str]:
        world = await stable({**FIRST, "gpu": {"count": 1}})
        old, new = await edited(world, **{"maxTokens": 2, **fields})
        told = {"reason": "Unschedulable", "message": LACKS, "lastTransitionTime": "2026-01-05T12:00:00Z"}
        run(world, "new", new, conditions=[builders.condition("PodScheduled", "False", **told)])
        return world, old, new

    async def test_it_is_kept_while_the_rollout_lasts(self) -> None:
        world, _, new = await self.waiting()
        assert 0 < (await world.reconciler().reconcile(KEY) or 0) < 60
        assert strategy(world) == (1, 0)
        world.seconds = 60
        await world.settle()
        assert strategy(world) == (0, 1)
        restart(world)
        assert await world.run_pass() == []
        world.cluster.remove("Pod", "old")
        world.cluster.remove("Pod", "new")
        restart(world)
        serve(world, "new", new)
        await world.settle()
        assert (strategy(world), marks(world, new)) == ((1, 0), {})

    async def test_pods_that_had_no_gpu_before_are_no_reason_to_keep_one_that_serves(self) -> None:
        world, old, _ = await self.waiting()
        world.edit_spec(replicas=4)
        for name in ("old-2", "old-3"):
            run(world, name, old, ready=True)
        world.seconds = 60
        await world.settle()
        assert strategy(world) == (0, 2)
        world.edit_spec(replicas=5)
        await world.settle()
        assert strategy(world) == (0, 3)

    async def test_nor_where_an_autoscaler_says_how_many_there_are(self) -> None:
        scaled = {"autoscaling": {"minReplicas": 1, "maxReplicas": 8}}
        world, old, _ = await self.waiting(**scaled)
        for name in ("old-2", "old-3"):
            run(world, name, old, ready=True)
        world.cluster.edit("Deployment", "chat")["spec"]["replicas"] = 4
        world.see()
        world.seconds = 60
        await world.settle()
        assert strategy(world) == (0, 2)

    async def test_a_restart_goes_the_same_way(self) -> None:
        world = await stable({**FIRST, "gpu": {"count": 1}})
        template = world.cluster.edit("Deployment", "chat")["spec"]["template"]
        template["metadata"]["annotations"] = {"kubectl.kubernetes.io/restartedAt": "2026-01-05T12:00:00Z"}
        rolling(world)
        told = {"reason": "Unschedulable", "message": LACKS, "lastTransitionTime": "2026-01-05T12:00:00Z"}
        new = {
            "conditions": [builders.condition("PodScheduled", "False", **told)],
            "ownerReferences": [{"kind": "ReplicaSet", "name": "chat-restarted", "uid": "r", "controller": True}],
            "created": "2026-01-05T12:00:00Z",
        }
        run(world, "restarted", key(world), **new)
        assert 0 < (await world.reconciler().reconcile(KEY) or 0) < 60
        assert strategy(world) == (1, 0)
        world.seconds = 60
        await world.settle()
        assert strategy(world) == (0, 1)
        world.cluster.remove("Pod", "old")
        world.cluster.remove("Pod", "restarted")
        restart(world)
        serve(world, "restarted", key(world))
        await world.settle()
        assert (strategy(world), marks(world, key(world))) == ((1, 0), {})

    async def test_no_old_pod_goes_while_another_service_would_get_its_place(self) -> None:
        world, _, _ = await self.waiting()
        world.cluster.add(builders.service("other"))
        told = builders.condition("PodScheduled", "False", reason="Unschedulable", message=LACKS)
        world.cluster.add(builders.pod("theirs", of="other", conditions=[told]))
        restart(world)
        world.seconds = 600
        await world.settle()
        assert strategy(world) == (1, 0)
        assert world.condition("Ready")["reason"] == "RolloutBlocked"
        assert "team-a/theirs of other services" in world.condition("Degraded")["message"]
        world.cluster.remove("Pod", "theirs")
        restart(world)
        await world.settle()
        assert strategy(world) == (0, 1)

    async def test_a_pod_that_finds_no_place_all_the_same_brings_the_old_one_back(self) -> None:
        world, old, new = await self.waiting()
        world.seconds = 60
        await world.settle()
        world.cluster.remove("Pod", "old")
        restart(world)
        world.seconds = 400
        await world.settle()
        assert (of_template(world), strategy(world)) == (old, (0, 1))
        assert set(marks(world, new)) == {names.FAILED, names.SWITCHED, names.HELD, names.OUTAGE}

    async def test_so_does_one_that_lacks_a_secret_as_only_events_tell(self) -> None:
        world, old, new = await self.waiting()
        world.seconds = 60
        await world.settle()
        world.cluster.remove("Pod", "old")
        world.cluster.remove("Pod", "new")
        restart(world)
        placed = builders.condition("PodScheduled", "True", lastTransitionTime="2026-01-05T12:01:10Z")
        run(world, "placed", new, conditions=[placed])
        words = 'MountVolume.SetUp failed for volume "keys" : secret "team-keys" not found'
        told = {"reason": "FailedMount", "message": words, "lastTimestamp": "2026-01-05T12:01:20Z"}
        world.cluster.pod_events[builders.uid_of("Pod", "placed")] = [told]
        world.seconds, reconciler = 400, world.reconciler()
        await reconciler.reconcile(KEY)
        assert of_template(world) == new
        await reconciler.reconcile(KEY)
        assert of_template(world) == old
        assert marks(world, new)[names.FAILED].startswith("SecretNotFound: ")

    @pytest.mark.parametrize("fields", [{"rollout": {"maxSurge": 1}}, {"gpu": {"count": 16}}])
    async def test_a_rollout_that_must_not_take_the_old_pod_says_what_blocks_it(self, fields: Body) -> None:
        world, _, new = await self.waiting(**fields)
        world.seconds = 1000
        await world.settle()
        assert (strategy(world), marks(world, new)) == ((1, 0), {})
        assert world.condition("Ready")["reason"] == "RolloutBlocked"
        assert "1 Insufficient nvidia.com/gpu" in world.condition("Degraded")["message"]


class TestCrashes:
    """The process dies right after its first, second, third write."""

    @pytest.mark.parametrize("writes", [1, 2, 3])
    async def test_a_rollback_is_finished_by_the_next_process(self, writes: int) -> None:
        world, old, new = await failing()
        await test_kept_templates.TestCrashes.crash_after(world, writes)
        world.cluster.remove("Pod", "new")
        restart(world)
        await world.settle()
        assert of_template(world) == old
        assert Marks.of(marks(world, new)).failed is not None

    @pytest.mark.parametrize("writes", [1, 2, 3])
    async def test_a_retry_is_begun_by_the_next_process(self, writes: int) -> None:
        world, _, new = await failing()
        await world.settle()
        annotate_retry(world, "1")
        await test_kept_templates.TestCrashes.crash_after(world, writes)
        restart(world)
        world.cluster.remove("Pod", "new")
        restart(world)
        await world.settle()
        assert (of_template(world), set(marks(world, new))) == (new, {names.TRIED})
