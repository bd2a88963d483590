"""The last failure: the newest one, also of a container that runs again, until all was calm for a while."""

import dataclasses
from typing import Any

import pytest

from gptservice_operator import status
from gptservice_operator.api import conditions
from gptservice_operator.cause import Cause
from gptservice_operator.last_failure import last_failure
from tests.operator import builders
from tests.operator.builders import Body, container, pod
from tests.operator.test_status import READY, deployment, facts

NOW = "2026-01-05T12:00:00Z"
EARLIER = "2026-01-05T11:00:00Z"
LATER = "2026-01-05T11:30:00Z"
TOLD = '{"reason": "ModelNotFound", "message": "no such file", "phase": "fetch"}'


def ended(code: int = 1, at: str = EARLIER, **more: Any) -> Body:
    return {"exitCode": code, "finishedAt": at, **more}


def crashed_before(name: str = "a", **end: Any) -> Body:
    """Return a pod that serves again."""
    return pod(name, ready=True, containers=[container(running={}, last=ended(**end))])


def image_missing(name: str = "a") -> Cause:
    return Cause(conditions.IMAGE_PULL_FAILED, "no such image", name)


def test_there_is_none_where_nothing_failed() -> None:
    fine = pod(ready=True, containers=[container(running={})])
    stopped_well = crashed_before(code=0)
    assert last_failure([fine, stopped_well], None, {}, NOW) == {}


def test_a_container_that_runs_again_is_remembered_in_the_runtime_s_own_words() -> None:
    found = last_failure([crashed_before(code=3, message=TOLD)], None, {}, NOW)
    assert (found["reason"], found["exitCode"], found["pod"], found["time"]) == ("ModelNotFound", 3, "a", EARLIER)
    assert "no such file" in found["message"]


def test_of_several_the_newest_counts_whichever_container_it_was() -> None:
    first = pod("a", init=[container("fetch", terminated=ended(at=LATER, message=TOLD))])
    found = last_failure([first, crashed_before("b", at=EARLIER, code=137)], None, {}, NOW)
    assert (found["pod"], found["time"]) == ("a", LATER)
    found = last_failure([crashed_before("b", at=LATER, code=137)], None, {"reason": "X", "time": EARLIER}, NOW)
    assert (found["pod"], found["exitCode"]) == ("b", 137)


def test_nobody_is_sent_to_the_logs_of_a_pod_that_is_gone() -> None:
    crashing = pod("a", containers=[container(waiting={"reason": "CrashLoopBackOff"}, last=ended())])
    told = last_failure([crashing], None, {}, NOW)
    assert "kubectl logs" in told["message"]
    assert last_failure([crashing], None, told, NOW) == told
    kept = last_failure([pod("b", ready=True)], None, told, NOW)
    assert "kubectl logs" not in kept["message"]
    assert told["message"].startswith(kept["message"])
    assert (kept["time"], kept["pod"]) == (told["time"], "a")


@pytest.mark.parametrize("leaving", [{}, {"deletionTimestamp": LATER}], ids=["about to go", "on its way"])
def test_a_pod_on_an_unhealthy_gpu_is_remembered_since_it_was_seen(leaving: Body) -> None:
    ill = pod("a", ready=True, containers=[builders.on_device()], **leaving)
    first = last_failure([ill], None, {}, EARLIER, frozenset({"a"}))
    assert (first["reason"], first["pod"], first["time"]) == ("GPUUnhealthy", "a", EARLIER)
    assert last_failure([ill], None, first, NOW, frozenset({"a"})) == first


def test_what_is_newer_than_all_that_pods_tell_stays() -> None:
    """The pod that failed is gone."""
    old = {"reason": "CrashLoop", "pod": "gone", "message": "m", "time": LATER}
    assert last_failure([crashed_before(at=EARLIER)], None, old, NOW) == old


def test_a_failure_without_an_end_has_the_time_at_which_it_was_seen_first() -> None:
    first = last_failure([], image_missing(), {}, EARLIER)
    assert first == {"reason": "ImagePullFailed", "message": "no such image", "pod": "a", "time": EARLIER}
    assert last_failure([], image_missing(), first, NOW)["time"] == EARLIER
    assert last_failure([], image_missing("b"), first, NOW)["time"] == NOW


