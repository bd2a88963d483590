"""What comes of a new pod that waits: when an old one goes for it, and when that was no use."""

import dataclasses
from typing import Any, ClassVar

import pytest

from gptservice_operator import fate, names, waits
from gptservice_operator.api import conditions
from gptservice_operator.api.conditions import Reason
from gptservice_operator.cause import Complaint
from gptservice_operator.fate import Fate
from gptservice_operator.marks import Marks
from tests.operator import builders
from tests.operator.builders import Body, container
from tests.operator.test_fate import (
    ADAPTIVE,
    GRACE,
    LACKS,
    NEW,
    NOW,
    OLD,
    STARTUP,
    at,
    case,
    deployment,
    judged,
    kept,
    of_others,
    pod,
    served,
    unplaced,
)

WAIT = ADAPTIVE.surge_wait_seconds + GRACE
"""Seconds that a new pod has once an old one was taken away for it."""
CHOICE = "maxSurge: 0"


def switched(ago: float, held: str | None = "1") -> Marks:
    return Marks(switched=at(ago), held=held)


def placed(seconds: float, name: str = "new", **more: Any) -> Body:
    """Return a new pod that has had a node for so long."""
    told = builders.condition("PodScheduled", "True", lastTransitionTime=at(seconds))
    return pod(name, conditions=[told], **more)


def held_up(reason: str, message: str = "m") -> list[Body]:
    return [container(waiting={"reason": reason, "message": message})]


def of_word(word: str) -> list[Body]:
    """Return the status of a container that ends again and again with this word of the runtime."""
    told = f'{{"reason": "{word}", "message": "m", "phase": "p"}}'
    return [container(waiting={"reason": "CrashLoopBackOff"}, last={"exitCode": 1, "message": told})]


def given_up(name: str, ago: float, reason: str = "Evicted") -> Body:
    body = pod(name, phase="Failed", created=at(ago))
    body["status"] |= {"reason": reason, "message": "The node was low on resource: ephemeral-storage"}
    return body


NAMED = [
    pytest.param(held_up("ImagePullBackOff"), "ImagePullFailed", id="image"),
    pytest.param(held_up("CreateContainerConfigError", 'secret "s" not found'), "SecretNotFound", id="secret"),
    pytest.param(held_up("RunContainerError"), "InvalidImage", id="an image that lacks the program"),
    pytest.param(of_word("APIKeysUnusable"), "APIKeysUnusable", id="keys"),
    pytest.param(of_word("CertificateUnusable"), "CertificateUnusable", id="certificate"),
]
LOADING = [
    pytest.param([container(running={})], id="loads"),
    pytest.param([container(running={}), container("sidecar", running={})], id="loads beside another"),
    pytest.param(of_word("HubThrottled"), id="is throttled"),
]


