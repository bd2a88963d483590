"""What `kubectl describe` tells of a service, and which cause stays through a pod's ups and downs."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from e2e.api.by_hand import by_hand, crash, fail, load, serve, the_pod, told
from e2e.api.quiet import settle, wait_for_resyncs
from e2e.api.state import Observer, condition, holds, is_ready
from e2e.kube import Kube, Object, wait_until
from e2e.kubectl import Kubectl
from e2e.operator_process import OperatorProcess
from e2e.proxy import Switchboard

# Whether a pass falls into these moments is chance.
_BETWEEN = ("RollingOut", "PodsStarting")
REFUSED_PODS = 20
BROKEN = told("ModelLoadFailed", "weights are truncated")


def described(kubectl: Kubectl, namespace: str) -> list[str]:
    """The reasons of the Events as `kubectl describe` prints them, in its order."""
    text = kubectl.run("describe", "gptservice", "gpt", "--namespace", namespace)
    return re.findall(r"^  (?:Normal|Warning)\s+(\w+)", text.partition("\nEvents:")[2], flags=re.MULTILINE)


def events(kube: Kube, namespace: str) -> dict[str, Object]:
    """The operator's Events by reason."""
    found = [one for one in kube.all("Event", namespace) if one["involvedObject"]["kind"] == "GPTService"]
    return {one["reason"]: one for one in found}


def test_describe_tells_a_rollout_that_failed_first_in_order(
    operator: OperatorProcess, board: Switchboard, kube: Kube, kubectl: Kubectl, namespace: str, observer: Observer
) -> None:
    kube.apply(by_hand(), namespace)
    pod = the_pod(observer)
    load(kube, pod)
    observer.wait(lambda o: holds(o, "Ready", "False", "ModelLoading"), "to load")
    assert holds(observer.gpt(), "Degraded", "False"), "to be slow is no fault"
    crash(kube, pod, restarts=1, message=BROKEN)
    observer.wait(lambda o: holds(o, "Degraded", "True", "ModelLoadFailed"), "to say what is wrong")
    serve(kube, pod, restarts=1, message=BROKEN)
    observer.wait_ready()
    wait_until(lambda: described(kubectl, namespace), lambda found: "AllReplicasReady" in found, "the last Event")
    story = described(kubectl, namespace)
    assert [reason for reason in story if reason not in _BETWEEN] == [
        "Accepted", "ModelLoading", "ModelLoadFailed", "MinimumReplicasAvailable", "AllReplicasReady"
    ]  # fmt: skip
    before = events(kube, namespace)
    assert "weights are truncated" in before["ModelLoadFailed"]["message"]
    assert before["ModelLoadFailed"]["type"] == "Warning"
    operator.restart()
    wait_for_resyncs(board, 1)
    assert events(kube, namespace) == before


def test_ten_minutes_of_loading_and_four_crashes_look_different(
    operator: OperatorProcess, kube: Kube, namespace: str, observer: Observer
) -> None:
    for name in ("slow", "broken"):
        kube.apply({**by_hand(), "metadata": {"name": name}}, namespace)
    slow, broken = (the_pod(observer, of=name) for name in ("slow", "broken"))
    load(kube, slow, minutes=10)
    for restarts in range(1, 5):
        crash(kube, broken, restarts=restarts)
    crashed = observer.wait(lambda o: holds(o, "Degraded", "True", "CrashLoop"), "to be a fault", "broken")
    assert "exit code 1" in condition(crashed, "Ready")["message"]
    assert crashed["status"]["phase"] == "Degraded"
    loading = observer.wait(lambda o: holds(o, "Ready", "False", "ModelLoading"), "to load", "slow")
    assert holds(loading, "Degraded", "False")
    assert (loading["status"]["phase"], "lastFailure" in loading["status"]) == ("Progressing", False)


def test_a_model_that_answers_too_slowly_is_waited_for(
    operator: OperatorProcess, kube: Kube, namespace: str, observer: Observer
) -> None:
    kube.apply(by_hand(rollout={"readyLatencyMilliseconds": 200}), namespace)
    pod = the_pod(observer)
    load(kube, pod)
    observer.wait(lambda o: holds(o, "Ready", "False", "ModelLoading"), "to load")
    load(kube, pod, answers=True)
    slow = observer.wait(lambda o: holds(o, "Ready", "False", "ReadyLatencyExceeded"), "to say what is waited for")
    assert "200 ms (rollout.readyLatencyMilliseconds)" in condition(slow, "Ready")["message"]
    assert holds(slow, "Degraded", "False")
    serve(kube, pod)
    observer.wait_ready()