@pytest.mark.parametrize(
    "cause",
    [
        pytest.param(Cause(conditions.MODEL_LOADING, "m", "a"), id="what waiting will mend"),
        pytest.param(Cause(conditions.FORBIDDEN, "m"), id="what no pod has done"),
    ],
)
def test_what_is_no_failure_of_a_pod_is_not_remembered(cause: Cause) -> None:
    assert last_failure([], cause, {}, NOW) == {}


def over(name: str = "a", reason: str = "Evicted", message: str = "The node was low on memory.") -> Body:
    body = pod(name, phase="Failed", containers=[container(terminated=ended(137))])
    body["status"] |= {"reason": reason, "message": message}
    body["status"]["conditions"][-1]["lastTransitionTime"] = LATER
    return body


def test_of_a_pod_that_is_over_the_kubelet_s_words_are_kept_and_not_how_its_containers_ended() -> None:
    found = last_failure([over()], None, {}, NOW)
    assert (found["reason"], found["pod"], found["time"]) == ("PodEvicted", "a", LATER)
    assert "Evicted: The node was low on memory" in found["message"]
    assert "exitCode" not in found


def test_further_pods_that_are_refused_alike_are_no_news() -> None:
    first = last_failure([over("a", "OutOfcpu")], None, {}, NOW)
    second = over("b", "OutOfcpu")
    second["status"]["conditions"][-1]["lastTransitionTime"] = NOW
    assert last_failure([over("a", "OutOfcpu"), second], None, first, NOW) == first
    assert last_failure([second], None, first, NOW)["pod"] == "b", "the first has been cleaned away"


@pytest.mark.parametrize(
    ("why", "expected"),
    [
        ("PreemptionByScheduler", "Preempted"), ("DeletionByTaintManager", "NodeLost"),
        ("DeletionByPodGC", "NodeLost"), ("EvictionByEvictionAPI", None),
    ],
)  # fmt: skip
def test_why_a_pod_was_taken_away_is_remembered_unless_somebody_drains_the_node(why: str, expected: str | None) -> None:
    disrupted = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": why,
        "message": "m",
        "lastTransitionTime": LATER,
    }
    gone = pod("a", conditions=[disrupted], deletionTimestamp=LATER, containers=[container(terminated=ended(137))])
    assert last_failure([gone], None, {}, NOW).get("reason") == expected


def test_what_a_pod_did_before_it_settled_does_not_come_back_with_another_pod() -> None:
    assert last_failure([crashed_before("a"), pod("b")], None, {}, NOW, frozenset({"a"})) == {}


class TestStatus:
    def computed(self, **more: Any) -> Any:
        replica_set = [{"kind": "ReplicaSet", "name": "chat-6d4c", "uid": "rs", "controller": True}]
        pods = [{**crashed_before(message=TOLD)}]
        pods[0]["metadata"]["ownerReferences"] = replica_set
        made = facts({"replicas": 3}, live=deployment(**READY), pods=pods)
        return status.compute(dataclasses.replace(made, **more), NOW).get("lastFailure")

    def test_it_is_reported_while_the_service_is_ready(self) -> None:
        assert self.computed()["reason"] == "ModelNotFound"

    def test_it_goes_when_all_was_calm_for_the_period(self) -> None:
        assert self.computed(calm=True) is None

    def test_a_secret_in_it_is_masked(self) -> None:
        made = facts(
            {"engine": {"env": [{"name": "TOKEN", "value": "hunter22hunter22"}]}},
            live=deployment(),
            pods=[crashed_before(message='{"reason": "CrashLoop", "message": "bad token hunter22hunter22"}')],
        )
        told = status.compute(made, NOW)["lastFailure"]["message"]
        assert "hunter22" not in told

    @pytest.mark.parametrize(("settled", "expected"), [((), "CrashLoop"), (("a",), None)])
    def test_a_pod_that_is_ready_between_crashes_leaves_the_service_degraded(
        self, settled: tuple[str, ...], expected: str | None
    ) -> None:
        owner = [{"kind": "ReplicaSet", "name": "chat-6d4c", "uid": "rs", "controller": True}]
        flickers = crashed_before("a", code=1)
        flickers["metadata"]["ownerReferences"] = owner
        made = facts({"replicas": 3}, live=deployment(**READY), pods=[flickers])
        told = status.compute(dataclasses.replace(made, settled=frozenset(settled)), NOW)
        by_type = {one["type"]: one for one in told["conditions"]}
        assert by_type["Ready"]["status"] == "True"
        assert told["phase"] == ("Degraded" if expected else "Ready")
        assert by_type["Degraded"]["reason"] == (expected or "AsExpected")
