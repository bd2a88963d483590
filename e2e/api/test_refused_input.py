"""The API server refuses bad input and names the field; what runs is not touched."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.api.state import Observer, service
from e2e.kube import Kube, KubeError, Object
from e2e.operator_process import OperatorProcess
from e2e.proxy import Switchboard

BOTH = "exactly one of model and modelRef"
GPU_KEY = "GPUs belong in spec.gpu"

BAD = [
    pytest.param({"replicas": "three"}, "spec.replicas", id="text for a number"),
    pytest.param({"replicas": 1.5}, "spec.replicas", id="fraction for a number"),
    pytest.param({"replicas": -1}, "spec.replicas", id="negative replicas"),
    pytest.param({"model": 35}, "spec.model", id="number for text"),
    pytest.param({"model": ""}, "spec.model", id="empty model"),
    pytest.param({"model": "pvc://models/../secret"}, "spec.model", id="parent in a path"),
    pytest.param({"modelRef": "m"}, BOTH, id="model and modelRef"),
    pytest.param({"model": None}, BOTH, id="neither model nor modelRef"),
    pytest.param({"maxTokens": 0}, "spec.maxTokens", id="no tokens"),
    pytest.param({"maxTokens": -5}, "spec.maxTokens", id="negative tokens"),
    pytest.param({"maxTokens": "2048"}, "spec.maxTokens", id="text for tokens"),
    pytest.param({"maxInflightRequests": -1}, "spec.maxInflightRequests", id="negative requests"),
    pytest.param({"contextLength": 0}, "spec.contextLength", id="no context"),
    pytest.param({"upgradeStrategy": "ReCreate"}, "spec.upgradeStrategy", id="enum typo"),
    pytest.param({"gpu": {"count": -1}}, "spec.gpu.count", id="negative GPUs"),
    pytest.param({"gpu": {"count": 0.5}}, "spec.gpu.count", id="half a GPU"),
    pytest.param({"gpu": 2}, "spec.gpu", id="number for an object"),
    pytest.param({"gpu": {"resourceName": "gpu"}}, "spec.gpu.resourceName", id="resource without domain"),
    pytest.param({"resources": {"limits": {"nvidia.com/gpu": 1}}}, GPU_KEY, id="GPU in limits"),
    pytest.param({"resources": {"requests": {"amd.com/gpu": "1"}}}, GPU_KEY, id="GPU in requests"),
    pytest.param({"resources": {"limits": {"memory": "8 gigs"}}}, "spec.resources.limits", id="no quantity"),
    pytest.param({"engine": {"type": "vllm"}}, "spec.engine.type", id="unknown engine"),
    pytest.param({"engine": {"args": "--seed=1"}}, "spec.engine.args", id="text for a list"),
    pytest.param({"engine": {"env": [{"name": "1X", "value": "y"}]}}, "spec.engine.env[0].name", id="variable name"),
    pytest.param(
        {"engine": {"env": [{"name": "X", "value": "y", "valueFrom": {"fieldRef": {"fieldPath": "a"}}}]}},
        "spec.engine.env[0]",
        id="value and valueFrom",
    ),
    pytest.param({"servedModelNames": []}, "spec.servedModelNames", id="no served name"),
    pytest.param({"servedModelNames": ["a", "a"]}, "spec.servedModelNames[1]", id="served name twice"),
    pytest.param({"startupTimeoutSeconds": 1}, "spec.startupTimeoutSeconds", id="no time to start"),
    pytest.param({"scheduling": {"tolerations": {}}}, "spec.scheduling.tolerations", id="object for a list"),
]


def with_changes(change: dict[str, Any], name: str = "gpt") -> Object:
    manifest = service(name)
    spec = {key: value for key, value in {**manifest["spec"], **change}.items() if value is not None}
    return {**manifest, "spec": spec}


@pytest.mark.parametrize(("change", "says"), BAD)
def test_refuses_to_create(kube: Kube, access: object, namespace: str, change: dict[str, Any], says: str) -> None:
    with pytest.raises(KubeError) as refused:
        kube.create(with_changes(change), namespace)
    assert refused.value.status in (400, 422)
    assert says in refused.value.message
    assert kube.find("GPTService", "gpt", namespace) is None


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("g" * 64, id="64 characters"),
        pytest.param(".".join(["part"] * 30), id="a long subdomain"),
    ],
)
def test_refuses_a_long_name(kube: Kube, access: object, namespace: str, name: str) -> None:
    with pytest.raises(KubeError, match=r"metadata\.name must be no more than 63 characters"):
        kube.create(service(name), namespace)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("g" * 63, id="63 characters"),
        pytest.param("llama-3.1-8b", id="dots"),
        pytest.param("3b-model", id="a leading digit"),
    ],
)
def test_serves_every_name_that_is_accepted(
    operator: OperatorProcess, kube: Kube, namespace: str, observer: Observer, name: str
) -> None:
    kube.apply(service(name), namespace)
    ready = observer.wait(lambda o: o is not None and (o.get("status") or {}).get("phase") == "Ready", "Ready", name)
    host = ready["status"]["endpoint"].removeprefix("http://").split(".")[0]
    assert kube.get("Service", host, namespace)["spec"]["selector"]["gptservice-name"] == name
    (deployment,) = kube.all("Deployment", namespace)
    assert deployment["spec"]["template"]["metadata"]["labels"]["gptservice-name"] == name


def test_unknown_fields_are_refused_where_asked_for(kube: Kube, access: object, namespace: str) -> None:
    """As kubectl does by default."""
    with pytest.raises(KubeError, match="rolout"):
        kube.apply(service(rolout={}), namespace)


def test_a_bad_edit_touches_nothing(
    operator: OperatorProcess, board: Switchboard, kube: Kube, namespace: str, observer: Observer
) -> None:
    kube.apply(service(replicas=2), namespace)
    observer.wait_ready()
    before, mark = observer.versions(), board.log.position
    for parameters in BAD:
        change, says = parameters.values
        with pytest.raises(KubeError) as refused:
            kube.merge("GPTService", "gpt", namespace, {"spec": change})
        assert str(says) in refused.value.message
    assert observer.versions() == before
    assert [entry for entry in board.log.writes(mark) if entry.target.namespace == namespace] == []


def test_the_catalogue_is_immutable(kube: Kube, access: object, namespace: str) -> None:
    name = f"model-{namespace}"
    entry = {
        "apiVersion": "ai.example.com/v1",
        "kind": "GPTModel",
        "metadata": {"name": name},
        "spec": {"uri": "file:///models/tiny"},
    }
    kube.create(entry)
    try:
        with pytest.raises(KubeError, match="a GPTModel cannot be changed"):
            kube.merge("GPTModel", name, "", {"spec": {"uri": "file:///models/other"}})
        kube.merge("GPTModel", name, "", {"metadata": {"labels": {"team": "x"}}})
    finally:
        kube.delete("GPTModel", name)
