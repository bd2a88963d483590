"""Replicas follow the spec, to nothing and back, without touching the pods that stay."""

from __future__ import annotations

import pytest

from e2e.api.state import Observer, condition, holds, is_stopped, service
from e2e.kube import Kube, Object, wait_until
from e2e.kubectl import Kubectl
from e2e.operator_process import OperatorProcess


def uids(observer: Observer) -> set[str]:
    return {pod["metadata"]["uid"] for pod in observer.pods()}


@pytest.mark.parametrize(
    ("before", "after"),
    [pytest.param(1, 3, id="up"), pytest.param(3, 1, id="down")],
)
def test_scales_without_restarting_a_pod(
    operator: OperatorProcess, kubectl: Kubectl, kube: Kube, namespace: str, observer: Observer, before: int, after: int
) -> None:
    kube.apply(service(replicas=before), namespace)
    observer.wait_ready()
    first, template = uids(observer), observer.child("Deployment")["spec"]["template"]
    kubectl.run("scale", "gptservice/gpt", f"--replicas={after}", "--namespace", namespace)
    ready = observer.wait_ready()
    wait_until(lambda: len(observer.pods()), lambda count: count == after, f"{after} pods")
    assert ready["status"]["replicas"] == after
    assert observer.child("Deployment")["spec"]["template"] == template
    second = uids(observer)
    assert first < second if after > before else second < first


def test_to_zero_and_back(operator: OperatorProcess, kube: Kube, namespace: str, observer: Observer) -> None:
    kube.apply(service(replicas=2), namespace)
    observer.wait_ready()
    kube.scale("gpt", namespace, 0)
    stopped = observer.wait(is_stopped, "to be Stopped")
    assert stopped["status"]["phase"] == "Stopped"
    states = {kind: condition(stopped, kind)["status"] for kind in ("Accepted", "Available", "Progressing", "Degraded")}
    assert states == {"Accepted": "True", "Available": "False", "Progressing": "False", "Degraded": "False"}
    assert observer.pods() == []
    assert observer.child("Deployment")["spec"]["replicas"] == 0
    assert observer.child("Service")["spec"]["selector"]["gptservice-name"] == "gpt"

    kube.scale("gpt", namespace, 2)
    observer.wait_ready()
    assert len(observer.pods()) == 2


def stuck_rollout(kube: Kube, namespace: str, observer: Observer) -> Object:
    """Begin a rollout whose new pod no node takes, beside two old ones; return the spec that asks for it."""
    kube.apply(service(replicas=2), namespace)
    observer.wait_ready()
    stuck: Object = {"gpu": {"count": 1, "resourceName": "none.example.com/gpu"}}
    kube.apply(service(replicas=2, **stuck), namespace)
    wait_until(observer.pods, lambda pods: len(pods) == 3, "one more pod, which no node takes")
    return stuck


def test_a_stop_ends_a_rollout_that_is_stuck_whatever_the_strategy(
    operator: OperatorProcess, kube: Kube, namespace: str, observer: Observer
) -> None:
    stuck = stuck_rollout(kube, namespace, observer)
    kube.apply(service(replicas=0, upgradeStrategy="Recreate", **stuck), namespace)
    observer.wait(is_stopped, "to be Stopped")
    kube.apply(service(replicas=2, upgradeStrategy="Recreate"), namespace)
    observer.wait_ready()
    assert observer.child("Deployment")["spec"]["strategy"]["type"] == "Recreate"


@pytest.mark.parametrize(
    "scaling", [{}, {"autoscaling": {"minReplicas": 2, "maxReplicas": 3}}], ids=["fixed", "scaled"]
)
def test_a_stop_does_not_wait_for_a_mistake_to_be_mended(
    operator: OperatorProcess, kubectl: Kubectl, kube: Kube, namespace: str, observer: Observer, scaling: Object
) -> None:
    kube.apply(service(replicas=2, **scaling), namespace)
    observer.wait_ready()
    mistake: Object = {"engine": {"args": ["--port=1"]}}
    kube.apply(service(replicas=2, **scaling, **mistake), namespace)
    observer.wait(lambda o: holds(o, "Accepted", "False", "InvalidEngineArgument"), "the refusal")
    assert len(observer.pods()) == 2
    # No watch shows the Deployment any more; nobody puts the label back while the spec is refused.
    kube.merge("Deployment", "gpt", namespace, {"metadata": {"labels": None}})
    kubectl.run("scale", "gptservice/gpt", "--replicas=0", "--namespace", namespace)
    wait_until(observer.pods, lambda pods: not pods, "no pod")
    told = observer.wait(lambda o: "no pod is left to run" in str(condition(o, "Ready").get("message")), "to say so")
    assert condition(told, "Accepted")["reason"] == "InvalidEngineArgument"
    kube.apply(service(replicas=0, **scaling), namespace)
    observer.wait(is_stopped, "to be Stopped")
    kubectl.run("scale", "gptservice/gpt", "--replicas=2", "--namespace", namespace)
    observer.wait_ready()
    assert len(observer.pods()) == 2


def test_recreate_with_another_count_ends_a_rollout_that_is_stuck(
    operator: OperatorProcess, kube: Kube, namespace: str, observer: Observer
) -> None:
    stuck_rollout(kube, namespace, observer)
    kube.apply(service(replicas=3, upgradeStrategy="Recreate"), namespace)
    observer.wait_ready()
    assert len(observer.pods()) == 3


def test_created_stopped(operator: OperatorProcess, kube: Kube, namespace: str, observer: Observer) -> None:
    kube.apply(service(replicas=0), namespace)
    observer.wait(is_stopped, "to be Stopped")
    assert observer.pods() == []


def test_the_scale_subresource_reports_what_runs(
    operator: OperatorProcess, kube: Kube, namespace: str, observer: Observer
) -> None:
    kube.apply(service(replicas=2), namespace)
    observer.wait_ready()
    path = f"/apis/ai.example.com/v1/namespaces/{namespace}/gptservices/gpt/scale"
    scale = kube.request("GET", path)
    assert scale["status"]["replicas"] == 2
    assert len(kube.all("Pod", namespace, labels=scale["status"]["selector"])) == 2
