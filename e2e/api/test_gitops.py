"""The folders that a GitOps tool applies, applied by kubectl: as they are built, twice, and pruned by nobody."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.api.quiet import settle
from e2e.api.state import Observer, holds
from e2e.cluster import binaries
from e2e.kube import Kube, wait_until
from e2e.kubectl import Kubectl
from e2e.operator_process import ROOT, OperatorProcess
from e2e.proxy import Switchboard
from gptservice_operator import names

GITOPS = ROOT / "gitops"
TEAM = "team-a"


@pytest.fixture
def team(kube: Kube) -> Iterator[str]:
    """The namespace that the folder brings; gone when the test is over, so that another can bring it again."""
    yield TEAM
    kube.delete("Namespace", TEAM)
    wait_until(lambda: kube.find("Namespace", TEAM), lambda found: found is None, f"{TEAM} to go", timeout=90)


@pytest.fixture
def shared_disk(kube: Kube) -> Iterator[None]:
    """A volume for the cache that the folder's pods use, and for no claim that another test has left."""
    modes = ["ReadWriteMany"]
    claim = {"namespace": TEAM, "name": names.cache_claim("chat", None, modes)}
    volume = {
        "capacity": {"storage": "100Gi"},
        "accessModes": modes,
        "hostPath": {"path": "/nowhere"},
        "claimRef": claim,
    }
    kube.apply({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "shared-disk"}, "spec": volume})
    yield
    kube.delete("PersistentVolume", "shared-disk")


@pytest.mark.usefixtures("shared_disk")
def test_a_folder_of_services_is_applied_and_comes_up(
    operator: OperatorProcess,
    board: Switchboard,
    kube: Kube,
    kubectl: Kubectl,
    team: str,
    catalogue: Callable[[str], Any],
) -> None:
    built = list(yaml.safe_load_all(kubectl.run("kustomize", str(GITOPS / "services"))))
    assert {manifest["kind"] for manifest in built} == {"Namespace", "GPTService"}
    kubectl.run("apply", "--server-side", "-k", str(GITOPS / "services"))
    observer = Observer(kube, team)
    observer.wait(lambda o: holds(o, "Accepted", "False", "UnknownModel"), "to wait for its model", "chat")
    catalogue("qwen3-8b")
    observer.wait_ready("chat")
    settle(board, {team})
    before = observer.versions()
    kubectl.run("apply", "--server-side", "-k", str(GITOPS / "services"))
    assert observer.versions() == before, "a second sync of the same changes nothing"
    assert kubectl.run("diff", "--server-side", "-k", str(GITOPS / "services")) == ""


def test_the_operator_s_folder_is_what_the_chart_renders(kubectl: Kubectl, access: object, tmp_path: Path) -> None:
    """Made, and tried out on the server; the commands are those of its kustomization.yaml."""
    folder = shutil.copytree(GITOPS / "operator", tmp_path / "operator")
    helm = binaries.ensure([binaries.HELM])[binaries.HELM]
    rendered = Kubectl(helm, kubectl.kubeconfig).run(
        "template", "gptservice-operator", str(ROOT / "charts/gptservice-operator"), "-n", "gptservice-system",
        "-f", str(folder / "values.yaml"),
    )  # fmt: skip
    (folder / "operator.yaml").write_text(rendered)
    # Others of this level have applied some of it as another manager.
    kubectl.run("apply", "--server-side", "--force-conflicts", "--dry-run=server", "-k", str(folder))
    built = list(yaml.safe_load_all(kubectl.run("kustomize", str(folder))))
    (deployment,) = [manifest for manifest in built if manifest["kind"] == "Deployment"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.example.com/ai/gptservice-operator:0.1.0"
