"""Service, labels, annotations, account and strategy: each reaches its child, can be changed, and can be taken back."""

from __future__ import annotations

import functools
from operator import eq
from typing import Any

import pytest

from e2e.api.state import Observer, condition, holds, service
from e2e.kube import Kube, Object, wait_until
from e2e.operator_process import OperatorProcess

WARNED: dict[str, Any] = {
    "podLabels": {"pod-template-hash": "mine"},
}


def template(observer: Observer) -> Object:
    found: Object = observer.child("Deployment")["spec"]["template"]
    return found


def plain_service(observer: Observer) -> Object:
    """The Service without what the API server allocated and what is ours alone."""
    found = observer.child("Service")["spec"]
    ports = [{key: value for key, value in port.items() if key != "nodePort"} for port in found["ports"]]
    has_node_port = any("nodePort" in port for port in found["ports"])
    return {**found, "ports": ports, "clusterIP": "", "clusterIPs": [], "has node port": has_node_port}


def edit(kube: Kube, namespace: str, **spec: Any) -> None:
    kube.merge("GPTService", "gpt", namespace, {"spec": spec})


def settled(observer: Observer) -> Object:
    return observer.wait(
        lambda o: o is not None and o["status"]["observedGeneration"] == o["metadata"]["generation"],
        "to be reported on",
    )


def test_the_type_of_the_service_goes_to_and_fro_without_a_trace(
    operator: OperatorProcess, kube: Kube, namespace: str, observer: Observer
) -> None:
    kube.apply(service(), namespace)
    observer.wait_ready()
    before = plain_service(observer)
    address = observer.child("Service")["spec"]["clusterIP"]
    for kind in ("NodePort", "LoadBalancer", "NodePort", "LoadBalancer", "ClusterIP"):
        edit(kube, namespace, service={"type": kind})
        wait_until(lambda: observer.child("Service")["spec"]["type"], functools.partial(eq, kind), kind)
    assert plain_service(observer) == before
    assert observer.child("Service")["spec"]["clusterIP"] == address


def test_the_port_is_that_of_the_endpoint(
    operator: OperatorProcess, kube: Kube, namespace: str, observer: Observer
) -> None:
    kube.apply(service(service={"port": 8080, "type": "NodePort"}), namespace)
    assert observer.wait_ready()["status"]["endpoint"] == f"http://gpt.{namespace}.svc:8080"
    (port,) = observer.child("Service")["spec"]["ports"]
    assert (port["port"], port["targetPort"]) == (8080, 8000)
    edit(kube, namespace, service={"port": 81})
    observer.wait(lambda o: o is not None and o["status"]["endpoint"].endswith(":81"), "another port")
    (moved,) = observer.child("Service")["spec"]["ports"]
    assert moved["port"] == 81


def test_labels_and_annotations_are_added_and_taken_back_and_never_replace_ours(
    operator: OperatorProcess, kube: Kube, namespace: str, observer: Observer
) -> None:
    added: dict[str, Any] = {
        "podLabels": {"team": "a", "app.kubernetes.io/instance": "argo", "gptservice-name": "other"},
        "podAnnotations": {"example.com/note": "so 🙂", "argocd.argoproj.io/tracking-id": "x"},
        "service": {"annotations": {"example.com/scheme": "internal", "ai.example.com/applied-hash": "x"}},
        "priority": "High",
    }
    kube.apply(
        {**service(**added), "metadata": {"name": "gpt", "labels": {"app.kubernetes.io/instance": "argo"}}}, namespace
    )
    accepted = condition(observer.wait_ready(), "Accepted")
    assert "spec.podLabels[app.kubernetes.io/instance] is left out: the key is reserved" in accepted["message"]
    metadata = template(observer)["metadata"]
    assert metadata["labels"]["team"] == "a"
    assert metadata["labels"]["gptservice-name"] == "gpt"
    assert "app.kubernetes.io/instance" not in metadata["labels"]
    assert metadata["annotations"] == {"example.com/note": "so 🙂", "inference.ai/priority": "high"}
    assert observer.child("Service")["metadata"]["annotations"]["example.com/scheme"] == "internal"
    edit(kube, namespace, **dict.fromkeys(added))
    observer.wait_rolled("gpt", lambda d: "team" not in d["spec"]["template"]["metadata"]["labels"], "no label")
    assert not template(observer)["metadata"].get("annotations")
    wait_until(
        lambda: list(observer.child("Service")["metadata"]["annotations"]),
        lambda keys: keys == ["ai.example.com/applied-hash"],
        "no annotation of the user's on the Service",
    )


