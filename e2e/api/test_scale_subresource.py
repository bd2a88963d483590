"""`kubectl scale`, with and without a precondition, and what the scale subresource tells an autoscaler."""

from __future__ import annotations

import pytest

from e2e.api.state import Observer, is_stopped, service
from e2e.kube import KINDS, Kube
from e2e.kubectl import Kubectl, KubectlError
from e2e.operator_process import OperatorProcess

AUTOSCALING = {"minReplicas": 1, "maxReplicas": 4}


def scale(kubectl: Kubectl, namespace: str, *arguments: str) -> None:
    kubectl.run("scale", "gptservice/gpt", "--namespace", namespace, *arguments)


def test_a_precondition_that_holds_and_one_that_does_not(
    kubectl: Kubectl, kube: Kube, access: object, namespace: str
) -> None:
    kube.apply(service(replicas=1), namespace)
    scale(kubectl, namespace, "--replicas=2", "--current-replicas=1")
    with pytest.raises(KubectlError, match="Expected replicas to be 1, was 2"):
        scale(kubectl, namespace, "--replicas=3", "--current-replicas=1")
    found = kube.get("GPTService", "gpt", namespace)
    assert found["spec"]["replicas"] == 2


def test_what_it_tells(operator: OperatorProcess, kube: Kube, namespace: str, observer: Observer) -> None:
    kube.apply(service(replicas=2), namespace)
    observer.wait_ready()
    found = kube.request("GET", KINDS["GPTService"].path(namespace, "gpt", "scale"))
    assert found["spec"]["replicas"] == found["status"]["replicas"] == 2
    pods = kube.all("Pod", namespace, labels=found["status"]["selector"])
    assert len(pods) == 2


def test_without_replicas_it_has_the_default(kube: Kube, access: object, namespace: str) -> None:
    """Else /scale answers 500."""
    kube.apply(service(), namespace)
    assert kube.request("GET", KINDS["GPTService"].path(namespace, "gpt", "scale"))["spec"]["replicas"] == 1


def test_stop_and_resume_with_autoscaling_set(
    operator: OperatorProcess, kubectl: Kubectl, kube: Kube, namespace: str, observer: Observer
) -> None:
    kube.apply(service(replicas=2, autoscaling=AUTOSCALING), namespace)
    observer.wait_ready()
    scale(kubectl, namespace, "--replicas=0")
    observer.wait(is_stopped, "to be stopped")
    scale(kubectl, namespace, "--replicas=1")
    observer.wait_ready()
    assert kube.get("GPTService", "gpt", namespace)["spec"]["autoscaling"] == AUTOSCALING


@pytest.mark.parametrize("replicas", ["-1", "2147483648"])
def test_a_count_that_cannot_be_is_refused(
    kubectl: Kubectl, kube: Kube, access: object, namespace: str, replicas: str
) -> None:
    kube.apply(service(), namespace)
    with pytest.raises(KubectlError):
        scale(kubectl, namespace, f"--replicas={replicas}")
    assert kube.get("GPTService", "gpt", namespace)["spec"]["replicas"] == 1
