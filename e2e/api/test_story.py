"""What `kubectl describe` tells of a service, and which cause stays through a pod's ups and downs."""

from __future__ import annotations

import re

from e2e.api.by_hand import by_hand, crash, fail, load, serve, the_pod, told
from e2e.api.quiet import wait_for_resyncs
from e2e.api.state import Observer, condition, holds, is_ready
from e2e.kube import Kube, Object, wait_until
from e2e.kubectl import Kubectl
from e2e.operator_process import OperatorProcess
from e2e.proxy import Switchboard

# Whether a pass falls into these moments is chance.
_BETWEEN = ("RollingOut", "PodsStarting")
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


def test_a_kubelet_that_takes_no_pod_is_quoted(
    operator: OperatorProcess, kube: Kube, namespace: str, observer: Observer
) -> None:
    kube.apply(by_hand(), namespace)
    gone: set[str] = set()
    for _ in range(3):
        pod = the_pod(observer, but=frozenset(gone))
        gone.add(pod["metadata"]["name"])
        fail(kube, pod, "UnexpectedAdmissionError", "Allocate failed due to no healthy devices present")
    degraded = observer.wait(lambda o: holds(o, "Degraded", "True", "PodRejected"), "to be a fault")
    assert "no healthy devices present" in condition(degraded, "Degraded")["message"]
    assert "device plugin" in condition(degraded, "Degraded")["message"]
