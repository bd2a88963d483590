"""What becomes of a revision: which failures roll back, which waits switch the strategy, and what is remembered."""

import dataclasses
import datetime
import json
from typing import Any

import pytest

from gptservice_operator import evidence, fate, names
from gptservice_operator.api import conditions
from gptservice_operator.case import Case
from gptservice_operator.cause import Cause
from gptservice_operator.fate import Fate
from gptservice_operator.marks import Marks
from gptservice_operator.render import controller_revision
from gptservice_operator.render.resolved import ResolvedRollout
from gptservice_operator.revisions import Kept
from tests.operator import builders
from tests.operator.builders import Body, container

NOW = datetime.datetime(2026, 1, 5, 12, 0, tzinfo=datetime.UTC)
OLD, NEW = "aaaaaaaaaaaa", "bbbbbbbbbbbb"
ADAPTIVE = ResolvedRollout("RollingUpdate", 1, 0, is_chosen=False)
CHOSEN = ResolvedRollout("RollingUpdate", 1, 0)
GRACE = 100
STARTUP = 1800
UNMARKED = Marks()
LACKS = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."


def at(seconds_ago: float) -> str:
    return (NOW - datetime.timedelta(seconds=seconds_ago)).strftime("%Y-%m-%dT%H:%M:%SZ")


def kept(key: str, marks: Marks = UNMARKED, **spec: Any) -> Kept:
    data = controller_revision.render_data(builders.resolved({"model": "pvc://models/m", **spec}))
    data["template"]["spec"]["terminationGracePeriodSeconds"] = GRACE
    return Kept(key, f"chat-{key}", "u", 1, data, marks.annotations)


def pod(name: str = "new", key: str = NEW, *, of: str | None = None, **more: Any) -> Body:
    """Return a pod of a revision; ``of`` tells its ReplicaSet from another one of the same revision."""
    owner = [{"kind": "ReplicaSet", "name": f"chat-{of or key}", "uid": "rs", "controller": True}]
    return builders.pod(name, **{"labels": {names.REVISION: key}, "ownerReferences": owner, **more})


def served(name: str = "old", key: str = OLD) -> Body:
    return pod(name, key, ready=True)


def ended(word: str | None, *, again: bool = False, init: bool = False, **more: Any) -> Body:
    """Return a pod of the new revision whose container has ended once, or again, with the runtime's word if any."""
    message = {"message": json.dumps({"reason": word, "message": "m", "phase": "p"})} if word else {}
    one = container(terminated={"exitCode": 1, "finishedAt": at(5), **message, **more})
    one["restartCount"] = 2 if again else 0
    return pod(init=[one]) if init else pod(containers=[one])


def unplaced(seconds: float, message: str = LACKS, name: str = "new", key: str = NEW, **more: Any) -> Body:
    told = {"reason": "Unschedulable", "message": message, "lastTransitionTime": at(seconds)}
    return pod(name, key, conditions=[builders.condition("PodScheduled", "False", **told)], **more)


def deployment(key: str = NEW, replicas: int = 1, **status: int) -> Body:
    return {
        "metadata": {"name": "chat", "generation": 1},
        "spec": {"replicas": replicas, "template": {"metadata": {"labels": {names.REVISION: key}}}},
        "status": {"observedGeneration": 1, **status},
    }


def case(*pods: Body, marks: Marks = UNMARKED, new: Body | None = None, **changes: Any) -> Case:
    """Return a rollout from the stable revision to a new one of which these are the pods, beside an old one."""
    old, current = kept(OLD), kept(NEW, marks, **(new or {}))
    before = Case(
        service=builders.service(),
        current=current,
        known={OLD: old, NEW: current},
        stable=old,
        deployment=deployment(),
        pods=pods,
        rollout=ADAPTIVE,
        replicas=1,
        startup_timeout=STARTUP,
    )
    return dataclasses.replace(before, **changes)


def judged(*pods: Body, **changes: Any) -> Fate:
    return fate.judge(case(*pods, **changes), NOW)


def of_others(name: str) -> Body:
    """Return the status of a container that no revision has, and that ends again and again."""
    return container(name, waiting={"reason": "CrashLoopBackOff"}, last={"exitCode": 1})


GAVE_UP = ended("ModelLoadFailed")["status"]["containerStatuses"]