class TestNeverStarts:
    """A pod that an old one was taken away for, and that something else keeps from starting."""

    @pytest.mark.parametrize(("containers", "reason"), NAMED)
    def test_it_has_the_grace_period_and_the_surge_wait(self, containers: list[Body], reason: str) -> None:
        waiting = judged(placed(900, containers=containers), marks=switched(WAIT - 10))
        assert waiting == Fate(marks=switched(WAIT - 10), again=10)
        back = judged(placed(900, containers=containers), marks=switched(WAIT))
        assert back.back_to is not None
        assert back.back_to.key == OLD
        assert back.takes_old_first
        assert str(back.marks.failed).startswith(f"{reason}: ")

    def test_from_when_it_had_a_node(self) -> None:
        assert judged(placed(10, containers=held_up("ErrImagePull")), marks=switched(5000)).again == WAIT - 10

    @pytest.mark.parametrize(("containers", "reason"), NAMED)
    def test_while_the_old_pods_serve_it_is_waited_for(self, containers: list[Body], reason: str) -> None:
        assert judged(served(), placed(90_000, containers=containers)) == Fate(), reason

    @pytest.mark.parametrize("containers", LOADING)
    def test_a_pod_that_loads_is_none(self, containers: list[Body]) -> None:
        assert judged(placed(90_000, containers=containers), marks=switched(90_000)) == Fate(marks=switched(90_000))

    def test_nor_is_one_in_which_somebody_s_init_container_runs(self) -> None:
        containers = [container("prepare", running={}), *held_up("PodInitializing")]
        assert judged(placed(90_000, containers=containers), marks=switched(90_000)).back_to is None

    def test_pods_of_before_the_deployment_runs_the_revision_are_of_an_earlier_try(self) -> None:
        old = placed(900, containers=held_up("ErrImagePull"))
        assert judged(old, marks=switched(900), deployment=deployment(OLD)).back_to is None

    def test_a_volume_of_which_events_tell(self) -> None:
        creating = placed(900, containers=held_up("ContainerCreating"))
        told = Complaint(conditions.SECRET_NOT_FOUND, 'MountVolume.SetUp failed: secret "keys" not found', "keys")
        complaints = {creating["metadata"]["uid"]: told}
        failed = judged(creating, marks=switched(WAIT), complaints=complaints).marks.failed
        assert str(failed).startswith("SecretNotFound: ")

    @pytest.mark.parametrize(
        ("reason", "new"),
        [
            (conditions.VOLUME_IN_USE, {}),
            (conditions.NO_SCHEDULER, {"scheduling": {"schedulerName": "typo"}}),
        ],
        ids=["volume", "scheduler"],
    )
    def test_what_else_keeps_it_from_starting(self, reason: Reason, new: Body) -> None:
        waits = placed(900, containers=held_up("ContainerCreating"))
        complaints = {waits["metadata"]["uid"]: Complaint(reason, "so it is")}
        failed = judged(waits, marks=switched(WAIT), complaints=complaints, new=new).marks.failed
        assert str(failed).startswith(f"{reason.name}: ")
        assert judged(served(), waits, complaints=complaints) == Fate(), "the old pods serve"

    def test_a_scheduler_that_the_revision_before_needs_too_is_waited_for(self) -> None:
        waits = placed(900, containers=held_up("ContainerCreating"))
        complaints = {waits["metadata"]["uid"]: Complaint(conditions.NO_SCHEDULER, "so it is")}
        assert judged(waits, marks=switched(WAIT), complaints=complaints).marks.failed is None

    def test_of_a_pod_that_says_nothing_the_start_up_budget_is_waited_for(self) -> None:
        """It may be fetching a large image."""
        creating = held_up("ContainerCreating")
        assert judged(placed(900, containers=creating), marks=switched(900)).again == STARTUP - 900
        assert judged(placed(STARTUP, containers=creating), marks=switched(STARTUP)).back_to is not None

    def test_who_wants_no_rollback_is_told_why(self) -> None:
        rollout = dataclasses.replace(ADAPTIVE, auto_rollback=False)
        found = judged(placed(900, containers=held_up("ErrImagePull")), marks=switched(900), rollout=rollout)
        assert (found.back_to, found.cause and found.cause.reason) == (None, conditions.IMAGE_PULL_FAILED)

    def test_the_stable_revision_itself_has_no_way_back(self) -> None:
        found = case(placed(900, containers=held_up("ErrImagePull")), marks=switched(900))
        assert fate.judge(dataclasses.replace(found, stable=found.current), NOW) == Fate(marks=switched(900))


class TestContainersOfOthers:
    """What a mesh or an agent puts into the pods comes with any revision."""

    @pytest.mark.parametrize(
        "pods",
        [
            pytest.param({"containers": [container(running={}), of_others("istio-proxy")]}, id="crashes"),
            pytest.param(
                {"init": [of_others("vault-agent-init")], "containers": held_up("PodInitializing")}, id="first"
            ),
            pytest.param(
                {"containers": [container(running={}), container("proxy", waiting={"reason": "ErrImagePull"})]},
                id="an image that is not there",
            ),
        ],
    )
    def test_they_are_told_and_roll_nothing_back(self, pods: Body) -> None:
        found = judged(placed(90_000, **pods), marks=switched(90_000))
        assert (found.back_to, found.marks) == (None, switched(90_000))
        assert found.cause is not None
        assert found.cause.reason in (conditions.CRASH_LOOP, conditions.IMAGE_PULL_FAILED)

    def test_nor_do_they_hide_what_the_revision_itself_lacks(self) -> None:
        containers = [*held_up("ImagePullBackOff"), of_others("istio-proxy")]
        failed = judged(placed(900, containers=containers), marks=switched(WAIT)).marks.failed
        assert str(failed).startswith("ImagePullFailed: ")


