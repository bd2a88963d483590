"""Some namespaces alone: the operator as the chart's ServiceAccount with Roles there and no other right."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e import operator_process
from e2e.api import optional_crds, rights
from e2e.api.state import Observer, service
from e2e.cluster import binaries
from e2e.cluster.handle import Cluster
from e2e.kube import Kube, wait_until
from e2e.operator_process import OperatorProcess
from e2e.proxy import Proxy, ProxyOptions, ProxyThread, Switchboard


@dataclass(frozen=True)
class Installed:
    """An operator of one namespace, behind a proxy of its own."""

    system: str
    process: OperatorProcess
    board: Switchboard


@pytest.fixture
def system(kube: Kube) -> Iterator[str]:
    """The operator's own namespace."""
    with kube.namespace("system") as name:
        yield name


@pytest.fixture(params=[True, False], ids=["with the catalogue", "without the catalogue"])
def installed(
    request: pytest.FixtureRequest, the_operator: OperatorProcess, cluster: Cluster, kube: Kube, system: str,
    namespace: str, tmp_path: Path,
) -> Iterator[Installed]:  # fmt: skip
    the_operator.stop()
    helm = binaries.ensure([binaries.HELM])[binaries.HELM]
    values = {"namespaces": [namespace], "catalogue": {"enabled": request.param}}
    account = operator_process.grant(kube, helm, namespace=system, values=values)
    access = operator_process.access(kube, cluster.kubeconfig, account, namespace=system)
    (tmp_path / "ca.pem").write_text(access.authority or "")
    settings = {
        "GPTSERVICE_NAMESPACE": system,
        "GPTSERVICE_NAMESPACES": namespace,
        "GPTSERVICE_CATALOGUE": str(request.param).lower(),
        # As in production: no test of this file waits for a Lease to run out, and a busy machine loses a short one.
        "GPTSERVICE_LEASE_SECONDS": "15",
        "GPTSERVICE_POD_NAME": "operator",
    }
    with ProxyThread(Proxy(ProxyOptions(upstream=access.server, ca_file=tmp_path / "ca.pem"))) as proxy:
        kubeconfig = access.through(proxy.proxy.url).write(tmp_path / "kubeconfig")
        process = OperatorProcess(kubeconfig, tmp_path / "log", settings)
        yield Installed(system, process, proxy.switchboard)
        process.stop()
    kube.delete("ClusterRole", f"{operator_process.RELEASE}-catalogue")
    kube.delete("ClusterRoleBinding", f"{operator_process.RELEASE}-catalogue")


def granted(kube: Kube, installed: Installed, namespace: str) -> rights.Rights:
    """What its Roles grant, and the ClusterRole for the catalogue where there is one."""
    roles = [
        kube.get("Role", operator_process.RELEASE, namespace),
        kube.get("Role", f"{operator_process.RELEASE}-lease", installed.system),
    ]
    catalogue = kube.find("ClusterRole", f"{operator_process.RELEASE}-catalogue")
    return set().union(*map(rights.granted, [*roles, *([catalogue] if catalogue else [])]))


def test_uses_every_verb_of_its_roles_and_no_other(
    installed: Installed, kube: Kube, namespace: str, observer: Observer
) -> None:
    # What comes later than the operator is watched after a restart only: it may not look which kinds there are.
    with optional_crds.installed(kube):
        installed.process.start()
        rights.exercise(installed.board, kube, namespace, observer)
        rights.exercise_other_operators(kube, namespace, observer)
        renewed = ("update", "leases")
        wait_until(
            lambda: installed.board.log.since(where=lambda e: (e.target.verb, e.target.resource) == renewed),
            bool,
            "the Lease to be renewed",
        )
        installed.process.stop()
    entries = installed.board.log.since()
    assert rights.refused(entries) == []
    assert rights.used(entries) == granted(kube, installed, namespace)


def test_goes_on_with_the_others_while_one_may_not_be_read(
    installed: Installed, kube: Kube, namespace: str, observer: Observer
) -> None:
    """It was installed for one; the other is one whose Role somebody has deleted. Its rights come while it runs."""
    with kube.namespace("refused") as refused:
        kube.apply(service(), refused)
        settings = {**installed.process.settings, "GPTSERVICE_NAMESPACES": f"{refused},{namespace}"}
        installed.process.settings = settings
        installed.process.start()
        kube.apply(service(), namespace)
        observer.wait_ready()
        assert "status" not in kube.get("GPTService", "gpt", refused)
        for kind in ("Role", "RoleBinding"):
            granted_here = kube.get(kind, operator_process.RELEASE, namespace)
            kept = {key: granted_here[key] for key in granted_here if key not in ("metadata", "status")}
            kube.apply({**kept, "metadata": {"name": operator_process.RELEASE}}, refused)
        Observer(kube, refused).wait_ready()
        kube.delete("RoleBinding", operator_process.RELEASE, refused)
        kube.scale("gpt", namespace, 2)
        observer.wait_ready()


def test_leaves_other_namespaces_alone(installed: Installed, kube: Kube, namespace: str, observer: Observer) -> None:
    with kube.namespace("foreign") as foreign:
        kube.apply(service(), foreign)
        installed.process.start()
        kube.apply(service(), namespace)
        observer.wait_ready()
        kube.scale("gpt", namespace, 2)
        observer.wait_ready()
        left = kube.get("GPTService", "gpt", foreign)
        assert "status" not in left
        assert Observer(kube, foreign).children() == {}
    entries = installed.board.log.since()
    assert rights.refused(entries) == []
    assert {e.target.namespace for e in entries if e.target.resource} <= {"", namespace, installed.system}
    assert not [e.path for e in entries if e.target.resource == "gptservices" and not e.target.namespace]
