"""The examples of models that pods download: accepted as they are, with what opens them in the init container alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from e2e.api.conftest import EXAMPLES
from e2e.api.state import Observer, condition, holds
from e2e.kube import Kube
from e2e.kubectl import Kubectl
from gptservice_runtime import contract

SCHEMES = ("s3", "gs", "oci", "https")


@pytest.fixture(params=SCHEMES)
def scheme(request: pytest.FixtureRequest, kubectl: Kubectl) -> Iterator[str]:
    yield request.param
    kubectl.run("delete", "gptmodel", f"smollm2-from-{request.param}", "--ignore-not-found")


@pytest.fixture
def entries(kube: Kube, kubectl: Kubectl) -> Iterator[None]:
    uris = {"in-a-hub": "hf://org/name", "in-a-store": "s3://bucket/m"}
    for name, uri in uris.items():
        body = {"apiVersion": "ai.example.com/v1", "kind": "GPTModel", "metadata": {"name": name}, "spec": {"uri": uri}}
        kube.apply(body)
    yield
    kubectl.run("delete", "gptmodel", *uris, "--ignore-not-found")


def test_the_example_is_accepted_and_rendered(
    scheme: str, kube: Kube, kubectl: Kubectl, namespace: str, observer: Observer, operator: object
) -> None:
    kubectl.apply_file(EXAMPLES / f"{scheme}.yaml", namespace=namespace)
    name = f"from-{scheme}"
    observer.wait(lambda o: holds(o, "Accepted", "True"), "to be accepted", name)
    deployment: Any = kube.get("Deployment", name, namespace)
    pod = deployment["spec"]["template"]["spec"]
    (fetch,), (engine,) = pod["initContainers"], pod["containers"]
    (entry, _) = yaml.safe_load_all((EXAMPLES / f"{scheme}.yaml").read_text())
    assert fetch["args"][:3] == [contract.FETCH_COMMAND, contract.URI_FLAG, entry["spec"]["uri"]]
    assert contract.MEMORY_LIMIT_FLAG in fetch["args"]
    (volume,) = [volume for volume in pod["volumes"] if volume["name"] == "model-credentials"]
    assert volume["secret"]["secretName"] == f"{scheme}-credentials"
    assert contract.MODEL_CREDENTIALS_DIRECTORY in {mount["mountPath"] for mount in fetch["volumeMounts"]}
    assert contract.MODEL_CREDENTIALS_DIRECTORY not in {mount["mountPath"] for mount in engine["volumeMounts"]}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        pytest.param({"modelRef": "in-a-hub", "modelCredentialsSecretRef": {"name": "s"}}, "spec.modelCredentials"),
        pytest.param({"modelRef": "in-a-store", "huggingFaceTokenSecretRef": {"name": "s"}}, "spec.huggingFace"),
        pytest.param({"model": "pvc://models/m.gguf"}, "spec.model: "),
    ],
)
def test_what_only_the_catalogue_shows_is_refused_before_a_pod_is_made(
    spec: dict[str, Any], field: str, kube: Kube, entries: object, namespace: str, observer: Observer, operator: object
) -> None:
    """What is in one object, its rules refuse: tests/operator/api/manifests.yaml."""
    body = {"apiVersion": "ai.example.com/v1", "kind": "GPTService", "metadata": {"name": "misfit"}, "spec": spec}
    kube.apply(body, namespace)
    told = observer.wait(lambda o: holds(o, "Accepted", "False", "InvalidSpec"), "to be refused", "misfit")
    assert condition(told, "Accepted")["message"].startswith(field)
    assert kube.all("Deployment", namespace) == []