class TestGivenUp:
    """Pods that the kubelet refuses or evicts, one after another."""

    @pytest.mark.parametrize(
        ("reason", "told"),
        [("Evicted", "PodEvicted"), ("UnexpectedAdmissionError", "PodRejected"), ("DeadlineExceeded", "PodFailed")],
    )
    def test_they_count_though_the_next_one_loads(self, reason: str, told: str) -> None:
        pods = [given_up("a", 170, reason), given_up("b", 90, reason), placed(20, containers=[container(running={})])]
        failed = judged(*pods, marks=switched(170)).marks.failed
        assert str(failed).startswith(f"{told}: ")

    @pytest.mark.parametrize(
        ("pods", "marks"),
        [
            pytest.param([given_up("a", 170)], switched(170), id="one alone"),
            pytest.param([given_up("a", 90), given_up("b", 50)], switched(100), id="not for long"),
            pytest.param([given_up("a", 900), given_up("b", 800)], switched(500), id="before the switch"),
            *(
                pytest.param([given_up("a", 170, why), given_up("b", 165, why)], switched(170), id=f"their node: {why}")
                for why in ("NodeLost", "Terminated", "NodeShutdown", "Preempting")
            ),
            pytest.param([given_up("a", 170, "Terminated"), given_up("b", 165)], switched(170), id="one for its node"),
            pytest.param(
                [given_up("a", 170), given_up("b", 160)],
                dataclasses.replace(switched(170), tried=at(100)),
                id="of an earlier try",
            ),
            pytest.param(
                [given_up("a", 170), given_up("b", 160), pod("c", ready=True)], switched(170), id="one serves by now"
            ),
            pytest.param([given_up("a", 170), given_up("b", 160)], Marks(), id="no old pod went"),
        ],
    )
    def test_otherwise_they_do_not(self, pods: list[Body], marks: Marks) -> None:
        found = judged(*pods, marks=marks)
        assert (found.back_to, found.cause) == (None, None)

    def test_those_of_before_an_edit_that_brings_the_revision_back_are_of_an_earlier_try(self) -> None:
        found = judged(served(), given_up("a", 900), deployment=deployment(OLD))
        assert found.marks == Marks(tried=at(0))


class TestNoPods:
    """Pods that cannot be made, as the Deployment says."""

    @staticmethod
    def refused() -> Body:
        live = deployment()
        words = {"reason": "FailedCreate", "message": "forbidden: exceeded quota", "lastTransitionTime": at(900)}
        live["status"]["conditions"] = [builders.condition("ReplicaFailure", "True", **words)]
        return live

    def test_they_are_waited_for_as_long(self) -> None:
        assert judged(deployment=self.refused(), marks=switched(WAIT - 10)).again == 10
        found = judged(deployment=self.refused(), marks=switched(WAIT))
        assert str(found.marks.failed).startswith("QuotaExceeded: ")

    def test_one_that_was_made_speaks_for_itself(self) -> None:
        loading = placed(900, containers=[container(running={})])
        assert judged(loading, deployment=self.refused(), marks=switched(900)).back_to is None


class TestSameShortage:
    """A service that had fewer GPUs than its replicas ask for has them for its new revision, and no more."""

    def test_what_has_a_node_is_remembered_at_the_switch(self) -> None:
        waiting = unplaced(60, name="old-2")
        waiting["metadata"]["labels"][names.REVISION] = OLD
        assert judged(served(), waiting, unplaced(60)).marks.held == "1"

    @pytest.mark.parametrize("placed_pod", [served(), pod("first", ready=True)], ids=["the old one", "a new one"])
    def test_the_rollout_is_blocked_and_not_failed(self, placed_pod: Body) -> None:
        live = deployment(replicas=2)
        found = judged(placed_pod, unplaced(900), deployment=live, marks=switched(900), replicas=2)
        assert (found.back_to, found.marks) == (None, switched(900))
        assert found.cause is not None
        assert found.cause.reason is conditions.ROLLOUT_BLOCKED

    @pytest.mark.parametrize(
        ("marks", "message"),
        [
            pytest.param(switched(900, "2"), None, id="another's place is gone"),
            pytest.param(switched(900, None), None, id="nobody knows what there was"),
            pytest.param(switched(900), "0/1 nodes are available: 1 Insufficient memory.", id="for something else"),
        ],
    )
    def test_otherwise_it_has_failed(self, marks: Marks, message: str | None) -> None:
        stuck = unplaced(900) if message is None else unplaced(900, message)
        found = judged(served(), stuck, deployment=deployment(replicas=2), marks=marks, replicas=2)
        assert found.back_to is not None

    def test_fewer_replicas_need_fewer_places(self) -> None:
        found = judged(served(), unplaced(900), marks=switched(900, "2"))
        assert found.back_to is None

    def test_it_does_not_hide_that_the_pod_beside_it_never_starts(self) -> None:
        pulling = placed(900, "first", containers=held_up("ErrImagePull"))
        found = judged(pulling, unplaced(900), deployment=deployment(replicas=2), marks=switched(900), replicas=2)
        assert str(found.marks.failed).startswith("ImagePullFailed: ")


