"""Two operators in one cluster: refused where both would look after the same, side by side where they do not."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from e2e.installation import CHART, NAMESPACE, RELEASE, Helm, HelmError
from e2e.kube import wait_until
from e2e.kubectl import Kubectl, KubectlError

OTHER = "other-system"
NOT_OURS = "cannot be imported into the current release: invalid ownership metadata"

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def nothing_else(helm: Helm, kubectl: Kubectl) -> Iterator[None]:
    """Two teams' namespaces; afterwards no release is left."""
    for name in ("team-a", "team-b", OTHER):
        kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    _remove(helm, kubectl)
    yield
    _remove(helm, kubectl)


def _remove(helm: Helm, kubectl: Kubectl) -> None:
    for namespace in (OTHER, NAMESPACE):
        for name in helm.run("list", "--namespace", namespace, "--short").split():
            helm.run("uninstall", name, "--namespace", namespace, "--wait")
    # They say whose they are: another test's release has another name.
    crds = [crd for crd in ("gptservices.ai.example.com", "gptmodels.ai.example.com") if kubectl.find("crd", crd)]
    for crd in crds:
        # The API server does not get done with a kind that goes before it could ever be listed.
        wait_until(partial(_is_listed, kubectl, crd), bool, f"{crd} to be served", timeout=60)
    if crds:
        kubectl.run("delete", "crd", *crds)


def _is_listed(kubectl: Kubectl, crd: str) -> bool:
    try:
        kubectl.run("get", crd, "--all-namespaces")
    except KubectlError:
        return False
    return True


def install(helm: Helm, name: str, namespace: str, *, crds: bool = False, **values: Any) -> None:
    place = ("--namespace", namespace, "--create-namespace")
    helm.run("install", name, str(CHART), *place, values={**values, "crds": {"enabled": crds}})


def nothing_came(kubectl: Kubectl, namespace: str) -> None:
    """What a refused install made there."""
    assert kubectl.get("deployments", namespace=namespace)["items"] == []
    accounts = kubectl.get("serviceaccounts", namespace=namespace)["items"]
    assert {account["metadata"]["name"] for account in accounts} <= {"default"}


@pytest.mark.parametrize("name", [RELEASE, "another"])
def test_a_second_one_with_the_kinds_is_told_whose_they_are(helm: Helm, kubectl: Kubectl, name: str) -> None:
    helm.install_operator()
    with pytest.raises(HelmError, match=NOT_OURS) as refused:
        install(helm, name, OTHER, crds=True)
    assert f'must equal "{OTHER}": current value is "{NAMESPACE}"' in str(refused.value)
    nothing_came(kubectl, OTHER)


def test_a_second_one_for_all_namespaces_is_refused(helm: Helm, kubectl: Kubectl) -> None:
    """Each has a Lease in its own namespace, so both would write."""
    helm.install_operator()
    with pytest.raises(HelmError, match=NOT_OURS) as refused:
        install(helm, "another", OTHER)
    assert 'ClusterRole "gptservice-operator"' in str(refused.value)
    nothing_came(kubectl, OTHER)


def test_two_of_different_namespaces_live_side_by_side(helm: Helm, kubectl: Kubectl) -> None:
    install(helm, "a", NAMESPACE, crds=True, namespaces=["team-a"])
    install(helm, "b", OTHER, namespaces=["team-b"])
    for namespace, account, place in (("team-a", "a", NAMESPACE), ("team-b", "b", OTHER)):
        (subject,) = kubectl.get("rolebinding", "gptservice-operator", namespace=namespace)["subjects"]
        assert (subject["name"], subject["namespace"]) == (f"{account}-gptservice-operator", place)


def test_two_of_one_namespace_are_refused(helm: Helm, kubectl: Kubectl) -> None:
    install(helm, "a", NAMESPACE, crds=True, namespaces=["team-a", "team-b"])
    with pytest.raises(HelmError, match=NOT_OURS) as refused:
        install(helm, "b", OTHER, namespaces=["team-b"])
    assert 'Role "gptservice-operator" in namespace "team-b"' in str(refused.value)
    nothing_came(kubectl, OTHER)


def test_two_in_one_namespace_are_refused(helm: Helm) -> None:
    """They would share a Lease, and one would wait for it for ever, with nobody for its namespaces."""
    install(helm, "a", NAMESPACE, crds=True, namespaces=["team-a"])
    with pytest.raises(HelmError, match=NOT_OURS) as refused:
        install(helm, "b", NAMESPACE, namespaces=["team-b"])
    assert "gptservice-operator-lease" in str(refused.value)