def gated() -> Body:
    """Return a pod that has crashed twice and is ready now but for somebody's gate."""
    crashed = {**container(last={"exitCode": 1}, running={}), "ready": True}
    held = pod(phase="Running", containers=[crashed])
    held["status"]["conditions"][-1]["reason"] = "ReadinessGatesNotReady"
    return held


def on_bad_gpu() -> Body:
    return {**builders.on_device(), **{name: GAVE_UP[0][name] for name in ("state", "restartCount")}}


class TestEvidence:
    @pytest.mark.parametrize("reason", sorted(one.name for one in evidence.TOLD))
    @pytest.mark.parametrize("init", [True, False])
    def test_what_the_runtime_says_when_it_gives_up_is_enough(self, reason: str, init: bool) -> None:
        found = judged(served(), ended(reason, init=init))
        assert found.back_to is not None
        assert found.back_to.key == OLD
        assert str(found.marks.failed).startswith(f"{reason}: pod new, container engine: m")

    @pytest.mark.parametrize(
        "waited_for", ["HubThrottled", "ModelDownloadFailed", "ModelDownloadStalled", "APIKeysUnusable", "DrainTimeout"]
    )
    def test_what_waiting_mends_is_not(self, waited_for: str) -> None:
        assert judged(served(), ended(waited_for, again=True)) == Fate()

    @pytest.mark.parametrize("more", [{}, {"reason": "OOMKilled"}], ids=["crash", "memory"])
    def test_an_end_without_a_word_has_to_happen_again(self, more: Body) -> None:
        assert judged(served(), ended(None, **more)) == Fate()
        assert judged(served(), ended(None, again=True, **more)).back_to is not None

    def test_the_kubelet_backing_off_has_seen_it_happen_again(self) -> None:
        crashed = container(waiting={"reason": "CrashLoopBackOff"}, last={"exitCode": 1})
        crashed["restartCount"] = 1
        assert judged(served(), pod(containers=[crashed])).back_to is not None

    @pytest.mark.parametrize(
        "pods",
        [
            pytest.param([pod(ready=True, containers=[container(last={"exitCode": 1}, running={})])], id="recovered"),
            pytest.param([gated()], id="recovered, and kept from traffic by somebody's gate"),
            pytest.param([pod(containers=[container(running={})])], id="loading"),
            pytest.param([pod(containers=[container(waiting={"reason": "ImagePullBackOff"})])], id="image"),
            pytest.param([pod(containers=[container(waiting={"reason": "CreateContainerConfigError"})])], id="secret"),
            pytest.param([pod(phase="Failed")], id="evicted"),
            pytest.param([pod(containers=[container(last={"exitCode": 0}, running={})])], id="an end as asked"),
            pytest.param([{**ended("ModelLoadFailed"), "metadata": served()["metadata"]}], id="of the old revision"),
            pytest.param([pod(deletionTimestamp=at(1), containers=GAVE_UP)], id="being deleted"),
            pytest.param([pod(ownerReferences=[], containers=GAVE_UP)], id="somebody else's"),
            pytest.param([pod(phase="Failed", containers=GAVE_UP)], id="given up by the kubelet"),
            pytest.param([pod(containers=[on_bad_gpu()])], id="a GPU that is called unhealthy"),
            pytest.param([pod(containers=[container(running={}), of_others("istio-proxy")])], id="a mesh's container"),
            pytest.param([pod(init=[of_others("vault-agent-init")])], id="somebody's init container"),
        ],
    )
    def test_nothing_else_is(self, pods: list[Body]) -> None:
        assert judged(served(), *pods) == Fate()

    @pytest.mark.parametrize(
        "changes",
        [
            pytest.param({"stable": None}, id="the first rollout"),
            pytest.param({"stable": kept(NEW)}, id="the stable revision itself"),
            pytest.param({"rollout": dataclasses.replace(ADAPTIVE, auto_rollback=False)}, id="switched off"),
            pytest.param({"replicas": 0}, id="stopped"),
            pytest.param({"deployment": None}, id="no Deployment"),
        ],
    )
    def test_nothing_is_rolled_back_where_there_is_no_way(self, changes: Body) -> None:
        assert judged(ended("ModelLoadFailed"), **changes) == Fate()

    def test_the_progress_deadline_is_no_cause(self) -> None:
        live = deployment()
        live["status"]["conditions"] = [builders.condition("Progressing", "False", reason="ProgressDeadlineExceeded")]
        assert judged(served(), pod(), deployment=live) == Fate()

    def test_no_value_of_the_users_variables_is_kept(self) -> None:
        env = [{"name": "TOKEN", "value": "hidden-word"}]
        failing = ended(None, again=True)
        told = json.dumps({"reason": "ModelLoadFailed", "message": "login with hidden-word", "phase": "p"})
        failing["status"]["containerStatuses"][0]["state"]["terminated"]["message"] = told
        service = builders.service(spec={"model": "pvc://models/m", "engine": {"env": env}})
        failed = judged(served(), failing, service=service).marks.failed
        assert failed is not None
        assert "hidden-word" not in failed


