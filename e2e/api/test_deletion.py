"""Deletion is Kubernetes' work alone: it needs no operator, and nothing is left."""

from __future__ import annotations

import pytest

from e2e.api.state import COLLECTED, Observer, service
from e2e.kube import Kube, Object, stays, wait_until
from e2e.operator_process import OperatorProcess


@pytest.fixture
def running(operator: OperatorProcess, kube: Kube, namespace: str, observer: Observer) -> OperatorProcess:
    """An operator with a Ready GPTService."""
    kube.apply(service(replicas=2), namespace)
    observer.wait_ready()
    return operator


def test_nothing_carries_a_finalizer(running: OperatorProcess, kube: Kube, namespace: str) -> None:
    for kind in ("GPTService", "Deployment", "Service", "ConfigMap", "ServiceAccount", "NetworkPolicy", "Pod"):
        assert [obj["metadata"].get("finalizers") for obj in kube.all(kind, namespace)].count(None) == len(
            kube.all(kind, namespace)
        )


def test_nothing_is_left(running: OperatorProcess, kube: Kube, namespace: str, observer: Observer) -> None:
    kube.delete("GPTService", "gpt", namespace)
    wait_until(observer.children, lambda found: not found, "the children to go", timeout=COLLECTED)
    wait_until(lambda: kube.all("Pod", namespace), lambda pods: not pods, "the pods to go", timeout=COLLECTED)
    stays(observer.children, lambda found: not found, "the namespace without children", seconds=2)


def test_without_the_operator(running: OperatorProcess, kube: Kube, namespace: str, observer: Observer) -> None:
    running.stop()
    kube.delete("GPTService", "gpt", namespace)
    wait_until(lambda: observer.gpt(), lambda gpt: gpt is None, "the GPTService to go")
    wait_until(observer.children, lambda found: not found, "the children to go", timeout=COLLECTED)
    running.start()
    stays(observer.children, lambda found: not found, "the namespace without children", seconds=2)


def test_in_the_foreground(running: OperatorProcess, kube: Kube, namespace: str, observer: Observer) -> None:
    """The object stays until its children are gone; none of them is made again meanwhile."""
    path = f"/apis/ai.example.com/v1/namespaces/{namespace}/gptservices/gpt"
    kube.request("DELETE", path, query={"propagationPolicy": "Foreground"})
    wait_until(lambda: observer.gpt(), lambda gpt: gpt is None, "the GPTService to go", timeout=COLLECTED)
    wait_until(observer.children, lambda found: not found, "the children to go", timeout=COLLECTED)
    stays(observer.children, lambda found: not found, "the namespace without children", seconds=2)


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param({"spec": {"replicas": 0}}, id="stopped"),
        pytest.param({"spec": {"model": "no-such-model"}}, id="refused"),
    ],
)
def test_in_any_state(running: OperatorProcess, kube: Kube, namespace: str, observer: Observer, edit: Object) -> None:
    generation = kube.merge("GPTService", "gpt", namespace, edit)["metadata"]["generation"]
    seen = lambda o: o is not None and o["status"].get("observedGeneration") == generation  # noqa: E731
    observer.wait(seen, "the edit to be seen")
    kube.delete("GPTService", "gpt", namespace)
    wait_until(observer.children, lambda found: not found, "the children to go", timeout=COLLECTED)


def test_a_namespace_without_the_operator(running: OperatorProcess, kube: Kube, namespace: str) -> None:
    running.stop()
    kube.delete("Namespace", namespace)
    wait_until(
        lambda: kube.find("Namespace", namespace), lambda found: found is None, "the namespace to go", timeout=COLLECTED
    )


def test_a_namespace_beside_the_operator(running: OperatorProcess, kube: Kube, namespace: str) -> None:
    kube.delete("Namespace", namespace)
    wait_until(
        lambda: kube.find("Namespace", namespace), lambda found: found is None, "the namespace to go", timeout=COLLECTED
    )


def test_deleted_and_made_again_without_the_operator(
    running: OperatorProcess, kube: Kube, namespace: str, observer: Observer
) -> None:
    """Children of the old object may still be there when the operator meets the new one."""
    running.stop()
    kube.delete("GPTService", "gpt", namespace)
    wait_until(lambda: observer.gpt(), lambda gpt: gpt is None, "the GPTService to go")
    uid = kube.apply(service(replicas=1), namespace)["metadata"]["uid"]
    running.start()
    observer.wait_ready()
    wait_until(
        lambda: [c["metadata"]["ownerReferences"][0]["uid"] for c in observer.children().values()],
        lambda owners: owners == ["gpt"] * 7,
        "the seven children of the new GPTService",
    )
    assert observer.child("Deployment")["metadata"]["ownerReferences"][0]["uid"] == uid


def test_orphaned_children_are_adopted_by_nobody(
    running: OperatorProcess, kube: Kube, namespace: str, observer: Observer
) -> None:
    """`kubectl delete --cascade=orphan` leaves the children; they are not the next object's either."""
    path = f"/apis/ai.example.com/v1/namespaces/{namespace}/gptservices/gpt"
    kube.request("DELETE", path, query={"propagationPolicy": "Orphan"})
    wait_until(lambda: observer.gpt(), lambda gpt: gpt is None, "the GPTService to go")
    versions = observer.versions()
    assert {"Deployment/gpt", "Service/gpt", "ConfigMap/gpt-limits"} < set(versions)
    assert len(versions) == 8
    stays(observer.versions, lambda now: set(now) == set(versions), "the children", seconds=1)