class TestRivals:
    """Another service's pod that the scheduler may place first."""

    @staticmethod
    def waiting(**more: Any) -> Fate:
        limits = {"limits": {"nvidia.com/gpu": "1"}}
        other = builders.entry({**unplaced(900, name="other"), "spec": {"containers": [{"resources": limits}]}})
        return judged(served(), unplaced(60), waiting=[[other]], **more)

    def test_no_old_pod_goes_for_it(self) -> None:
        found = self.waiting()
        assert found.marks == Marks()
        assert found.cause is not None
        assert found.cause.reason is conditions.ROLLOUT_BLOCKED
        assert f"{builders.NAMESPACE}/other of other services" in found.cause.message
        assert CHOICE not in found.cause.message

    def test_it_is_looked_again_for_nothing_tells_when_it_has_gone(self) -> None:
        assert self.waiting().again == waits.RIVALS_AGAIN_SECONDS

    def test_what_is_under_way_goes_on(self) -> None:
        assert self.waiting(marks=switched(5)).marks == switched(5)


class TestAdvice:
    def test_to_take_an_old_pod_first_where_that_is_the_users_to_say(self) -> None:
        found = judged(served(), unplaced(60), rollout=dataclasses.replace(ADAPTIVE, is_chosen=True))
        assert found.cause is not None
        assert CHOICE in found.cause.message

    @pytest.mark.parametrize("auto_rollback", [True, False])
    def test_not_where_it_was_done(self, auto_rollback: bool) -> None:
        rollout = dataclasses.replace(ADAPTIVE, auto_rollback=auto_rollback)
        found = judged(unplaced(900), marks=switched(900), rollout=rollout)
        assert found.cause is not None
        assert CHOICE not in found.cause.message
        assert "undo the edit" in found.cause.message

    def test_nor_where_the_user_has_said_it(self) -> None:
        rollout = dataclasses.replace(ADAPTIVE, is_chosen=True, max_surge=0, max_unavailable=1)
        found = judged(served(), unplaced(60), rollout=rollout)
        assert found.cause is not None
        assert CHOICE not in found.cause.message


CORDONED = "0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) were unschedulable. preemption: 0/2 nodes"
WITH_CPU_NODES = "0/5 nodes are available: 1 node(s) had untolerated taint(s), 4 Insufficient nvidia.com/gpu."


class TestClosedNodes:
    """Those that take no new pod, of which one may be an old pod's."""

    def test_no_old_pod_goes(self) -> None:
        found = judged(served(), unplaced(600, CORDONED))
        assert found.marks == Marks()
        assert found.cause is not None
        assert found.cause.reason is conditions.ROLLOUT_BLOCKED
        for said in ("among those (1 node(s) were unschedulable)", "kubectl uncordon", CHOICE, "undo the edit"):
            assert said in found.cause.message

    def test_one_that_was_closed_once_an_old_pod_had_gone_is_no_failure(self) -> None:
        """The pods of before would find no node either; the new one goes on by itself when it is open again."""
        found = judged(unplaced(900, CORDONED), marks=switched(900))
        assert (found.back_to, found.marks) == (None, switched(900))
        assert found.cause is not None
        assert found.cause.reason is conditions.ROLLOUT_BLOCKED
        assert "kubectl uncordon" in found.cause.message

    def test_nodes_without_gpus_and_of_the_control_plane_are_none(self) -> None:
        assert judged(served(), unplaced(60, WITH_CPU_NODES)).takes_old_first

    def test_a_selector_that_somebody_added_may_not_match_the_old_node(self) -> None:
        message = f"{LACKS.rstrip('.')}, 1 node(s) didn't match Pod's node affinity/selector."
        assert judged(served(), unplaced(60, message)).takes_old_first
        live = deployment()
        live["spec"]["template"]["spec"] = {"nodeSelector": {"pool": "b"}}
        assert not judged(served(), unplaced(60, message), deployment=live).takes_old_first

    def test_a_container_that_somebody_added_may_not_fit(self) -> None:
        new = unplaced(60)
        new["spec"] = {"containers": [{"resources": {"requests": {"cpu": "500"}}}, {}]}
        old = pod("old", OLD, ready=True, containers=[container(running={})])
        assert not judged(old, new).takes_old_first


def of_restart(seconds: float, message: str = LACKS) -> Body:
    return unplaced(seconds, message, of="restarted", created=at(seconds))


