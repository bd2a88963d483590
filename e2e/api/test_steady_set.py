"""Fifty services with everything switched on: once they are as wanted, nothing is written."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.api import optional_crds
from e2e.api.quiet import assert_quiet, settle
from e2e.api.state import Observer, condition, is_ready, service
from e2e.cluster.handle import Cluster
from e2e.kube import Kube, Object, wait_until
from e2e.operator_process import OperatorProcess
from e2e.proxy import Switchboard

COUNT = 50
# The cluster has no provisioner: a pod with a claim of its own waits for it, which is a steady state as well.
WITH_CLAIM = 5


def everything(number: int) -> Object:
    """One service of the set."""
    spec: Object = {
        "replicas": 2,
        "autoscaling": {
            "minReplicas": 2,
            "maxReplicas": 4,
            "metrics": [{"type": "CPU", "averageUtilization": 60}],
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 60}},
        },
        "maxTokens": 100 + number,
        "maxInflightRequests": 8,
        "engine": {"args": [f"--seed={number}"], "env": [{"name": "B", "value": "2"}, {"name": "A", "value": "1"}]},
        "resources": {"requests": {"cpu": "0.010", "memory": "16Mi"}, "limits": {"cpu": 1, "memory": "1024Mi"}},
        "podLabels": {"team": "a"},
        "podAnnotations": {"example.com/note": "x"},
        "priority": "Low",
        "rollout": {"maxSurge": "50%", "maxUnavailable": 1},
        "scheduling": {"tolerations": [{"key": "spot", "operator": "Exists"}], "nodeSelector": {}},
        "service": {"type": "NodePort", "port": 8080, "annotations": {"example.com/scheme": "internal"}},
        "monitoring": {"podMonitor": "Enabled", "namespaces": ["observability"]},
        "tls": {"issuerRef": {"name": "internal"}},
    }
    if number < WITH_CLAIM:
        spec |= {"cache": {"size": "1Gi", "accessModes": ["ReadWriteMany"]}}
    return service(f"gpt-{number}", **spec)


def judged(hpa: Object) -> bool:
    return any(each["type"] == "ScalingActive" for each in hpa.get("status", {}).get("conditions") or [])


@pytest.fixture
def optional_kinds(kube: Kube) -> Iterator[None]:
    with optional_crds.installed(kube):
        yield


@pytest.mark.timeout(300)
def test_three_resyncs_and_a_restart_write_nothing(
    operator: OperatorProcess,
    optional_kinds: None,
    board: Switchboard,
    cluster: Cluster,
    kube: Kube,
    namespace: str,
    observer: Observer,
) -> None:
    for number in range(COUNT):
        kube.apply(everything(number), namespace)

    def unsettled() -> list[str]:
        found = {gpt["metadata"]["name"]: gpt for gpt in kube.all("GPTService", namespace)}
        waits = {f"gpt-{number}" for number in range(WITH_CLAIM)}
        return [
            f"{name}: {condition(gpt, 'Ready').get('message')}"
            for name, gpt in found.items()
            if not (is_ready(gpt) or (name in waits and condition(gpt, "Ready")))
        ]

    wait_until(unsettled, lambda found: not found, f"{COUNT} services to be as wanted", timeout=120)
    # Kubernetes' own autoscaler looks at one after the other, and what it says of each is news.
    wait_until(
        lambda: [hpa["metadata"]["name"] for hpa in kube.all("HorizontalPodAutoscaler", namespace) if not judged(hpa)],
        lambda found: not found,
        "every autoscaler to have been looked at",
        timeout=60,
    )
    kinds = {key.split("/")[0] for key in observer.children()}
    assert {"HorizontalPodAutoscaler", "PodDisruptionBudget", "NetworkPolicy", "PersistentVolumeClaim"} <= kinds
    settle(board, {namespace})
    assert_quiet(operator, board, cluster, {namespace})
