"""One cluster with a real node for the whole level, and the operator in it, as its chart installs it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from e2e import chance, client
from e2e.api.state import Observer
from e2e.cluster import binaries, lifecycle, records
from e2e.cluster.handle import Cluster
from e2e.cluster.images import model
from e2e.conftest import LogSource
from e2e.demo import steps
from e2e.installation import Helm
from e2e.kube import Kube
from e2e.kubectl import Kubectl
from e2e.node import devices, talking
from e2e.node.diagnosis import Diagnosis
from e2e.node.release import VLLM, Release
from e2e.node.services import restricted_namespace
from e2e.reach import Reach, ThroughNamespace

_PREFIX = "test-node-"
GPUS = 4


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A cluster of this run's own; or the one that E2E_NODE_CLUSTER names, which is kept and gets today's images."""
    kept = os.environ.get("E2E_NODE_CLUSTER")
    name = kept or f"{_PREFIX}{os.getpid()}"
    _remove_leftovers()
    # Blocking: a write is in the audit log before its answer is sent, so counts need no waiting.
    spec = records.Spec(name, "node", gpus=GPUS, audit_mode="blocking")
    try:
        model.prepared()
        cluster = lifecycle.up(spec)
        steps.renew_images(cluster)
        yield cluster
    finally:
        # Also after a Ctrl-C, and when `up` was interrupted.
        if not kept:
            lifecycle.down(name)


def _remove_leftovers() -> None:
    """Clusters of earlier runs that were killed: their process is gone."""
    for name in records.names():
        pid = name.removeprefix(_PREFIX)
        if name.startswith(_PREFIX) and pid.isdigit() and not Path(f"/proc/{pid}").exists():
            lifecycle.down(name)


@pytest.fixture(scope="session")
def kube(cluster: Cluster) -> Kube:
    return Kube(cluster.kubeconfig)


@pytest.fixture(scope="session")
def kubectl(cluster: Cluster) -> Kubectl:
    return Kubectl(cluster.kubectl, cluster.kubeconfig)


@pytest.fixture(scope="session")
def release(
    cluster: Cluster, kube: Kube, kubectl: Kubectl, show_log_on_failure: Callable[[str, LogSource], None]
) -> Release:
    """The operator's release; a test says by `use` what its default runtime is to be."""
    helm = Helm(binaries.ensure([binaries.HELM])[binaries.HELM], cluster.kubeconfig)
    release, diagnosis = Release(helm, kube, kubectl), Diagnosis(kube, kubectl)
    show_log_on_failure("GPTServices", diagnosis.services)
    show_log_on_failure("pods", diagnosis.pods)
    show_log_on_failure("events", diagnosis.events)
    show_log_on_failure("operator log", release.log)
    return release


@pytest.fixture(scope="session")
def reach(cluster: Cluster, kubectl: Kubectl) -> Reach:
    """Into the cluster's network."""
    return ThroughNamespace(kubectl, cluster.network)


@pytest.fixture(scope="module")
def namespace(kube: Kube, kubectl: Kubectl) -> Iterator[str]:
    """One for all tests of a module: their services differ in name."""
    with restricted_namespace(kube, kubectl) as name:
        yield name


@pytest.fixture(scope="module")
def observer(kube: Kube, namespace: str) -> Observer:
    """Looks at the module's namespace."""
    return Observer(kube, namespace)


Talk = Callable[[str], AbstractAsyncContextManager[client.GPTClient]]


@pytest.fixture(scope="module")
def talk(kubectl: Kubectl, reach: Reach, namespace: str) -> Talk:
    """Connects to a Ready service of the module's namespace, by name."""
    return lambda name: talking.connect(kubectl, reach, name, namespace=namespace)


Disturbance = Callable[[float], AbstractContextManager[None]]


@pytest.fixture(params=["undisturbed", pytest.param("operator killed", marks=pytest.mark.long)])
def disturbance(request: pytest.FixtureRequest, release: Release, tell: Callable[[str], None]) -> Disturbance:
    """What happens to the operator in the first seconds of a block: nothing; or kill -9, at a moment left to chance."""
    if request.param == "undisturbed":
        return lambda within: nullcontext()
    what = request.node.name

    def killed(within: float) -> AbstractContextManager[None]:
        # In a pod of its own: the kubelet waits ever longer before it starts one again that has died before.
        release.renew()
        after = chance.moment(what, within=within)
        tell(f"{what}: kill -9 of the operator after {after:.2f} s; again with {chance.SEED_VARIABLE}={chance.SEED}")
        return chance.meanwhile(release.kill, after=after)

    return killed


@pytest.fixture(scope="module")
def soon_stable(release: Release) -> Iterator[None]:
    """Revisions are stable after 3 s for a module's tests. Two minutes are long; others want one that never is."""
    release.use(VLLM)
    with release.stable_after(seconds=3):
        yield


@pytest.fixture(scope="module")
def gpus(cluster: Cluster, kube: Kube) -> Iterator[Callable[[int], None]]:
    """Leaves the node so many of its GPUs; one at first."""
    with devices.few(cluster, kube) as leave:
        leave(1)
        yield leave
