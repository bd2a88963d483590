"""Mistakes as a new user types them, with plain `kubectl apply`: one line says how to mend the manifest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from e2e.kube import Kube
from e2e.kubectl import Kubectl, KubectlError
from e2e.operator_process import CRDS

HEAD = "apiVersion: ai.example.com/v1\nkind: GPTService\nmetadata: {name: first}\nspec:\n"
LAST_APPLIED_LIMIT = 262_144

MISTAKES = [
    pytest.param("  model: gpt-4\n  replcas: 3\n", 'unknown field "spec.replcas"', id="a typing error"),
    pytest.param(
        "  model: GPT-4 Turbo\n", "must be the name of a GPTModel such as gpt-4-turbo", id="a name for people"
    ),
    pytest.param(
        "  model: gpt-4\n  upgradeStrategy: rolling\n",
        'spec.upgradeStrategy: Unsupported value: "rolling": supported values: "RollingUpdate", "Recreate"',
        id="a word that there is not",
    ),
    pytest.param(
        '  model: gpt-4\n  replicas: "3"\n',
        'spec.replicas: Invalid value: "string": spec.replicas in body must be of type integer',
        id="a text for a number",
    ),
    pytest.param(
        "  model: gpt-4\n  resources: {limits: {nvidia.com/gpu: 1}}\n", "GPUs belong in spec.gpu", id="GPUs as ever"
    ),
    pytest.param("  replicas: 1\n", "exactly one of model and modelRef must be set", id="no model"),
    pytest.param(
        "  model: gpt-4\n  autoscaling: {minReplicas: 5, maxReplicas: 2}\n",
        "minReplicas must not be greater than maxReplicas",
        id="a range the wrong way round",
    ),
]


@pytest.mark.parametrize(("spec", "line"), MISTAKES)
def test_one_line_tells(kubectl: Kubectl, access: object, namespace: str, tmp_path: Path, spec: str, line: str) -> None:
    file = tmp_path / "first.yaml"
    file.write_text(HEAD + spec)
    with pytest.raises(KubectlError) as refused:
        kubectl.apply_file(file, namespace=namespace)
    told = str(refused.value).splitlines()
    assert sum(line in part for part in told) == 1, told


def test_the_crds_are_applied_by_a_plain_client(kube: Kube, kubectl: Kubectl, access: object) -> None:
    """It keeps a copy in an annotation, which has a limit."""
    for file in sorted(CRDS.glob("*.yaml")):
        kubectl.run("apply", "-f", str(file))
        name = file.name.removesuffix(".yaml")
        annotations = kube.get("CustomResourceDefinition", name)["metadata"]["annotations"]
        copied = annotations["kubectl.kubernetes.io/last-applied-configuration"]
        assert json.loads(copied)["kind"] == "CustomResourceDefinition"
        assert len(copied.encode()) < LAST_APPLIED_LIMIT // 2


def test_explain_reads_like_documentation(kubectl: Kubectl, access: object) -> None:
    text = kubectl.run("explain", "gptservice.spec.gpu")
    assert "GPUs of one replica." in text
    assert "count\t<integer>" in text
    assert "cache" in kubectl.run("explain", "gptservice.spec", "--recursive")
