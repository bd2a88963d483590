"""The chart as a release of the real Helm: what an upgrade, an uninstall and a second install do to the CRDs."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.cluster import binaries, handle, lifecycle, records
from e2e.installation import CHART, NAMESPACE, RELEASE, Helm, HelmError
from e2e.kubectl import Kubectl, KubectlError

CRD = "gptservices.ai.example.com"
NO_TAG = {"image": {"tag": ""}}


@pytest.fixture(scope="module")
def cluster() -> Iterator[handle.Cluster]:
    """A cluster of its own: CRDs are there once for everybody."""
    name = f"chart-{os.getpid()}"
    yield lifecycle.up(records.Spec(name, nodes=1))
    lifecycle.down(name)


@pytest.fixture
def kubectl(cluster: handle.Cluster) -> Kubectl:
    return Kubectl(cluster.kubectl, cluster.kubeconfig)


@pytest.fixture
def helm(cluster: handle.Cluster) -> Helm:
    return Helm(binaries.ensure([binaries.HELM])[binaries.HELM], cluster.kubeconfig)


def uninstall(helm: Helm) -> None:
    helm.run("uninstall", RELEASE, "--namespace", NAMESPACE, "--wait")


def test_install_uninstall_install(helm: Helm, kubectl: Kubectl) -> None:
    helm.install_operator()
    pods = kubectl.get("pods", namespace=NAMESPACE)["items"]
    assert [pod["spec"]["serviceAccountName"] for pod in pods] == [RELEASE]
    before = kubectl.get("crd", CRD)["metadata"]["uid"]
    uninstall(helm)
    assert kubectl.get("crd", CRD)["metadata"]["uid"] == before, "no uninstall may take everybody's services along"
    assert kubectl.find("clusterrole", RELEASE) is None
    helm.install_operator()
    assert kubectl.get("crd", CRD)["metadata"]["uid"] == before


def test_an_upgrade_brings_the_new_crds(helm: Helm, kubectl: Kubectl, tmp_path: Path) -> None:
    helm.install_operator()
    newer = tmp_path / "chart"
    shutil.copytree(CHART, newer)
    file = newer / "files" / "crds" / f"{CRD}.yaml"
    file.write_text(file.read_text().replace("shortNames:", "shortNames:\n    - newer"))
    helm.run("upgrade", RELEASE, str(newer), "--namespace", NAMESPACE)
    assert "newer" in kubectl.get("crd", CRD)["spec"]["names"]["shortNames"]
    helm.install_operator()
    assert "newer" not in kubectl.get("crd", CRD)["spec"]["names"]["shortNames"]


def test_refused_values_leave_the_release_as_it_is(helm: Helm, kubectl: Kubectl) -> None:
    helm.install_operator()
    before = kubectl.get("deployment", RELEASE, namespace=NAMESPACE)["metadata"]["generation"]
    with pytest.raises(HelmError, match="/image/tag"):
        helm.install_operator(NO_TAG)
    assert kubectl.get("deployment", RELEASE, namespace=NAMESPACE)["metadata"]["generation"] == before


def test_a_release_that_a_killed_helm_left_locked_is_installed_again(helm: Helm, kubectl: Kubectl) -> None:
    helm.install_operator()
    # Simulated pods of this mode are never ready, so Helm waits.
    never_ready = {"extraEnv": [{"name": "E2E_MODE", "value": "pending"}]}
    upgrade = ("upgrade", RELEASE, str(CHART), "--namespace", NAMESPACE, "--wait")
    with pytest.raises(subprocess.TimeoutExpired):  # which kills it with SIGKILL
        helm.run(*upgrade, values=never_ready, timeout=10)
    with pytest.raises(HelmError, match="another operation"):
        helm.run("upgrade", RELEASE, str(CHART), "--namespace", NAMESPACE)
    before = kubectl.get("crd", CRD)["metadata"]["uid"]
    helm.install_operator()
    assert kubectl.get("crd", CRD)["metadata"]["uid"] == before


@pytest.mark.parametrize(
    ("verb", "resource"),
    [
        pytest.param("get", "secrets", id="read a secret"),
        pytest.param("create", "pods", id="make a pod"),
        pytest.param("patch", "gptservices.ai.example.com", id="write a user's spec"),
        pytest.param("delete", "deployments.apps", id="delete a deployment"),
        pytest.param("list", "nodes", id="look at nodes"),
    ],
)
def test_the_service_account_may_not(helm: Helm, kubectl: Kubectl, verb: str, resource: str) -> None:
    helm.install_operator()
    account = f"system:serviceaccount:{NAMESPACE}:{RELEASE}"
    with pytest.raises(KubectlError):  # `can-i` says no by its exit status
        kubectl.run("auth", "can-i", verb, resource, "--as", account, "--all-namespaces")
    assert "yes" in kubectl.run("auth", "can-i", "list", "pods", "--as", account, "--all-namespaces")
