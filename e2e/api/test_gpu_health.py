"""A pod whose GPU is called unhealthy makes room for one with another GPU, with the permissions of the chart."""

from __future__ import annotations

from e2e.api.by_hand import by_hand, gpu_of, hang, serve, the_pod, the_pods
from e2e.api.quiet import settle, wait_for_resyncs
from e2e.api.state import Observer, condition, holds
from e2e.kube import Kube, Object, wait_until
from e2e.operator_process import OperatorProcess
from e2e.proxy import Switchboard

GPU = {"count": 1}
MARK = "ai.example.com/gpu-unhealthy"


def names(observer: Observer) -> set[str]:
    return {str(pod["metadata"]["name"]) for pod in observer.pods()}


def told_by_events(kube: Kube, namespace: str) -> list[Object]:
    return [event for event in kube.all("Event", namespace) if event["reason"] == "GPUUnhealthy"]


def degraded(observer: Observer, pod: Object) -> Object:
    """Wait until the service says which GPU of this pod is at fault."""

    def told(gpt: Object | None) -> bool:
        return holds(gpt, "Degraded", "True", "GPUUnhealthy") and gpu_of(pod) in condition(gpt, "Degraded")["message"]

    return observer.wait(told, f"to name {gpu_of(pod)}")


def test_of_two_pods_one_makes_room_and_the_next_has_to_wait_whatever_process_runs(
    operator: OperatorProcess, board: Switchboard, kube: Kube, namespace: str, observer: Observer
) -> None:
    kube.apply(by_hand(replicas=2, gpu=GPU), namespace)
    bad, good = the_pods(observer, 2)
    for pod in (bad, good):
        serve(kube, pod, gpu="Healthy")
    observer.wait_ready()
    serve(kube, bad, gpu="Unhealthy")
    gone = str(bad["metadata"]["name"])
    wait_until(lambda: names(observer), lambda now: gone not in now, "the pod on the bad GPU to go")
    new = the_pod(observer, but=frozenset({str(good["metadata"]["name"])}))
    told = observer.wait(lambda o: "lastFailure" in (o or {})["status"], "to remember it")
    assert told["status"]["lastFailure"]["reason"] == "GPUUnhealthy"
    assert gpu_of(bad) in told["status"]["lastFailure"]["message"]
    events = wait_until(lambda: told_by_events(kube, namespace), bool, "an Event")
    assert [event["type"] for event in events] == ["Warning"]
    serve(kube, new, gpu="Healthy")
    observer.wait_ready()

    # The second within ten minutes, before and after a restart.
    serve(kube, good, gpu="Unhealthy")
    degraded(observer, good)
    before = names(observer)
    operator.restart()
    settle(board, {namespace})
    wait_for_resyncs(board, 1)
    assert names(observer) == before
    (revision,) = observer.revisions()
    assert revision["metadata"]["annotations"][MARK].startswith(bad["metadata"]["uid"])


def test_a_single_pod_stays_as_long_as_it_serves(
    operator: OperatorProcess, board: Switchboard, kube: Kube, namespace: str, observer: Observer
) -> None:
    kube.apply(by_hand(gpu=GPU), namespace)
    pod = the_pod(observer)
    serve(kube, pod, gpu="Unhealthy")
    observer.wait_ready()
    told = degraded(observer, pod)
    assert "nvidia-smi" in condition(told, "Degraded")["message"]
    wait_for_resyncs(board, 1)
    assert names(observer) == {str(pod["metadata"]["name"])}
    hang(kube, pod, gpu="Unhealthy")
    wait_until(lambda: names(observer), lambda now: str(pod["metadata"]["name"]) not in now, "the pod to go")
    serve(kube, the_pod(observer), gpu="Healthy")
    observer.wait_ready()
