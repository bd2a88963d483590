"""What we render passes the rules that we ship, judged by the real Conftest.

Building Conftest takes four minutes of CPU, most of it for clouds that it could read from: `make test-long` does it.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from e2e.cluster import binaries
from e2e.reader import Reader

pytestmark = [pytest.mark.api, pytest.mark.long, pytest.mark.timeout(1200)]  # needs Go binaries, no cluster

ROOT = Path(__file__).resolve().parents[2]
POLICY = ROOT / "policy"
CHECKOV = "3.3.30"
CHARTS = ("gptservice-operator", "gptservice-catalogue")
VALUES = ["", "tests/policy/everything.yaml", "examples/edge/values.yaml", "gitops/operator/values.yaml"]


@pytest.fixture(scope="module")
def conftest() -> Path:
    return binaries.ensure([binaries.CONFTEST])[binaries.CONFTEST]


def judge(conftest: Path, *files: Path | str, manifests: str | None = None) -> str:
    """What Conftest said; AssertionError where it denies."""
    command = [conftest, "test", "--no-color", "--policy", POLICY, *files]
    done = subprocess.run(command, input=manifests, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_rule_denies_what_it_is_for(conftest: Path) -> None:
    command = [conftest, "verify", "--no-color", "--policy", POLICY]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("values", VALUES, ids=lambda file: file or "default")
def test_the_operator_s_chart_passes(conftest: Path, values: str) -> None:
    helm = binaries.ensure([binaries.HELM])[binaries.HELM]
    given = ["--values", ROOT / values] if values else []
    command = [helm, "template", CHARTS[0], ROOT / "charts" / CHARTS[0], *given]
    rendered = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "passed" in judge(conftest, "-", manifests=rendered)


@pytest.mark.parametrize("folder", ["tests/operator/golden", "examples", "gitops/services"])
def test_children_and_examples_pass(conftest: Path, folder: str) -> None:
    files = [file for file in sorted((ROOT / folder).rglob("*.yaml")) if file.name != "values.yaml"]
    assert "passed" in judge(conftest, *files)


def test_the_commands_of_the_page_find_nothing(conftest: Path, tmp_path: Path) -> None:
    programs = {"conftest": conftest, "helm": binaries.ensure([binaries.HELM])[binaries.HELM]}
    said = Reader(tmp_path / "checkout", programs).run("policy/README.md: Policy, sh 1")
    assert said.count(" 0 failures") == 3


def test_a_chart_without_a_memory_limit_would_not_pass(conftest: Path) -> None:
    helm = binaries.ensure([binaries.HELM])[binaries.HELM]
    command = [helm, "template", CHARTS[0], ROOT / "charts" / CHARTS[0], "--set", "resources.limits.memory=null"]
    rendered = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    with pytest.raises(AssertionError, match=r"resources\.limits\.memory is not set"):
        judge(conftest, "-", manifests=rendered)


def test_checkov_finds_nothing_more_than_what_its_configuration_explains(tmp_path: Path) -> None:
    """In an environment of its own, which uv makes: Checkov pins dependencies that ours must not be bound by."""
    helm = binaries.ensure([binaries.HELM])[binaries.HELM]
    command = [helm, "template", CHARTS[0], ROOT / "charts" / CHARTS[0], "--namespace", "gptservice-system"]
    (tmp_path / "chart.yaml").write_text(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    for file in (ROOT / "tests/operator/golden").glob("*.yaml"):
        shutil.copy(file, tmp_path)
    checkov = [os.environ.get("UV", "uv"), "tool", "run", "--python", "3.11", f"checkov@{CHECKOV}"]
    judged = [*checkov, "--config-file", str(POLICY / "checkov.yaml"), "--directory", str(tmp_path)]
    done = subprocess.run(judged, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
