"""Renders the charts with the real Helm."""

import copy
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster import binaries

CHART = Path(__file__).resolve().parents[2] / "charts" / "gptservice-operator"

CATALOGUE = CHART.parent / "gptservice-catalogue"

Manifest = dict[str, Any]
Helm = Callable[..., subprocess.CompletedProcess[str]]
Render = Callable[..., list[dict[str, Any]]]


def one(manifests: list[Manifest], kind: str, name: str = "") -> Manifest:
    """The only manifest of a kind (and name)."""
    (found,) = [m for m in manifests if m["kind"] == kind and name in ("", m["metadata"]["name"])]
    return found


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
    kept: dict[str, list[Manifest]] = {}

    def rendered(values: dict[str, Any] | None = None, *arguments: str) -> list[dict[str, Any]]:
        key = repr((values or {}, arguments))
        if key not in kept:
            name, namespace = "gptservice-operator", "gptservice-system"
            done = helm("template", name, str(CHART), "--namespace", namespace, *arguments, values=values)
            assert done.returncode == 0, done.stderr
            kept[key] = [document for document in yaml.safe_load_all(done.stdout) if document]
        return copy.deepcopy(kept[key])

    return rendered
