"""The chart as releases of the real Helm, on a cluster of their own: CRDs are there once for everybody."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e import operator_process
from e2e.cluster import binaries, handle, lifecycle, records
from e2e.installation import NAMESPACE, RELEASE, Helm
from e2e.kube import Kube
from e2e.kubectl import Kubectl
from e2e.operator_process import OperatorProcess

StartOperator = Callable[..., OperatorProcess]


@pytest.fixture(scope="session")
def cluster() -> Iterator[handle.Cluster]:
    name = f"chart-{os.getpid()}"
    yield lifecycle.up(records.Spec(name, nodes=1))
    lifecycle.down(name)


@pytest.fixture(scope="session")
def kube(cluster: handle.Cluster) -> Kube:
    return Kube(cluster.kubeconfig)


@pytest.fixture
def kubectl(cluster: handle.Cluster) -> Kubectl:
    return Kubectl(cluster.kubectl, cluster.kubeconfig)


@pytest.fixture
def helm(cluster: handle.Cluster) -> Helm:
    return Helm(binaries.ensure([binaries.HELM])[binaries.HELM], cluster.kubeconfig)


@pytest.fixture
def start_operator(cluster: handle.Cluster, kube: Kube, tmp_path: Path) -> Iterator[StartOperator]:
    """Starts the operator as the release's ServiceAccount, whose pods are only simulated; a former one is stopped."""
    running: list[OperatorProcess] = []

    def start(*, account: str = RELEASE, namespace: str = NAMESPACE, **settings: str) -> OperatorProcess:
        for former in running:
            former.stop()
        access = operator_process.access(kube, cluster.kubeconfig, account, namespace=namespace)
        given = {f"GPTSERVICE_{name.upper()}": value for name, value in settings.items()}
        process = OperatorProcess(access.write(tmp_path / f"kubeconfig-{len(running)}"), tmp_path / "log", given)
        running.append(process)
        process.start()
        return process

    yield start
    for process in running:
        process.stop()