def test_account_and_pull_secrets_can_be_taken_back(
    operator: OperatorProcess, kube: Kube, namespace: str, observer: Observer
) -> None:
    """An account that is merely left out comes back from its deprecated twin, ``serviceAccount``."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "serving"}}
    kube.create(account, namespace)
    kube.apply(service(serviceAccountName="serving", imagePullSecrets=[{"name": "a"}, {"name": "b"}]), namespace)
    observer.wait_ready()
    spec = template(observer)["spec"]
    assert spec["serviceAccountName"] == "serving"
    assert spec["imagePullSecrets"] == [{"name": "a"}, {"name": "b"}]
    edit(kube, namespace, serviceAccountName=None, imagePullSecrets=None)
    observer.wait_rolled("gpt", lambda d: d["spec"]["template"]["spec"]["serviceAccountName"] == "gpt-pods", "its own")
    assert "imagePullSecrets" not in template(observer)["spec"]


@pytest.mark.parametrize(
    ("spec", "strategy"),
    [
        pytest.param({}, {"maxSurge": 1, "maxUnavailable": 0}, id="nothing"),
        pytest.param({"rollout": {"maxSurge": "50%"}}, {"maxSurge": "50%", "maxUnavailable": 0}, id="a surge"),
        pytest.param({"rollout": {"maxSurge": 0}}, {"maxSurge": 0, "maxUnavailable": 1}, id="no surge"),
        pytest.param({"rollout": {"maxUnavailable": "0%"}}, {"maxSurge": 1, "maxUnavailable": "0%"}, id="0%"),
        pytest.param(
            # No volume is there for it.
            {"cache": {"size": "1Gi"}, "replicas": 0},
            {"maxSurge": 0, "maxUnavailable": 1},
            id="a cache for one pod",
        ),
    ],
)
def test_the_bounds_of_a_rollout(
    operator: OperatorProcess, kube: Kube, namespace: str, observer: Observer, spec: Object, strategy: Object
) -> None:
    kube.apply(service(**spec), namespace)
    wait_until(lambda: kube.find("Deployment", "gpt", namespace), bool, "the Deployment")
    assert observer.child("Deployment")["spec"]["strategy"] == {"type": "RollingUpdate", "rollingUpdate": strategy}


def test_what_is_asked_in_vain_is_said(
    operator: OperatorProcess, kube: Kube, namespace: str, observer: Observer
) -> None:
    kube.apply(service(**WARNED), namespace)
    accepted = condition(observer.wait_ready(), "Accepted")
    assert (accepted["status"], accepted["reason"]) == ("True", "AcceptedWithWarnings")
    assert "spec.podLabels[pod-template-hash] is left out: the key is reserved" in accepted["message"]
    edit(kube, namespace, **dict.fromkeys(WARNED))
    observer.wait(lambda o: holds(o, "Accepted", "True", "Accepted"), "no warning")


def test_an_edit_that_changes_nothing_is_acknowledged(
    operator: OperatorProcess, kube: Kube, namespace: str, observer: Observer
) -> None:
    kube.apply(service(), namespace)
    before = observer.wait_ready()
    children = observer.versions()
    edit(kube, namespace, drainTimeoutSeconds=60, upgradeStrategy="RollingUpdate")
    after = settled(observer)
    assert after["status"]["observedGeneration"] > before["status"]["observedGeneration"]
    changed = {key for key, version in observer.versions().items() if children[key] != version}
    assert changed == {"GPTService/gpt"}


def test_parallelism_that_does_not_fit_the_gpus_is_refused(
    operator: OperatorProcess, kube: Kube, namespace: str, observer: Observer
) -> None:
    wrong: dict[str, Any] = {"gpu": {"count": 2}, "engine": {"args": ["--tensor-parallel-size", "4"]}}
    kube.apply(service(**wrong), namespace)
    found = observer.wait(lambda o: holds(o, "Accepted", "False", "InvalidEngineArgument"), "to be refused")
    assert "spec.engine.args" in condition(found, "Accepted")["message"]
    assert observer.children() == {}


def test_an_argument_that_vllm_does_not_know_is_refused_before_there_is_a_pod(
    operator: OperatorProcess, kube: Kube, namespace: str, observer: Observer
) -> None:
    kube.apply(service(engine={"args": ["--seed=1", "--max-modl-len=1"]}), namespace)
    found = observer.wait(lambda o: holds(o, "Accepted", "False", "InvalidEngineArgument"), "to be refused")
    assert "spec.engine.args[1]: " in condition(found, "Accepted")["message"]
    assert "did you mean --max-model-len?" in condition(found, "Accepted")["message"]
    assert observer.children() == {}
    kube.apply(service(engine={"args": ["--seed=1"]}), namespace)
    observer.wait_ready()
    before = observer.versions()
    kube.apply(service(engine={"args": ["--seed=one"]}), namespace)
    observer.wait(lambda o: holds(o, "Accepted", "False", "InvalidEngineArgument"), "to be refused again")
    changed = {key for key, version in observer.versions().items() if before[key] != version}
    assert changed == {"GPTService/gpt"}
