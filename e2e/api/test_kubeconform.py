"""Every manifest that we render or ship fits the schemas of a real API server, by the real kubeconform."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e.api import json_schemas, optional_crds
from e2e.cluster import binaries
from e2e.kube import Kube
from e2e.operator_process import ROOT
from gptservice_operator.api import kinds

Judge = Callable[..., subprocess.CompletedProcess[str]]
FOLDERS = ["tests/operator/golden", "examples", "gitops/services"]


@pytest.fixture(scope="module")
def judge(kube: Kube, access: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    program = binaries.ensure([binaries.KUBECONFORM])[binaries.KUBECONFORM]
    schemas = tmp_path_factory.mktemp("schemas")
    with optional_crds.installed(kube, *kinds.OPTIONAL, optional_crds.PROMETHEUS_RULE):
        names = json_schemas.write(kube, schemas)
        assert {"deployment-apps-v1.json", "gptservice-ai-v1.json", "certificate-cert-manager-v1.json"} <= set(names)

        def run(*files: Path, manifests: str | None = None) -> subprocess.CompletedProcess[str]:
            location = ("-schema-location", f"{schemas}/{json_schemas.LOCATION}")
            command = [str(program), "-strict", "-summary", *location, *map(str, files)]
            return subprocess.run(command, input=manifests, capture_output=True, text=True, check=False)

        yield run


@pytest.mark.parametrize("folder", FOLDERS)
def test_children_and_examples_fit(judge: Judge, folder: str) -> None:
    ours = [f for f in sorted((ROOT / folder).rglob("*.yaml")) if f.name not in ("values.yaml", "kustomization.yaml")]
    done = judge(*ours)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Skipped: 0" in done.stdout


@pytest.mark.parametrize("values", ["", "tests/policy/everything.yaml", "examples/edge/values.yaml"])
def test_the_chart_fits(judge: Judge, values: str) -> None:
    helm = binaries.ensure([binaries.HELM])[binaries.HELM]
    given = ["--values", str(ROOT / values)] if values else []
    command = [str(helm), "template", "gptservice-operator", str(ROOT / "charts/gptservice-operator"), *given]
    done = judge(manifests=subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Skipped: 0" in done.stdout


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("apiVersion: ai.example.com/v1\nkind: GPTService\nmetadata: {name: a}\nspec: {modell: x}\n", "modell"),
        ("apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {ports: [{port: http}]}\n", "port"),
        ("apiVersion: v1\nkind: Servise\nmetadata: {name: a}\n", "could not find schema"),
    ],
    ids=["unknown field", "wrong type", "unknown kind"],
)
def test_a_mistake_would_be_noticed(judge: Judge, wrong: str, said: str) -> None:
    done = judge(manifests=wrong)
    assert done.returncode != 0
    assert said in done.stdout
