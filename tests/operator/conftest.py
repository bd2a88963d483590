"""Fixtures that more than one module's tests need."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

Kubeconfig = Callable[[str], Path]
TOKEN = "a-token"


def use_kubeconfig(monkeypatch: pytest.MonkeyPatch, directory: Path, url: str) -> Path:
    """Write a kubeconfig for the API server at a URL and have every client use it; return its path."""
    path = directory / "kubeconfig"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": url}}],
        "users": [{"name": "test", "user": {"token": TOKEN}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    }
    path.write_text(json.dumps(content))
    monkeypatch.setenv("KUBECONFIG", str(path))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    # The client reads the variable once, when it is imported.
    monkeypatch.setattr("kubernetes.aio.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(path))
    return path


@pytest.fixture
def kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kubeconfig:
    """Writes a kubeconfig for the API server at a URL and has every client use it."""
    return lambda url: use_kubeconfig(monkeypatch, tmp_path, url)
