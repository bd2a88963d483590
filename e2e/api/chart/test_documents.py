"""Installing, upgrading and taking away, as the documents say it: a reader copies the blocks and types nothing else.

The operator's pods are only simulated, so that it runs beside them, as the release's ServiceAccount.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import release.__main__ as release
from e2e.api import optional_crds
from e2e.api.chart.conftest import StartOperator
from e2e.cluster import binaries, handle, lifecycle, records
from e2e.installation import NAMESPACE, RELEASE, Helm
from e2e.kube import Kube, Object, wait_until
from e2e.kubectl import Kubectl
from e2e.reader import Reader
from gptservice_operator.api import kinds
from release import version

pytestmark = pytest.mark.long

CRDS = ("gptservices.ai.example.com", "gptmodels.ai.example.com")
# Nobody listens behind a simulated pod.
NO_POD_ANSWERS = ("port-forward", "curl", " logs ", "kill")


@pytest.fixture(scope="module")
def cluster() -> Iterator[handle.Cluster]:
    """One with a GPU, a StorageClass and room for one cache."""
    name = f"documents-{os.getpid()}"
    made = lifecycle.up(records.Spec(name, nodes=1, gpus=1))
    Kubectl(made.kubectl, made.kubeconfig).apply(*_storage())
    yield made
    lifecycle.down(name)


@pytest.fixture(scope="module")
def kube(cluster: handle.Cluster) -> Kube:
    return Kube(cluster.kubeconfig)


def _storage() -> list[Object]:
    volume = {
        "capacity": {"storage": "100Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "standard",
        "hostPath": {"path": "/nowhere"},
    }
    return [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "standard", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
            "provisioner": "kubernetes.io/no-provisioner",
        },
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "cache"}, "spec": volume},
    ]


@pytest.fixture
def namespace(kube: Kube) -> Iterator[str]:
    with kube.namespace("reader") as name:
        yield name


@pytest.fixture
def reader(cluster: handle.Cluster, namespace: str, tmp_path: Path) -> Reader:
    programs = {"kubectl": cluster.kubectl, "helm": binaries.ensure([binaries.HELM])[binaries.HELM]}
    return Reader(tmp_path / "checkout", programs, cluster.kubeconfig, namespace=namespace)


@pytest.fixture(autouse=True)
def nothing_is_left(helm: Helm, kubectl: Kubectl) -> Iterator[None]:
    """Each test begins with a cluster that knows nothing of GPTService."""
    yield
    for name in helm.run("list", "--namespace", NAMESPACE, "--short").split():
        helm.run("uninstall", name, "--namespace", NAMESPACE, "--wait")
    kubectl.run("delete", "clusterrole,clusterrolebinding", "-l", f"app.kubernetes.io/instance={RELEASE}")
    kubectl.run("delete", "namespace", NAMESPACE, "--ignore-not-found", timeout=120)
    kubectl.run("delete", "crd", *CRDS, "--ignore-not-found")


def test_the_quick_start_from_values_to_uninstall(
    reader: Reader, start_operator: StartOperator, kubectl: Kubectl, namespace: str
) -> None:
    reader.run("docs/quick-start.md: On a cluster of yours, sh 1")
    (container,) = kubectl.get("deployment", RELEASE, namespace=NAMESPACE)["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"registry.example.com/ai/gptservice-operator:{version.current()}"
    start_operator()
    assert "qwen3-8b" in reader.run("docs/quick-start.md: On a cluster of yours, sh 2")
    assert "http://chat." in reader.run("docs/quick-start.md: On a cluster of yours, sh 3")
    reader.run("docs/quick-start.md: On a cluster of yours, sh 4", without=NO_POD_ANSWERS)
    reader.run("docs/quick-start.md: On a cluster of yours, sh 5")
    wait_until(
        lambda: kubectl.get("deployment", "chat", namespace=namespace).get("status", {}),
        lambda status: status.get("readyReplicas") == 1,
        "the service to be back",
    )
    reader.run("docs/quick-start.md: On a cluster of yours, sh 6")
    assert kubectl.find("deployment", RELEASE, namespace=NAMESPACE) is None
    for crd in CRDS:
        assert kubectl.find("crd", crd), "no uninstall may take everybody's services along"


def test_it_is_installed_looked_at_upgraded_and_rolled_back(
    reader: Reader, start_operator: StartOperator, kubectl: Kubectl, namespace: str
) -> None:
    reader.run("docs/operations.md: Install, sh 2")
    reader.run("docs/operations.md: Install, sh 3")
    pod = kubectl.get("pods", namespace=NAMESPACE)["items"][0]["metadata"]
    start_operator(lease_seconds="15", pod_name=pod["name"], pod_uid=pod["uid"])
    wait_until(lambda: kubectl.find("lease", RELEASE, namespace=NAMESPACE), bool, "a leader")
    reader.run("docs/operations.md: The operator itself, sh 1", without=NO_POD_ANSWERS)
    assert pod["name"] in reader.run("docs/operations.md: At night, sh 2", without=NO_POD_ANSWERS)
    before = kubectl.get("deployment", RELEASE, namespace=NAMESPACE)["spec"]
    older = "--set image.tag=0.0.1 --set runtime.image=registry.example.com/ai/gptservice-runtime:0.0.1"
    reader.shell(f"helm upgrade {RELEASE} charts/{RELEASE} --namespace {NAMESPACE} --reset-then-reuse-values {older}")
    assert kubectl.get("deployment", RELEASE, namespace=NAMESPACE)["spec"] != before
    assert "UNAVAILABLE" in reader.run("docs/upgrading.md: The operator, sh 3")
    reader.run("docs/upgrading.md: The operator, sh 1")
    after = kubectl.get("deployment", RELEASE, namespace=NAMESPACE)["spec"]
    assert after == before, "both images are new, the values taken along"
    assert "Rollback was a success" in reader.run("docs/upgrading.md: Back, sh 1")
    for name in ("quickstart-gpu", "quickstart"):
        assert kubectl.get("gptservice", name, namespace=namespace)["metadata"]["generation"] == 1


def test_a_second_operator_is_installed_for_another_team(reader: Reader, kubectl: Kubectl) -> None:
    for team in ("team-a", "team-b"):
        kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": team}})
    first = f"helm install {RELEASE} charts/{RELEASE} --namespace {NAMESPACE} --create-namespace"
    reader.shell(first + " --set namespaces='{team-a}'")
    try:
        reader.run("docs/operations.md: Install, sh 4")
        assert kubectl.find("deployment", f"team-b-{RELEASE}", namespace="team-b-system")
        assert kubectl.find("deployment", RELEASE, namespace=NAMESPACE)
    finally:
        reader.shell("helm uninstall team-b --namespace team-b-system --ignore-not-found --wait")
        for name in ("team-a", "team-b", "team-b-system"):
            kubectl.run("delete", "namespace", name, "--ignore-not-found", timeout=120)


def test_dashboards_and_alerts_are_switched_on(reader: Reader, kubectl: Kubectl, kube: Kube) -> None:
    reader.run("docs/quick-start.md: On a cluster of yours, sh 1")
    before = kubectl.get("deployment", RELEASE, namespace=NAMESPACE)["spec"]
    with optional_crds.installed(kube, kinds.POD_MONITOR, optional_crds.PROMETHEUS_RULE):
        reader.run("docs/monitoring.md: Monitoring, sh 1")
        rules = kube.all("PrometheusRule", NAMESPACE)
        assert rules
        assert {rule["metadata"]["labels"]["release"] for rule in rules} == {"prometheus"}
        assert len(kube.all("PodMonitor", NAMESPACE)) == 1
    assert kubectl.get("configmaps", namespace=NAMESPACE, selector="grafana_dashboard=1")["items"]
    after = kubectl.get("deployment", RELEASE, namespace=NAMESPACE)["spec"]
    assert after == before, "the reader's values are kept"


def test_what_helm_says_next_is_what_works_next(
    reader: Reader, start_operator: StartOperator, kubectl: Kubectl, namespace: str
) -> None:
    """The notes of both charts, copied in their order."""
    said = reader.run("docs/quick-start.md: On a cluster of yours, sh 1")
    start_operator()
    # A watch has no end, and the kinds are needed for some time yet.
    *steps, last = [line for line in commands(said) if not line.endswith(" -w")]
    assert any("examples/quickstart-gpu.yaml" in line for line in steps)
    applied = [line for line in steps if "authSecret" not in line]
    reader.shell("\n".join(applied))
    wait_until(
        lambda: kubectl.get("gptservice", "quickstart-gpu", namespace=namespace).get("status", {}),
        lambda status: "authSecret" in status,
        "the service to have a key",
    )
    keys = reader.shell("\n".join(line for line in steps if line not in applied))
    assert "sk-" in keys
    said = reader.run("docs/quick-start.md: On a cluster of yours, sh 2")
    assert "gptservice.ai.example.com/my-model created" in reader.shell("\n".join(commands(said)))
    reader.shell(f"helm uninstall {RELEASE} --namespace {NAMESPACE}")
    reader.shell(last)
    assert kubectl.find("crd", CRDS[0]) is None


def commands(said: str) -> list[str]:
    """What stands in the notes of a chart, set off by two blanks, to be copied."""
    return [line[2:] for line in said.partition("NOTES:")[2].splitlines() if line.startswith("  ")]


def test_without_helm_a_release_s_manifest_is_all_there_is(
    reader: Reader, start_operator: StartOperator, kubectl: Kubectl, namespace: str
) -> None:
    release.make(reader.folder / "dist", registry=release.REGISTRY, epoch=1, with_images=False)
    block = "docs/quick-start.md: Without Helm in the cluster, sh 1"
    reader.run(block)
    before = kubectl.get("crd", CRDS[0])["metadata"]["resourceVersion"]
    kubectl.run("rollout", "status", f"deployment/{RELEASE}", "--namespace", NAMESPACE)
    assert "serverside-applied" in reader.run(block)
    assert kubectl.get("crd", CRDS[0])["metadata"]["resourceVersion"] == before, "a second time changes nothing"
    reader.run("docs/releasing.md: What a release is, sh 1", without=["make release"])
    start_operator()
    reader.shell("kubectl apply -f examples/one-gpu.yaml")
    wait_until(
        lambda: kubectl.get("gptservice", "one-gpu", namespace=namespace),
        lambda found: "status" in found,
        "the operator to look at it",
    )
    reader.run("docs/quick-start.md: Without Helm in the cluster, sh 2")
    left = kubectl.get("all,roles,rolebindings,networkpolicies,poddisruptionbudgets", namespace=NAMESPACE)["items"]
    assert [each["metadata"]["name"] for each in left if each["kind"] not in ("Pod", "ReplicaSet")] == []
    assert kubectl.find("clusterrole", RELEASE) is None
    for crd in CRDS:
        assert kubectl.find("crd", crd), "what is taken away in another way takes everybody's services along"
    assert kubectl.get("gptservice", "one-gpu", namespace=namespace)


def test_from_git_by_kubectl_alone(reader: Reader, kubectl: Kubectl, kube: Kube, start_operator: StartOperator) -> None:
    block = "docs/gitops.md: kubectl alone, sh 1"
    # The services' folder is for later, as it says: once the kinds are served.
    reader.run(block, without=["gitops/services"])
    kubectl.run("wait", "--for=condition=Established", *(f"crd/{name}" for name in CRDS))
    reader.run(block)
    rendered = (reader.folder / "gitops/operator/operator.yaml").read_text()
    reader.run(block)
    assert (reader.folder / "gitops/operator/operator.yaml").read_text() == rendered
    start_operator()
    wait_until(
        lambda: kubectl.get("gptservice", "chat", namespace="team-a"),
        lambda found: "status" in found,
        "the operator to look at it",
    )
    kube.delete("Namespace", "team-a")
