"""What others do to the children: what is ours comes back, what is theirs stays."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from e2e.api.state import Observer, engine_args, plain, service
from e2e.kube import Kube, KubeError, Object, stays, wait_until
from e2e.kubectl import Kubectl
from e2e.operator_process import OperatorProcess


@pytest.fixture
def running(operator_without_resync: OperatorProcess, kube: Kube, namespace: str, observer: Observer) -> Object:
    """A Ready GPTService with two replicas, under an operator that hears of things by its watches alone."""
    kube.apply(service(replicas=2), namespace)
    return observer.wait_ready()


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("Deployment", "gpt"),
        ("Service", "gpt"),
        ("Service", "gpt-pods"),
        ("ConfigMap", "gpt-limits"),
        ("ServiceAccount", "gpt-pods"),
        ("PodDisruptionBudget", "gpt"),
        ("NetworkPolicy", "gpt"),
    ],
)
def test_a_deleted_child_comes_back(running: Object, observer: Observer, kind: str, name: str) -> None:
    before = observer.children()
    observer.delete_and_wait_for_another(kind, name)
    wait_until(observer.children, lambda now: now == before, "the children as they were")
    observer.wait_ready()


@pytest.mark.parametrize(
    ("kind", "name", "change"),
    [
        pytest.param("Deployment", "gpt", {"spec": {"replicas": 5}}, id="replicas"),
        pytest.param(
            "Deployment", "gpt", {"spec": {"template": {"spec": {"enableServiceLinks": True}}}}, id="pod template"
        ),
        pytest.param("Deployment", "gpt", {"spec": {"revisionHistoryLimit": 1}}, id="history"),
        pytest.param("Service", "gpt", {"spec": {"selector": {"gptservice-name": "other"}}}, id="selector"),
        pytest.param("Service", "gpt", {"spec": {"selector": {"tier": "none"}}}, id="selector narrowed"),
        pytest.param("Service", "gpt", {"metadata": {"annotations": {"ai.example.com/applied-hash": "x"}}}, id="hash"),
        pytest.param("ConfigMap", "gpt-limits", {"data": {"limits.json": "{}x"}}, id="data"),
        pytest.param("Service", "gpt", {"spec": {"selector": {"team": "other"}}}, id="narrower selector"),
        pytest.param("Service", "gpt-pods", {"spec": {"publishNotReadyAddresses": True}}, id="pods that are not ready"),
        pytest.param("ServiceAccount", "gpt-pods", {"automountServiceAccountToken": None}, id="token"),
        pytest.param("PodDisruptionBudget", "gpt", {"spec": {"maxUnavailable": "100%"}}, id="all evictable"),
        pytest.param(
            "PodDisruptionBudget",
            "gpt",
            {"spec": {"unhealthyPodEvictionPolicy": "IfHealthyBudget"}},
            id="no drain",
        ),
        pytest.param("NetworkPolicy", "gpt", {"spec": {"ingress": [{}]}}, id="everything opened"),
        pytest.param("NetworkPolicy", "gpt", {"spec": {"ingress": None}}, id="everything closed"),
        pytest.param(
            "NetworkPolicy", "gpt", {"spec": {"podSelector": {"matchLabels": {"team": "other"}}}}, id="for other pods"
        ),
        pytest.param("Deployment", "gpt", {"metadata": {"labels": {"gptservice-name": None}}}, id="label removed"),
    ],
)
def test_an_edit_of_ours_is_taken_back(
    running: Object,
    kube: Kube,
    namespace: str,
    observer: Observer,
    kind: str,
    name: str,
    change: Object,
) -> None:
    before = observer.children()
    original = observer.child(kind, name)
    edited = kube.merge(kind, name, namespace, change)
    assert parts(edited) != parts(original)
    wait_until(
        lambda: observer.child(kind, name), lambda child: parts(child) == parts(original), f"the {kind} as it was"
    )
    assert observer.children() == before
    observer.wait_ready()


def another_probe(deployment: Object) -> None:
    engine(deployment)["readinessProbe"] = {"exec": {"command": ["true"]}}


def another_volume(deployment: Object) -> None:
    volumes = deployment["spec"]["template"]["spec"]["volumes"]
    found = next(volume for volume in volumes if volume["name"] == "tmp")
    del found["emptyDir"]
    found["hostPath"] = {"path": "/tmp"}  # what somebody writes by hand


def a_value_from_elsewhere(deployment: Object) -> None:
    found = next(variable for variable in engine(deployment)["env"] if variable["name"] == "A")
    del found["value"]
    found["valueFrom"] = {"fieldRef": {"fieldPath": "metadata.name"}}


def engine(deployment: Object) -> Object:
    containers = deployment["spec"]["template"]["spec"]["containers"]
    return next(container for container in containers if container["name"] == "engine")


@pytest.mark.parametrize("edit", [another_probe, another_volume, a_value_from_elsewhere])
def test_a_part_that_was_replaced_by_another_kind_is_taken_back(
    operator_without_resync: OperatorProcess,
    kube: Kube,
    namespace: str,
    observer: Observer,
    edit: Callable[[Object], None],
) -> None:
    """Server-side apply adds ours beside theirs, which the API server refuses: only one of the two may be there."""
    kube.apply(service(engine={"env": [{"name": "A", "value": "1"}]}), namespace)
    observer.wait_ready()
    before = observer.children()

    def write() -> bool:
        deployment = observer.child("Deployment")
        edit(deployment)
        try:
            kube.request("PUT", f"/apis/apps/v1/namespaces/{namespace}/deployments/gpt", body=deployment)
        except KubeError as error:
            if error.status != 409:
                raise
            return False
        return True

    wait_until(write, lambda done: done, "the edit")
    wait_until(observer.children, lambda now: now == before, "the children as they were")
    observer.wait_ready()


def test_a_strategy_that_was_applied_by_another_manager_is_taken_back(
    operator_without_resync: OperatorProcess, kubectl: Kubectl, kube: Kube, namespace: str, observer: Observer
) -> None:
    """The API server fills in ``rollingUpdate`` beside it, which belongs to nobody and forbids ``type: Recreate``."""
    kube.apply(service(upgradeStrategy="Recreate"), namespace)
    observer.wait_ready()
    before = observer.children()
    applied = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "gpt", "namespace": namespace},
        "spec": {"strategy": {"type": "RollingUpdate"}},
    }
    kubectl.run("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=json.dumps(applied))
    wait_until(observer.children, lambda now: now == before, "the children as they were")
    assert observer.child("Deployment")["spec"]["strategy"] == {"type": "Recreate"}
    observer.wait_ready()


def parts(child: Object) -> list[object]:
    """All of a child that an edit could change."""
    shown = plain(child, {})
    return [shown, child["metadata"].get("annotations", {}).get("ai.example.com/applied-hash")]


def test_foreign_metadata_and_a_sidecar_stay(
    running: Object, kube: Kube, kubectl: Kubectl, namespace: str, observer: Observer
) -> None:
    sidecar = {"name": "mesh", "image": "localhost/mesh:1"}
    theirs = {"example.org/theirs": "yes"}
    kube.apply(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "gpt", "annotations": theirs, "labels": theirs},
            "spec": {"template": {"metadata": {"annotations": theirs}, "spec": {"containers": [sidecar]}}},
        },
        namespace,
        manager="mesh",
    )
    kube.merge("Service", "gpt", namespace, {"metadata": {"annotations": theirs}})
    observer.wait_rolled("gpt", lambda d: len(containers(d)) == 2, "the sidecar")
    kube.apply(service(replicas=2, engine={"args": ["--seed=7"]}), namespace)
    deployment = observer.wait_rolled("gpt", lambda d: "--seed=7" in engine_args(d), "the new argument")
    assert containers(deployment) == {"engine", "mesh"}
    assert theirs.items() <= deployment["metadata"]["annotations"].items()
    assert theirs.items() <= deployment["metadata"]["labels"].items()
    assert theirs.items() <= deployment["spec"]["template"]["metadata"]["annotations"].items()
    assert theirs.items() <= observer.child("Service")["metadata"]["annotations"].items()
    observer.wait_ready()


def containers(deployment: Object) -> set[str]:
    return {c["name"] for c in deployment["spec"]["template"]["spec"]["containers"]}


def test_rollout_restart_works_and_stays(
    running: Object, kube: Kube, kubectl: Kubectl, namespace: str, observer: Observer
) -> None:
    old = {pod["metadata"]["uid"] for pod in observer.pods()}
    kubectl.run("rollout", "restart", "deployment/gpt", "--namespace", namespace)
    restarted = observer.wait_rolled("gpt", lambda d: restarted_at(d) != "", "the restart")
    observer.wait_ready()
    assert old.isdisjoint(pod["metadata"]["uid"] for pod in observer.pods())
    kube.scale("gpt", namespace, 3)  # another pass that writes the Deployment
    observer.wait_ready()
    pods = {pod["metadata"]["uid"] for pod in observer.pods()}
    assert restarted_at(observer.child("Deployment")) == restarted_at(restarted)
    stays(
        lambda: {pod["metadata"]["uid"] for pod in observer.pods()},
        lambda now: now == pods,
        "the restarted pods",
        seconds=1,
    )


def restarted_at(deployment: Object) -> str:
    annotations = deployment["spec"]["template"]["metadata"].get("annotations") or {}
    return str(annotations.get("kubectl.kubernetes.io/restartedAt", ""))


def test_labels_of_the_service_are_not_copied(running: Object, kube: Kube, namespace: str, observer: Observer) -> None:
    """A GitOps tool's tracking label on a child would make that tool prune the child."""
    before = observer.children()
    theirs = {"argocd.argoproj.io/instance": "app", "app.kubernetes.io/instance": "app"}
    kube.merge("GPTService", "gpt", namespace, {"metadata": {"labels": theirs, "annotations": theirs}})
    kube.scale("gpt", namespace, 3)
    observer.wait_ready()
    after = observer.children()
    assert {key: value["metadata"] for key, value in after.items()} == {
        key: value["metadata"] for key, value in before.items()
    }
