"""The chart as a release of the real Helm: what an upgrade, an uninstall and a second install do to the CRDs."""

import shutil
from pathlib import Path

import pytest

from e2e.installation import CHART, NAMESPACE, RELEASE, Helm, HelmError
from e2e.kube import Kube, wait_until
from e2e.kubectl import Kubectl, KubectlError

CRD = "gptservices.ai.example.com"
NO_TAG = {"image": {"tag": ""}}


def uninstall(helm: Helm) -> None:
    helm.run("uninstall", RELEASE, "--namespace", NAMESPACE, "--wait")


def accounts(kubectl: Kubectl) -> list[str]:
    """The ServiceAccounts of the release's pods."""
    pods = kubectl.get("pods", namespace=NAMESPACE)["items"]
    return [pod["spec"]["serviceAccountName"] for pod in pods]


def test_install_uninstall_install(helm: Helm, kubectl: Kubectl) -> None:
    helm.install_operator()
    # Those of the release that another test has left may be on their way out.
    wait_until(lambda: accounts(kubectl), lambda found: found == [RELEASE, RELEASE], "two pods of its own account")
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


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        pytest.param("replica=3", "'replica' not allowed", id="misspelt"),
        pytest.param("replicas=two", "/replicas", id="a word for a number"),
        pytest.param("image.tga=1.0", "'tga' not allowed", id="misspelt further down"),
        pytest.param("image=registry.example.com/op:1", "/image", id="a text for a map"),
        pytest.param("namespaces=team-a", "/namespaces", id="a text for a list"),
        pytest.param("fsGroup=none", "/fsGroup", id="none for null"),
        pytest.param("crds=false", "/crds", id="a switch without enabled"),
        pytest.param("labels.team=1", "/labels/team", id="a number for a label"),
    ],
)
def test_a_mistake_of_set_changes_nothing_and_is_named(helm: Helm, kubectl: Kubectl, mistake: str, said: str) -> None:
    helm.install_operator()
    before = kubectl.get("deployment", RELEASE, namespace=NAMESPACE)["metadata"]["generation"]
    revision = helm.run("history", RELEASE, "--namespace", NAMESPACE, "--output", "json")
    with pytest.raises(HelmError, match=said):
        helm.run("upgrade", RELEASE, str(CHART), "--namespace", NAMESPACE, "--set", mistake)
    assert helm.run("history", RELEASE, "--namespace", NAMESPACE, "--output", "json") == revision
    assert kubectl.get("deployment", RELEASE, namespace=NAMESPACE)["metadata"]["generation"] == before


def test_crds_that_leave_the_release_stay(helm: Helm, kubectl: Kubectl) -> None:
    """As every GPTService would go with them."""
    helm.install_operator()
    before = kubectl.get("crd", CRD)["metadata"]["uid"]
    helm.install_operator({"crds": {"enabled": False}})
    uninstall(helm)
    assert kubectl.get("crd", CRD)["metadata"]["uid"] == before
    helm.install_operator()
    assert kubectl.get("crd", CRD)["metadata"]["uid"] == before


@pytest.mark.parametrize(
    ("role", "verb", "resource", "allowed"),
    [
        ("view", "list", "gptservices", True),
        ("view", "update", "gptservices", False),
        ("edit", "create", "gptservices", True),
        ("edit", "patch", "gptservices/scale", True),
        ("edit", "patch", "gptservices/status", False),
        ("admin", "deletecollection", "gptservices", True),
        ("admin", "create", "gptmodels", False),
    ],
)
def test_kubernetes_own_roles_cover_services(
    helm: Helm, kube: Kube, role: str, verb: str, resource: str, allowed: bool
) -> None:
    """Asked of the API server, about a user who has that role in one namespace."""
    helm.install_operator()
    user = f"a-{role}er"
    kube.apply(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": user, "namespace": "default"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        }
    )
    plural, _, subresource = resource.partition("/")

    def may(verb: str, resource: str, subresource: str = "") -> bool:
        asked = {"namespace": "default", "verb": verb, "group": "ai.example.com", "resource": resource}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": user, "resourceAttributes": {**asked, "subresource": subresource}},
        }
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        return bool(kube.request("POST", path, body=review)["status"]["allowed"])

    # Roles are put together a moment after the chart's parts of them are there.
    wait_until(lambda: may("list", "gptservices"), bool, f"the role {role} to be whole")
    if role != "view":
        wait_until(lambda: may("create", "gptservices"), bool, f"the role {role} to be whole")
    assert may(verb, plural, subresource) is allowed


def test_a_release_that_a_killed_helm_left_locked_is_installed_again(helm: Helm, kubectl: Kubectl) -> None:
    helm.install_operator()
    # Simulated pods of this mode are never ready, so Helm waits.
    never_ready = {"extraEnv": [{"name": "E2E_MODE", "value": "pending"}]}
    upgrade = ("upgrade", RELEASE, str(CHART), "--namespace", NAMESPACE, "--wait")
    with helm.background(*upgrade, values=never_ready):  # which ends it with SIGKILL
        wait_until(helm.is_locked, bool, "the release to be locked", timeout=120)
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