FAILED = Marks("CrashLoop: pod x crashed", None)


class TestMemory:
    def test_pods_that_are_gone_are_not_needed(self) -> None:
        found = judged(served(), marks=FAILED, deployment=deployment(OLD))
        assert (found.marks, found.back_to and found.back_to.key) == (FAILED, OLD)
        assert found.cause is not None
        assert found.cause.reason is conditions.ROLLED_BACK
        for said in (NEW, OLD, "CrashLoop: pod x crashed", names.RETRY):
            assert said in found.cause.message

    @pytest.mark.parametrize(
        ("seen", "asked", "is_remembered"),
        [(None, None, True), ("1", "1", True), (None, "1", False), ("1", "2", False), ("1", None, True)],
    )
    def test_another_value_of_the_annotation_is_another_try(
        self, seen: str | None, asked: str | None, is_remembered: bool
    ) -> None:
        service = builders.service(annotations={names.RETRY: asked} if asked else {})
        marks = dataclasses.replace(FAILED, retry_seen=seen)
        found = judged(served(), marks=marks, service=service, deployment=deployment(OLD))
        assert (found.back_to is not None) is is_remembered
        assert found.marks == (marks if is_remembered else Marks(tried=at(0)))

    def test_a_try_that_fails_remembers_which_it_was(self) -> None:
        service = builders.service(annotations={names.RETRY: "2"})
        assert judged(served(), ended("ModelLoadFailed"), service=service).marks.retry_seen == "2"

    @pytest.mark.parametrize(("ago", "counts"), [(10, False), (1, True)], ids=["of before the retry", "of the retry"])
    def test_a_try_is_judged_by_what_has_failed_since(self, ago: float, counts: bool) -> None:
        failing = ended("ModelLoadFailed", finishedAt=at(ago))
        found = judged(served(), failing, marks=Marks(tried=at(5)))
        assert (found.back_to is not None) is counts
        assert found.marks.tried == (None if counts else at(5))

    def test_so_is_a_revision_that_an_edit_brings_back_while_its_pods_are_there(self) -> None:
        found = judged(served(), ended("ModelLoadFailed"), deployment=deployment(OLD))
        assert found == Fate(marks=Marks(tried=at(0)))
        assert judged(served(), ended("ModelLoadFailed"), deployment=deployment(OLD), marks=found.marks) == found

    def test_a_revision_without_pods_needs_no_such_mark(self) -> None:
        assert judged(served(), deployment=deployment(OLD)) == Fate()

    def test_who_wants_no_rollback_gets_what_the_spec_says(self) -> None:
        rollout = dataclasses.replace(ADAPTIVE, auto_rollback=False)
        assert judged(served(), marks=FAILED, rollout=rollout, deployment=deployment(OLD)) == Fate()


