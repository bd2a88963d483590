"""Every manifest of `examples/`: the API server takes it, and the operator renders it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from e2e.api.conftest import EXAMPLES
from e2e.api.state import Observer, condition, holds, service
from e2e.kube import Kube, Object, wait_until
from e2e.kubectl import Kubectl
from e2e.operator_process import OperatorProcess
from gptservice_runtime import contract

FILES = [file for file in sorted(EXAMPLES.rglob("*.yaml")) if file.name != "values.yaml"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_it_is_accepted(kube: Kube, access: object, file: Path) -> None:
    manifests: list[Object] = list(yaml.safe_load_all(file.read_text()))
    for manifest in manifests:
        manifest["metadata"].pop("namespace", None)  # which need not be there for a dry run
        assert kube.judge(manifest, "default")["metadata"]["name"] == manifest["metadata"]["name"]


def test_encrypted_weights_get_a_key_and_memory(
    operator: OperatorProcess, kube: Kube, kubectl: Kubectl, namespace: str, observer: Observer
) -> None:
    kubectl.apply_file(EXAMPLES / "encrypted-weights.yaml", namespace=namespace)
    wait_until(lambda: kube.find("Deployment", "private-llama", namespace), bool, "the Deployment")
    spec = observer.child("Deployment", "private-llama")["spec"]["template"]["spec"]
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    assert volumes["decrypted"]["emptyDir"] == {"medium": "Memory", "sizeLimit": "31Gi"}
    assert volumes["decryption-key"]["secret"]["secretName"] == "weights-key"
    assert contract.DECRYPT_FLAG in spec["initContainers"][0]["args"]


def test_a_memory_limit_that_holds_no_weights_is_told_with_its_path(
    operator: OperatorProcess, kube: Kube, namespace: str, observer: Observer
) -> None:
    kube.apply(service(decryptionKeySecretRef={"name": "k"}, resources={"limits": {"memory": "1Gi"}}), namespace)
    told = observer.wait(lambda o: holds(o, "Accepted", "False", "InvalidSpec"), "to be refused")
    assert condition(told, "Accepted")["message"].startswith("spec.resources.limits.memory: 1Gi leaves nothing")
    assert kube.find("Deployment", "gpt", namespace) is None
