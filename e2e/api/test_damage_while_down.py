"""Children that were edited or deleted while the operator was down are as they were soon after its start."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import pytest

from e2e.api import optional_crds
from e2e.api.state import Observer, service
from e2e.kube import Kube, Object, wait_until
from e2e.operator_process import OperatorProcess
from gptservice_operator import names
from gptservice_operator.api import kinds

CACHE = {"size": "1Gi", "storageClassName": "none", "accessModes": ["ReadWriteMany"]}
CLAIM = names.cache_claim("gpt", "none", ["ReadWriteMany"])
EVERYTHING: Object = {
    "replicas": 2,
    "autoscaling": {"minReplicas": 2, "maxReplicas": 4},
    "tls": {"issuerRef": {"name": "ours"}},
    "cache": CACHE,
}
"""What it takes to have a child of every kind. Its pods wait for their claim."""
EDITS: dict[str, Object] = {
    "ServiceAccount/gpt-pods": {"automountServiceAccountToken": True},
    f"PersistentVolumeClaim/{CLAIM}": {"metadata": {"labels": {"gptservice-name": "other"}}},
    "ConfigMap/gpt-limits": {"data": {"limits.json": "{}x"}},
    "Certificate/gpt": {"spec": {"secretName": "other"}},
    "ControllerRevision": {"metadata": {"labels": {"app.kubernetes.io/managed-by": None}}},
    "Deployment/gpt": {"spec": {"template": {"spec": {"enableServiceLinks": True}}}},
    "Service/gpt": {"spec": {"selector": {"gptservice-name": "other"}}},
    "Service/gpt-pods": {"spec": {"publishNotReadyAddresses": True}},
    "HorizontalPodAutoscaler/gpt": {"spec": {"maxReplicas": 9}},
    "PodDisruptionBudget/gpt": {"spec": {"maxUnavailable": "100%"}},
    "NetworkPolicy/gpt": {"spec": {"ingress": [{}]}},
    "PodMonitor/gpt": {"spec": {"podMetricsEndpoints": []}},
}
KEPT_BY_PODS = "PersistentVolumeClaim"
"""Kubernetes lets none go that pods wait for."""


@pytest.fixture
def everything(operator: OperatorProcess, kube: Kube, namespace: str, observer: Observer) -> Iterator[None]:
    """A service with a child of every kind."""
    with optional_crds.installed(kube):
        kube.apply(service(**EVERYTHING), namespace)
        for key in EDITS:
            wait_until(functools.partial(find, kube, observer, key), bool, key)
        yield


def find(kube: Kube, observer: Observer, key: str) -> Object | None:
    kind, _, name = key.partition("/")
    if not name:
        return next(iter(observer.revisions()), None)
    return kube.find(kind, name, observer.namespace)


def parts(kube: Kube, observer: Observer) -> dict[str, object]:
    """What an edit could change of every child; a deleted one that was made again is the same in this."""
    found: dict[str, object] = {}
    for key in EDITS:
        body = find(kube, observer, key) or {}
        metadata = body.get("metadata", {})
        labels = {name: value for name, value in metadata.get("labels", {}).items() if "gptservice" in value + name}
        rest = {part: value for part, value in body.items() if part not in ("metadata", "status")}
        allocated = ("clusterIP", "clusterIPs", "volumeName")
        spec = {name: value for name, value in rest.pop("spec", {}).items() if name not in allocated}
        found[key] = (labels, rest, spec, metadata.get("annotations", {}).get(names.APPLIED_HASH))
    return found


def test_there_is_an_edit_of_every_kind() -> None:
    assert {key.partition("/")[0] for key in EDITS} == {kind.name for kind in kinds.CHILDREN}


@pytest.mark.parametrize("deleted", [False, True], ids=["edited", "deleted"])
def test_every_child_is_repaired_at_the_start(
    everything: None, operator: OperatorProcess, kube: Kube, namespace: str, observer: Observer, deleted: bool
) -> None:
    before = parts(kube, observer)
    operator.stop()
    for key, change in EDITS.items():
        kind = key.partition("/")[0]
        name = (find(kube, observer, key) or {})["metadata"]["name"]
        if not deleted:
            kube.merge(kind, name, namespace, change)
        elif kind != KEPT_BY_PODS:
            kube.delete(kind, name, namespace)
    damaged = parts(kube, observer)
    assert [key for key in EDITS if damaged[key] == before[key]] == ([f"{KEPT_BY_PODS}/{CLAIM}"] if deleted else [])
    operator.start()
    wait_until(lambda: parts(kube, observer), lambda now: now == before, "every child to be as it was")