class TestSwitch:
    def test_the_wait_is_waited(self) -> None:
        assert judged(served(), unplaced(20)) == Fate(again=40)

    def test_after_it_an_old_pod_is_taken_away(self) -> None:
        assert judged(served(), unplaced(60)) == Fate(marks=Marks(switched=at(0), held="1"), again=60)

    def test_a_pod_on_its_way_out_is_waited_for_and_a_surge_wait_after_it(self) -> None:
        """What it holds may be what the new one lacks; the one that serves need not go."""
        gone_by = at(-40)
        leaving = pod("leaving", OLD, deletionTimestamp=gone_by)
        waits = judged(served(), leaving, unplaced(500))
        assert waits == Fate(marks=Marks(freeing=gone_by), again=100)
        assert judged(served(), unplaced(500), marks=Marks(freeing=at(20))) == Fate(
            marks=Marks(freeing=at(20)), again=40
        )
        assert judged(served(), unplaced(500), marks=Marks(freeing=at(60))).marks.switched == at(0)

    def test_a_pod_on_its_way_out_that_never_had_a_node_holds_nothing(self) -> None:
        leaving = unplaced(60, name="leaving")
        leaving["metadata"]["deletionTimestamp"] = at(-40)
        assert judged(served(), leaving, unplaced(60)).marks.switched == at(0)

    def test_what_is_remembered_of_it_goes_with_the_rollout(self) -> None:
        done = deployment()
        done["status"] |= {"replicas": 1, "updatedReplicas": 1, "readyReplicas": 1}
        assert judged(served("new", NEW), marks=Marks(freeing=at(9)), deployment=done).marks == Marks()

    @pytest.mark.parametrize(
        "changes",
        [
            pytest.param({"rollout": CHOSEN}, id="a strategy that was chosen"),
            pytest.param({"new": {"gpu": {"count": 16}}}, id="more GPUs than the old pod has"),
            pytest.param({"known": {}}, id="old pods of which nothing is kept"),
        ],
    )
    def test_otherwise_the_rollout_is_blocked_in_the_schedulers_words(self, changes: Body) -> None:
        found = judged(served(), unplaced(60), **changes)
        assert found.marks == Marks()
        assert found.cause is not None
        assert found.cause.reason is conditions.ROLLOUT_BLOCKED
        assert LACKS.rstrip(".") in found.cause.message

    def test_what_lacks_is_not_a_gpu(self) -> None:
        found = judged(served(), unplaced(60, "0/1 nodes are available: 1 Insufficient memory."))
        assert (found.marks, found.cause and found.cause.reason) == (Marks(), conditions.ROLLOUT_BLOCKED)

    @pytest.mark.parametrize("pods", [[], [unplaced(600)]], ids=["nothing waits", "no old pod is there"])
    def test_without_an_old_pod_there_is_nothing_to_decide(self, pods: list[Body]) -> None:
        assert judged(*pods) == Fate()

    def test_it_holds_while_the_rollout_goes_on(self) -> None:
        marks = Marks(switched=at(30))
        assert judged(served(), pod(), marks=marks, deployment=deployment(replicas=1, updatedReplicas=1)).marks == marks

    @pytest.mark.parametrize(
        "going", [pod("gone", OLD, ready=True, deletionTimestamp=at(-30)), pod("gone", deletionTimestamp=at(-30))]
    )
    @pytest.mark.parametrize(
        "instead", [[], [unplaced(1, name="instead", creationTimestamp=at(1))]], ids=["none yet", "a new one"]
    )
    def test_a_pod_on_its_way_out_is_no_lack_of_those_that_have_waited_since_long(
        self, going: Body, instead: list[Body]
    ) -> None:
        """There are three replicas and two GPUs, so that one pod waits for good."""
        waits = unplaced(900, name="n2", creationTimestamp=at(900))
        pods = [served("n1", NEW), waits, going, *instead]
        found = judged(*pods, marks=Marks(switched=at(900), held="2"), deployment=deployment(NEW, 3), replicas=3)
        assert (found.back_to, found.marks.failed) == (None, None)

    @pytest.mark.parametrize("failed", [None, FAILED.failed])
    def test_it_ends_with_the_rollout_or_its_rollback(self, failed: str | None) -> None:
        key = NEW if failed is None else OLD
        live = deployment(key, replicas=1, updatedReplicas=1, readyReplicas=1)
        live["status"]["replicas"] = 1
        marks = Marks(failed, switched=at(30))
        assert judged(pod(key=key, ready=True), marks=marks, deployment=live).marks == Marks(failed)

    def test_a_pod_that_finds_no_place_all_the_same_is_rolled_back(self) -> None:
        marks = Marks(switched=at(60 + GRACE - 10))
        assert judged(unplaced(500), marks=marks) == Fate(marks=marks, again=10)
        found = judged(unplaced(500), marks=Marks(switched=at(60 + GRACE)))
        assert found.back_to is not None
        assert found.takes_old_first
        assert str(found.marks.failed).startswith("RolloutBlocked: ")

    def test_a_later_pod_of_the_rollout_has_its_own_time(self) -> None:
        assert judged(served(), unplaced(10), marks=Marks(switched=at(5000))).again == 60 + GRACE - 10

    def test_who_wants_no_rollback_is_told_that_it_is_blocked(self) -> None:
        rollout = dataclasses.replace(ADAPTIVE, auto_rollback=False)
        found = judged(unplaced(500), marks=Marks(switched=at(500)), rollout=rollout)
        assert (found.back_to, found.cause and found.cause.reason) == (None, conditions.ROLLOUT_BLOCKED)


