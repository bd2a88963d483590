"""One embedded cluster with simulated nodes, one proxy and one operator for the whole level.

Each test has a namespace of its own. The operator runs as the chart's ServiceAccount, through the proxy.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e import operator_process
from e2e.api.rolling import GPUS
from e2e.api.state import Observer, revision_of, service
from e2e.cluster import binaries, lifecycle, records
from e2e.cluster.handle import Cluster
from e2e.kube import Kube, Object
from e2e.kubectl import Kubectl
from e2e.operator_process import Access, OperatorProcess
from e2e.proxy import Proxy, ProxyOptions, ProxyThread, Switchboard

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PREFIX = "test-api-"
NODES = 4

Stable = Callable[..., str]


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A cluster of this run's own, or the one that E2E_CLUSTER names, which is kept."""
    kept = os.environ.get("E2E_CLUSTER")
    name = kept or f"{PREFIX}{os.getpid()}"
    _remove_leftovers()
    # Blocking: a write is in the audit log before its answer is sent, so counts need no waiting.
    spec = records.Spec(name=name, profile="api", nodes=NODES, gpus=GPUS, audit_mode="blocking")
    yield lifecycle.up(spec)
    if not kept:
        lifecycle.down(name)


def _remove_leftovers() -> None:
    """Clusters of earlier runs that were killed: their process is gone."""
    for name in records.names():
        pid = name.removeprefix(PREFIX).partition("-")[0]
        if name.startswith(PREFIX) and pid.isdigit() and not Path(f"/proc/{pid}").exists():
            lifecycle.down(name)


@pytest.fixture(scope="session")
def kube(cluster: Cluster) -> Kube:
    return Kube(cluster.kubeconfig)


@pytest.fixture(scope="session")
def kubectl(cluster: Cluster) -> Kubectl:
    return Kubectl(cluster.kubectl, cluster.kubeconfig)


@pytest.fixture(scope="session")
def access(cluster: Cluster, kube: Kube) -> Access:
    """CRDs and the chart's RBAC are installed; a token of the chart's ServiceAccount."""
    helm = binaries.ensure([binaries.HELM])[binaries.HELM]
    account = operator_process.install(kube, helm)
    return operator_process.access(kube, cluster.kubeconfig, account)


@pytest.fixture(scope="session")
def proxy(access: Access, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxyThread]:
    authority = tmp_path_factory.mktemp("proxy") / "ca.pem"
    authority.write_text(access.authority or "")
    with ProxyThread(Proxy(ProxyOptions(upstream=access.server, ca_file=authority))) as running:
        yield running


@pytest.fixture(scope="session")
def the_operator(
    access: Access,
    proxy: ProxyThread,
    tmp_path_factory: pytest.TempPathFactory,
    show_log_on_failure: Callable[[str, Callable[[], str]], None],
) -> Iterator[OperatorProcess]:
    """The operator of this level; tests take `operator`, which sees to it that it runs."""
    folder = tmp_path_factory.mktemp("operator")
    kubeconfig = access.through(proxy.proxy.url).write(folder / "kubeconfig")
    process = OperatorProcess(kubeconfig, folder / "operator.log")

    def started(pid: int) -> None:
        proxy.switchboard.victim_pid = pid

    process.on_start = started
    show_log_on_failure("operator log", process.tail)
    yield process
    process.stop()


@pytest.fixture
def board(proxy: ProxyThread) -> Iterator[Switchboard]:
    """The proxy's controls; what a test turned is taken back after it."""
    yield proxy.switchboard
    proxy.switchboard.clear()


@pytest.fixture
def operator(the_operator: OperatorProcess, board: Switchboard) -> OperatorProcess:
    """The operator, running with fast periods and with no fault installed."""
    _run_with(the_operator, {})
    return the_operator


@pytest.fixture
def configure(operator: OperatorProcess) -> Iterator[Callable[..., None]]:
    """Restarts the operator with other settings; what other tests expect comes back afterwards."""

    def restart(**settings: str) -> None:
        operator.stop()
        operator.settings = {f"GPTSERVICE_{name.upper()}": value for name, value in settings.items()}
        operator.start()

    yield restart
    operator.stop()
    operator.settings = {}


@pytest.fixture
def operator_without_resync(the_operator: OperatorProcess, board: Switchboard) -> OperatorProcess:
    """The operator, for tests in which a resync would hide that an event was missed."""
    _run_with(the_operator, {"GPTSERVICE_RESYNC_SECONDS": "3600"})
    return the_operator


def _run_with(process: OperatorProcess, settings: dict[str, str]) -> None:
    if process.settings != settings:
        process.stop()
        process.settings = settings
    process.start()


@pytest.fixture
def namespace(kube: Kube) -> Iterator[str]:
    with kube.namespace("api") as name:
        yield name


@pytest.fixture
def observer(kube: Kube, namespace: str) -> Observer:
    """Looks at the test's own namespace."""
    return Observer(kube, namespace)


@pytest.fixture
def stable(operator: OperatorProcess, configure: Callable[..., None], kube: Kube, namespace: str) -> Stable:
    """Makes a GPTService and waits until its revision, whose key it returns, is stable."""
    configure(stable_seconds="2")
    observer = Observer(kube, namespace)

    def make(**spec: Any) -> str:
        kube.apply(service(**spec), namespace)
        observer.wait_ready()
        observer.wait(lambda o: "stableRevision" in (o or {})["status"], "a stable revision")
        return str(revision_of(observer.child("Deployment")))

    return make


@pytest.fixture
def catalogue(kube: Kube) -> Iterator[Callable[[str], Object]]:
    """Adds a GPTModel under a name; taken out after the test."""
    added: list[str] = []

    def add(name: str) -> Object:
        added.append(name)
        manifest = {
            "apiVersion": "ai.example.com/v1",
            "kind": "GPTModel",
            "metadata": {"name": name},
            "spec": {"uri": "file:///models/tiny", "gpu": {"count": 0}},
        }
        return kube.apply(manifest)

    yield add
    for name in added:
        kube.delete("GPTModel", name)
