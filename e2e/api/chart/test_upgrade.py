"""From the previous chart to this one and back, with services in the cluster: nobody's pods notice.

`fixtures/gptservice-operator-previous.tgz` is the chart with its CRDs as it was before; it is never made anew.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.api.chart.conftest import StartOperator
from e2e.api.state import Observer, holds, service
from e2e.installation import CHART, NAMESPACE, RELEASE, Helm
from e2e.kube import Kube, KubeError, Object, wait_until
from e2e.kubectl import Kubectl

PREVIOUS = Path(__file__).parent / "fixtures" / "gptservice-operator-previous.tgz"
CRD = "gptservices.ai.example.com"
PLACE = ("--namespace", NAMESPACE)
SERVICES: dict[str, dict[str, Any]] = {
    "plain": {},
    "scaled": {"autoscaling": {"minReplicas": 2, "maxReplicas": 3}},
    "busy": {"replicas": 2, "maxTokens": 64, "maxInflightRequests": 8, "podLabels": {"team": "a"}},
    "from-catalogue": {"modelRef": "tiny"},
    "stopped": {"replicas": 0},
}
MODEL: Object = {
    "apiVersion": "ai.example.com/v1",
    "kind": "GPTModel",
    "metadata": {"name": "tiny"},
    "spec": {"uri": "file:///models/tiny", "gpu": {"count": 0}},
}


@pytest.fixture
def namespace(kube: Kube) -> Iterator[str]:
    with kube.namespace("upgrade") as name:
        yield name


@pytest.fixture
def observer(kube: Kube, namespace: str) -> Observer:
    return Observer(kube, namespace)


@pytest.fixture
def previous(helm: Helm, kubectl: Kubectl, kube: Kube) -> None:
    """The previous chart's release and nothing else, its CRDs among it."""
    if RELEASE in helm.run("list", *PLACE, "--short"):
        helm.run("uninstall", RELEASE, *PLACE, "--wait")
    kubectl.run("delete", "crd", "--ignore-not-found", CRD, "gptmodels.ai.example.com")
    helm.run("install", RELEASE, str(PREVIOUS), *PLACE, "--create-namespace")
    for kind in ("GPTService", "GPTModel"):
        # A kind that was there a moment ago is not served again at once.
        wait_until(functools.partial(is_served, kube, kind), bool, f"the kind {kind} to be served")


def is_served(kube: Kube, kind: str) -> bool:
    try:
        kube.all(kind)
    except KubeError:
        return False
    return True


def templates(kube: Kube, namespace: str) -> dict[str, Any]:
    """Of every Deployment: which one it is, what its pods are made from, and how often it was changed."""
    return {
        each["metadata"]["name"]: (each["metadata"]["uid"], each["spec"]["template"], each["metadata"]["generation"])
        for each in kube.all("Deployment", namespace)
    }


def pods(observer: Observer) -> set[str]:
    return {pod["metadata"]["uid"] for name in SERVICES for pod in observer.pods(name)}


def settle(observer: Observer) -> None:
    for name, spec in SERVICES.items():
        if spec.get("replicas") == 0:
            observer.wait(lambda o: holds(o, "Ready", "False", "Stopped"), "to be Stopped", name)
        else:
            observer.wait(lambda o: holds(o, "Ready"), "to be Ready", name)


def follows(kube: Kube, namespace: str, observer: Observer, tokens: int) -> None:
    """The operator acts on what is changed."""
    edited = kube.merge("GPTService", "busy", namespace, {"spec": {"maxInflightRequests": tokens}})
    generation = edited["metadata"]["generation"]
    observer.wait(lambda o: (o or {})["status"].get("observedGeneration") == generation, "the edit to be seen", "busy")


def test_upgrade_rollback_uninstall_and_install_again_restart_nothing(
    previous: None, helm: Helm, kube: Kube, kubectl: Kubectl, namespace: str, observer: Observer,
    start_operator: StartOperator,
) -> None:  # fmt: skip
    kube.apply(MODEL)
    for name, spec in SERVICES.items():
        kube.apply(service(name, **spec), namespace)
    start_operator()
    settle(observer)
    before, running = templates(kube, namespace), pods(observer)
    old_schema = kubectl.get("crd", CRD)["spec"]

    helm.run("upgrade", RELEASE, str(CHART), *PLACE)
    assert kubectl.get("crd", CRD)["spec"] != old_schema, "an upgrade brings the new CRDs"
    start_operator()
    settle(observer)
    follows(kube, namespace, observer, 9)
    assert (templates(kube, namespace), pods(observer)) == (before, running), "after the upgrade"

    helm.run("rollback", RELEASE, "1", *PLACE)
    assert kubectl.get("crd", CRD)["spec"] == old_schema
    start_operator()
    settle(observer)
    follows(kube, namespace, observer, 10)
    assert (templates(kube, namespace), pods(observer)) == (before, running), "after the rollback"

    helm.run("upgrade", RELEASE, str(CHART), *PLACE)
    start_operator().stop()
    helm.run("uninstall", RELEASE, *PLACE, "--wait")
    assert kube.find("ServiceAccount", RELEASE, NAMESPACE) is None
    assert {gpt["metadata"]["name"] for gpt in kube.all("GPTService", namespace)} == set(SERVICES)
    assert kube.find("GPTModel", "tiny") is not None
    assert (templates(kube, namespace), pods(observer)) == (before, running), "after the uninstall"

    helm.install_operator()
    start_operator()
    settle(observer)
    follows(kube, namespace, observer, 11)
    assert (templates(kube, namespace), pods(observer)) == (before, running), "after another install"


def test_a_service_deleted_while_no_operator_is_installed_takes_its_children_along(
    previous: None, helm: Helm, kube: Kube, namespace: str, observer: Observer, start_operator: StartOperator
) -> None:
    kube.apply(service("plain"), namespace)
    operator = start_operator()
    observer.wait_ready("plain")
    operator.stop()
    helm.run("uninstall", RELEASE, *PLACE, "--wait")
    kube.delete("GPTService", "plain", namespace)
    wait_until(lambda: kube.all("Pod", namespace), lambda found: not found, "its pods to go", timeout=90)
    helm.install_operator()