class TestGap:
    """How long nothing served is kept with the failure."""

    def test_none_where_an_old_pod_answered_throughout(self) -> None:
        found = judged(served(), ended("ModelLoadFailed"))
        assert found.marks.outage is None
        assert found.cause is not None
        assert "served" not in found.cause.message

    def test_it_lasts_from_the_old_pod_s_end(self) -> None:
        service = builders.service()
        told = builders.condition("Available", "False", lastTransitionTime=at(40))
        service["status"] = {"conditions": [told]}
        found = judged(ended("ModelLoadFailed"), service=service, marks=Marks(switched=at(50)))
        assert found.marks.outage == f"{at(40)}/.."
        assert found.cause is not None
        assert f"nothing has served since {at(40)}" in found.cause.message

    def test_to_the_first_pod_that_serves_again(self) -> None:
        again = served()
        again["status"]["conditions"][-1]["lastTransitionTime"] = at(10)
        marks = dataclasses.replace(FAILED, outage=f"{at(40)}/..")
        for known in (marks, dataclasses.replace(FAILED, outage=f"{at(40)}/{at(10)}")):
            found = judged(again, marks=known, deployment=deployment(OLD))
            assert found.marks.outage == f"{at(40)}/{at(10)}"
            assert found.cause is not None
            assert "nothing served for 30 s" in found.cause.message

    def test_a_later_fault_of_the_revision_that_came_back_is_none_of_it(self) -> None:
        marks = dataclasses.replace(FAILED, outage=f"{at(4000)}/{at(3970)}")
        assert judged(pod("old", OLD), marks=marks, deployment=deployment(OLD)).marks == marks


class TestFailedPods:
    """Those that a kubelet gave up stay for days, and do nothing any more."""

    def test_they_are_no_old_pods_to_wait_for(self) -> None:
        assert judged(pod("old", OLD, phase="Failed"), unplaced(600)) == Fate()


class TestWayBack:
    def test_beside_a_stable_pod_it_keeps_the_strategy(self) -> None:
        assert not judged(served(), ended("ModelLoadFailed")).takes_old_first

    def test_in_place_of_a_stable_pod_it_takes_the_failed_one_first(self) -> None:
        assert judged(ended("ModelLoadFailed")).takes_old_first

    def test_after_a_switch_too(self) -> None:
        assert judged(served(), ended("ModelLoadFailed"), marks=Marks(switched=at(9))).takes_old_first

    @pytest.mark.parametrize(
        ("pod_of_the_other", "takes_first"),
        [(ended("ModelLoadFailed"), True), (pod(ready=True), False)],
        ids=["from what fails", "from what serves"],
    )
    def test_an_edit_that_brings_the_stable_revision_back(self, pod_of_the_other: Body, takes_first: bool) -> None:
        back = kept(OLD)
        found = judged(pod_of_the_other, current=back, stable=back, known={OLD: back, NEW: kept(NEW)})
        assert (found.back_to, found.takes_old_first) == (None, takes_first)

    def test_such_an_edit_after_a_switch(self) -> None:
        back, left = kept(OLD), kept(NEW, Marks(switched=at(9)))
        assert judged(pod(ready=True), current=back, stable=back, known={OLD: back, NEW: left}).takes_old_first


LOADING = Cause(conditions.MODEL_LOADING, "pod x is loading")
CRASHING = Cause(conditions.CRASH_LOOP, "pod x crashed")
BLOCKED = Cause(conditions.ROLLOUT_BLOCKED, "no node")
BACK = Cause(conditions.ROLLED_BACK, "went back")


@pytest.mark.parametrize(
    ("decided", "seen", "told"),
    [
        (None, None, Cause(conditions.ROLLING_OUT, "the Deployment is rolling out")),
        (None, LOADING, LOADING),
        (BLOCKED, None, BLOCKED),
        (BLOCKED, LOADING, BLOCKED),
        (BLOCKED, CRASHING, CRASHING),
        (BACK, None, BACK),
        (BACK, CRASHING, Cause(conditions.ROLLED_BACK, "went back; pod x crashed")),
    ],
)
def test_the_gravest_is_told(decided: Cause | None, seen: Cause | None, told: Cause) -> None:
    assert fate.gravest(decided, seen) == told
