"""What is shipped and applied is what the API server stores: else a GitOps tool sees a difference for ever."""

from __future__ import annotations

from typing import Any, cast

import pytest
import yaml

from e2e.api.state import Observer, service
from e2e.cluster import paths
from e2e.kube import Kube, Object
from e2e.operator_process import OperatorProcess

CRDS = sorted((paths.REPOSITORY / "crds").glob("*.yaml"))
# Filled in by the API server for every object, and left out of what tools compare.
SERVER_METADATA = {"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"}


def contained(wanted: Any, live: Any, path: str = "") -> list[str]:
    """Return the paths at which what is stored differs from what was written; what a tool leaves out is not looked at.

    Maps may hold more where it is the API server's own; lists and values are as they were written.
    """
    if isinstance(wanted, dict) and isinstance(live, dict):
        ours, theirs = cast("Object", wanted), cast("Object", live)
        return [found for key, value in ours.items() for found in contained(value, theirs.get(key), f"{path}.{key}")]
    return [] if wanted == live else [f"{path}: {wanted!r} is stored as {live!r}"]


@pytest.mark.parametrize("file", CRDS, ids=lambda path: path.name)
def test_a_crd_is_stored_as_it_is_shipped(kube: Kube, access: object, file: Any) -> None:
    shipped = yaml.safe_load(file.read_text())
    assert "status" not in shipped
    name = shipped["metadata"]["name"]
    live = kube.request("GET", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")
    assert contained(shipped["spec"], live["spec"], "spec") == []
    # Nothing is filled in either: defaults are written out.
    assert set(live["spec"]) - set(shipped["spec"]) <= {"conversion"}
    assert set(live["spec"]["names"]) == set(shipped["spec"]["names"])


def test_a_service_is_stored_as_it_was_applied_and_the_operator_adds_nothing(
    operator: OperatorProcess, kube: Kube, namespace: str, observer: Observer
) -> None:
    applied = service(replicas=2, maxTokens=5, engine={"args": ["--seed=1"]}, podLabels={"team": "a"})
    labels = {"app.kubernetes.io/instance": "argo-app"}
    kube.apply({**applied, "metadata": {"name": "gpt", "labels": labels}}, namespace)
    live = observer.wait_ready()
    assert contained(applied["spec"], live["spec"], "spec") == []
    assert live["metadata"]["labels"] == labels
    assert set(live["metadata"]) - SERVER_METADATA == {"name", "namespace", "labels"}