def test_a_pod_that_is_ready_between_crashes_leaves_the_service_degraded(
    operator: OperatorProcess, kube: Kube, namespace: str, observer: Observer
) -> None:
    kube.apply(by_hand(), namespace)
    pod = the_pod(observer)
    messages: set[str] = set()
    for restarts in range(1, 4):
        crash(kube, pod, restarts=restarts)
        observer.wait(lambda o: holds(o, "Ready", "False", "CrashLoop"), "to have crashed")
        serve(kube, pod, restarts=restarts)
        up = observer.wait(is_ready, "to serve again")
        assert holds(up, "Degraded", "True", "CrashLoop")
        assert up["status"]["phase"] == "Degraded"
        assert up["status"]["lastFailure"]["reason"] == "CrashLoop"
        messages.add(condition(up, "Degraded")["message"])
    assert len(messages) == 1
    counted = wait_until(lambda: events(kube, namespace)["CrashLoop"], lambda e: e["count"] >= 3, "three to be counted")
    assert counted["firstTimestamp"] <= counted["lastTimestamp"]
    assert len([one for one in kube.all("Event", namespace) if one["reason"] == "CrashLoop"]) == 1


def test_an_evicted_pod_is_remembered_and_several_are_a_fault(
    operator: OperatorProcess, kube: Kube, namespace: str, observer: Observer
) -> None:
    kube.apply(by_hand(), namespace)
    gone: set[str] = set()
    words = "Pod ephemeral local storage usage exceeds the total limit of containers 4Gi."
    for _ in range(2):
        pod = the_pod(observer, but=frozenset(gone))
        gone.add(pod["metadata"]["name"])
        fail(kube, pod, "Evicted", words)
        told = observer.wait(lambda o: "lastFailure" in (o or {}).get("status", {}), "to remember it")
        assert told["status"]["lastFailure"]["reason"] == "PodEvicted"
        assert words.rstrip(".") in told["status"]["lastFailure"]["message"]
    load(kube, the_pod(observer, but=frozenset(gone)))
    degraded = observer.wait(lambda o: holds(o, "Degraded", "True", "PodEvicted"), "one after another to be a fault")
    assert "spec.cache.size" in condition(degraded, "Degraded")["message"]


@pytest.mark.parametrize(
    ("why", "reason", "remedy"),
    [
        ("UnexpectedAdmissionError", "PodRejected", "device plugin"),
        ("OutOfnvidia.com/gpu", "PodRejected", "device plugin"),
        ("Evicted", "PodEvicted", "spec.resources"),
    ],
)
def test_a_kubelet_that_takes_no_pod_is_told_once(
    configure: Callable[..., None],
    board: Switchboard,
    kube: Kube,
    namespace: str,
    observer: Observer,
    why: str,
    reason: str,
    remedy: str,
) -> None:
    """Kubernetes makes one pod after the other. The numbers follow, no more than once in a status interval."""
    configure(stable_seconds="2")
    kube.apply(by_hand(), namespace)
    gone: set[str] = set()

    def refuse(times: int) -> list[str]:
        """Have so many pods refused, and return what the operator wrote meanwhile but for the numbers in the status."""
        mark = board.log.position
        for _ in range(times):
            pod = the_pod(observer, but=frozenset(gone))
            gone.add(pod["metadata"]["name"])
            fail(kube, pod, why, "no healthy devices present")
        observer.wait(lambda o: holds(o, "Degraded", "True", reason), "to be a fault")
        settle(board, {namespace})
        sent = [entry for entry in board.log.writes(mark) if entry.target.namespace == namespace]
        return [f"{one.target.verb} {one.target.resource}" for one in sent if one.target.verb != "status"]

    refuse(3)
    before = condition(observer.gpt(), "Degraded")
    assert refuse(REFUSED_PODS) == []
    assert condition(observer.gpt(), "Degraded") == before
    degraded = observer.gpt()
    for said in ("no healthy devices present", "one after another", remedy):
        assert said in condition(degraded, "Degraded")["message"]
    assert events(kube, namespace)[reason]["type"] == "Warning"
    serve(kube, the_pod(observer, but=frozenset(gone)))
    up = observer.wait_ready()
    assert [up["status"][count] for count in ("replicas", "readyReplicas", "updatedReplicas")] == [1, 1, 1]
    assert len(kube.all("Pod", namespace)) > REFUSED_PODS, "those that failed are left behind"
    calm = observer.wait(lambda o: "stableRevision" in (o or {})["status"], "a stable revision all the same")
    observer.wait(lambda o: holds(o, "Degraded", "False"), "to be over")
    assert calm["status"]["phase"] in ("Ready", "Degraded")


def test_a_node_that_is_lost_is_no_fault_of_the_service(
    operator: OperatorProcess, kube: Kube, namespace: str, observer: Observer
) -> None:
    kube.apply(by_hand(), namespace)
    gone: set[str] = set()
    for _ in range(3):
        pod = the_pod(observer, but=frozenset(gone))
        gone.add(pod["metadata"]["name"])
        fail(kube, pod, "NodeLost", "Node node1 which was running pod is unresponsive")
    # The first of them is told as well.
    told = observer.wait(
        lambda o: holds(o, "Ready", "False", "NodeLost") and "one after another" in condition(o, "Ready")["message"],
        "to say what is waited for",
    )
    assert "kubectl get nodes" in condition(told, "Ready")["message"]
    assert holds(told, "Degraded", "False")
