"""The two manifests that the project was given apply unchanged and wait for their model."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from e2e.api.conftest import EXAMPLES
from e2e.api.state import COLLECTED, Observer, condition, engine_args, holds
from e2e.kube import Kube, wait_until
from e2e.kubectl import Kubectl
from e2e.operator_process import OperatorProcess

GIVEN = [
    pytest.param("prod-gpt", "gpt-4-turbo", id="model"),
    pytest.param("prod-gpt-35", "gpt-3.5-turbo-2024-04", id="modelRef"),
]


@pytest.fixture
def claim(kube: Kube, namespace: str) -> Iterator[None]:
    """The PersistentVolumeClaim `models` that the catalogue entries name, bound to a volume."""
    volume = f"models-{namespace}"
    size = {"storage": "1Gi"}
    common = {"accessModes": ["ReadOnlyMany"], "storageClassName": ""}
    reference = {"name": "models", "namespace": namespace}
    path = "/api/v1/persistentvolumes"
    kube.request(
        "POST",
        path,
        body={
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": volume},
            "spec": {**common, "capacity": size, "hostPath": {"path": "/models"}, "claimRef": reference},
        },
    )
    kube.create(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "models"},
            "spec": {**common, "resources": {"requests": size}, "volumeName": volume},
        },
        namespace,
    )
    yield
    kube.request("DELETE", f"{path}/{volume}")


@pytest.fixture
def model(kube: Kube, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of the model, which is not in the catalogue yet; taken out after the test."""
    name: str = request.param
    kube.delete("GPTModel", name)
    yield name
    kube.delete("GPTModel", name)


@pytest.mark.parametrize(("name", "model"), GIVEN, indirect=["model"])
@pytest.mark.usefixtures("claim")
def test_waits_for_its_model_and_starts_by_itself(
    name: str, model: str, operator: OperatorProcess, kubectl: Kubectl, namespace: str, observer: Observer
) -> None:
    kubectl.apply_file(EXAMPLES / f"{name}.yaml", namespace=namespace)
    waiting = observer.wait(lambda o: holds(o, "Accepted", "False", "UnknownModel"), "to be refused", name)
    said = condition(waiting, "Accepted")["message"]
    assert model in said
    assert "Apply a GPTModel of that name" in said
    assert waiting["status"]["phase"] == "Pending"
    assert observer.children() == {}

    kubectl.apply_file(EXAMPLES / f"model-{model}.yaml")
    ready = observer.wait_ready(name)
    assert ready["status"]["phase"] == "Ready"
    assert ready["status"]["readyReplicas"] == 3
    assert ready["spec"] == {**ready["spec"], **yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text())["spec"]}
    assert len(observer.pods(name)) == 3


@pytest.mark.parametrize(("name", "model"), GIVEN, indirect=["model"])
@pytest.mark.usefixtures("claim")
def test_renders_what_the_manifest_says(
    name: str, model: str, operator: OperatorProcess, kubectl: Kubectl, namespace: str, observer: Observer
) -> None:
    kubectl.apply_file(EXAMPLES / f"model-{model}.yaml")
    kubectl.apply_file(EXAMPLES / f"{name}.yaml", namespace=namespace)
    observer.wait_ready(name)
    arguments = engine_args(observer.child("Deployment", name))
    served = [arguments[i + 1] for i, flag in enumerate(arguments) if flag == "--served-model-name"]
    assert served == [model, name]
    limits = observer.child("ConfigMap", f"{name}-limits")["data"]["limits.json"]
    if name == "prod-gpt":
        assert arguments[arguments.index("--max-tokens") + 1] == "2048"
        assert limits == "{}"
    else:
        assert limits == '{"maxInflightRequests": 128}'


@pytest.mark.parametrize(("name", "model"), GIVEN[:1], indirect=["model"])
@pytest.mark.usefixtures("claim")
def test_deleting_the_service_leaves_nothing(
    name: str,
    model: str,
    operator: OperatorProcess,
    kube: Kube,
    kubectl: Kubectl,
    namespace: str,
    observer: Observer,
) -> None:
    kubectl.apply_file(EXAMPLES / f"model-{model}.yaml")
    kubectl.apply_file(EXAMPLES / f"{name}.yaml", namespace=namespace)
    observer.wait_ready(name)
    kubectl.run("delete", "gptservice", name, "--namespace", namespace)
    wait_until(observer.children, lambda found: not found, "the children to go", timeout=COLLECTED)
    wait_until(lambda: kube.all("Pod", namespace), lambda pods: not pods, "the pods to go", timeout=COLLECTED)