def restarted(*pods: Body, **changes: Any) -> Fate:
    """Judge a restart of the stable revision, as `kubectl rollout restart` begins it."""
    current = kept(NEW, changes.pop("marks", Marks()))
    return judged(*pods, current=current, stable=current, known={NEW: current}, **changes)


class TestRestart:
    """Pods of one revision, of which the newer are of another ReplicaSet."""

    def test_it_waits_as_an_edit_does(self) -> None:
        assert restarted(served("old", NEW), of_restart(20)) == Fate(again=40)

    def test_then_an_old_pod_goes(self) -> None:
        assert restarted(served("old", NEW), of_restart(60)) == Fate(marks=Marks(switched=at(0), held="1"), again=60)

    def test_until_it_is_over(self) -> None:
        live = deployment(replicas=1, updatedReplicas=1, readyReplicas=1)
        live["status"]["replicas"] = 1
        assert restarted(served("again", NEW), marks=switched(30), deployment=live) == Fate()

    def test_where_no_old_pod_may_go_it_says_why_and_how_to_undo_it(self) -> None:
        found = restarted(served("old", NEW), of_restart(60, CORDONED))
        assert (found.marks, found.cause and found.cause.reason) == (Marks(), conditions.ROLLOUT_BLOCKED)
        assert found.cause is not None
        for said in ("which a restart has made", "unschedulable", "kubectl rollout undo deployment chat"):
            assert said in found.cause.message

    def test_there_is_nothing_that_it_could_be_rolled_back_to(self) -> None:
        found = restarted(of_restart(900), marks=switched(900))
        assert (found.back_to, found.marks) == (None, switched(900))
        assert found.cause is not None
        assert "nothing to roll back to" in found.cause.message
        assert "undo" not in found.cause.message

    def test_so_does_one_of_the_revision_that_was_rolled_back_to(self) -> None:
        failed = Marks("CrashLoop: pod x crashed")
        new = unplaced(60, key=OLD, of="restarted", created=at(60))
        found = judged(served(), new, marks=failed, deployment=deployment(OLD))
        assert found.back_to is not None
        assert (found.marks, found.again) == (dataclasses.replace(failed, switched=at(0), held="1"), 60)

    def test_a_replica_that_is_added_is_none(self) -> None:
        assert restarted(served("old", NEW), unplaced(600, name="more")) == Fate()

    def test_the_deployments_word_counts_before_the_pods_ages(self) -> None:
        """An old pod that was lost is made again, and is the youngest then."""
        live = deployment(replicas=2)
        words = 'ReplicaSet "chat-restarted" is progressing.'
        live["status"]["conditions"] = [builders.condition("Progressing", "True", message=words)]
        again = unplaced(900, name="again", created="2026-01-05T11:59:59Z")
        new = pod("restarted", ready=True, of="restarted")
        assert restarted(served("old", NEW), new, again, deployment=live, replicas=2) == Fate()


def scarce(*pods: Body, **rollout: Any) -> str:
    """Return what is said of a service of four replicas whose strategy was chosen."""
    chosen = dataclasses.replace(ADAPTIVE, is_chosen=True, **rollout)
    found = judged(*pods, unplaced(600), deployment=deployment(replicas=4), replicas=4, rollout=chosen)
    assert found.cause is not None
    return found.cause.message


class TestAdviceWhereGpusAreFewer:
    """The Deployment's controller counts a pod without a node as unavailable."""

    OLD_ONES: ClassVar[list[Body]] = [served("a"), served("b"), served("c"), unplaced(900, name="d", key=OLD)]

    def test_one_more_has_to_be_allowed_than_find_no_place(self) -> None:
        assert "{maxSurge: 0, maxUnavailable: 2}" in scarce(*self.OLD_ONES)

    @pytest.mark.parametrize("bound", [1, "25%"])
    def test_a_bound_that_is_used_up_has_to_be_raised(self, bound: int | str) -> None:
        said = scarce(*self.OLD_ONES, max_surge=0, max_unavailable=bound)
        assert "set spec.rollout.maxUnavailable to 2" in said

    @pytest.mark.parametrize("bound", [2, "50%"])
    def test_one_that_is_not_is_left(self, bound: int | str) -> None:
        assert "maxUnavailable" not in scarce(*self.OLD_ONES, max_surge=0, max_unavailable=bound)

    def test_otherwise_it_is_the_reasons_own_remedy(self) -> None:
        pods = [served(name) for name in "abcd"]
        assert scarce(*pods).endswith(f". {conditions.ROLLOUT_BLOCKED.remedy}")
