"""Renders the chart with the real Helm."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster import binaries

CHART = Path(__file__).resolve().parents[2] / "charts" / "gptservice-operator"

Helm = Callable[..., subprocess.CompletedProcess[str]]
Render = Callable[..., list[dict[str, Any]]]


@pytest.fixture(scope="session")
def helm() -> Helm:
    program = binaries.ensure([binaries.HELM])[binaries.HELM]

    def run(*arguments: str, values: dict[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [program, *arguments, "--values", "-"],
            input=yaml.safe_dump(values or {}),
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.fixture(scope="session")
def render(helm: Helm) -> Render:
    """Renders the manifests for some values, in the order that Helm gives them."""

    def rendered(values: dict[str, Any] | None = None, *arguments: str) -> list[dict[str, Any]]:
        name, namespace = "gptservice-operator", "gptservice-system"
        done = helm("template", name, str(CHART), "--namespace", namespace, *arguments, values=values)
        assert done.returncode == 0, done.stderr
        return [document for document in yaml.safe_load_all(done.stdout) if document]

    return rendered
