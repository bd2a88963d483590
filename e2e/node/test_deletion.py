"""Nothing of a deleted GPTService is left, and a namespace goes whether there is an operator or not."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from e2e.api.state import Observer
from e2e.kube import Kube, wait_until
from e2e.kubectl import Kubectl
from e2e.node.release import VLLM, Release
from e2e.node.services import SOON, restricted_namespace, standin


@pytest.fixture
def namespace(kube: Kube, kubectl: Kubectl) -> Iterator[str]:
    """One for each test."""
    with restricted_namespace(kube, kubectl) as name:
        yield name


def everything(kubectl: Kubectl, namespace: str) -> set[str]:
    """Every object in the namespace, of any kind that the API server knows, but for reports of what happened."""
    kinds = kubectl.run("api-resources", "--namespaced", "--verbs=list", "-o", "name").split()
    wanted = ",".join(kind for kind in kinds if not kind.startswith("events"))
    return set(kubectl.run("get", wanted, "--namespace", namespace, "-o", "name").split())


@pytest.fixture
def before(release: Release, kube: Kube, kubectl: Kubectl, namespace: str) -> Iterator[set[str]]:
    """What was in the namespace before there was a GPTService, which is Ready now."""
    release.use(VLLM)
    for kind, name in (("ServiceAccount", "default"), ("ConfigMap", "kube-root-ca.crt")):
        wait_until(partial(kube.find, kind, name, namespace), bool, f"Kubernetes' own {kind}")
    before = everything(kubectl, namespace)
    # Kubernetes looks at a namespace that has pods again when half of their grace period is over.
    kube.apply(standin(replicas=2, drainTimeoutSeconds=5), namespace)
    Observer(kube, namespace).wait_ready(timeout=SOON)
    yield before
    release.scale(1)


def test_nothing_is_left(before: set[str], kubectl: Kubectl, namespace: str) -> None:
    made = everything(kubectl, namespace) - before
    assert {name.split("/")[0] for name in made} >= {"deployment.apps", "service", "configmap", "pod"}
    kubectl.run("delete", "gptservice", "gpt", "--namespace", namespace)
    wait_until(lambda: everything(kubectl, namespace), lambda left: left == before, "all of it to go", timeout=SOON)


def test_a_namespace_goes_while_the_operator_is_stopped(
    before: set[str], release: Release, kube: Kube, namespace: str
) -> None:
    release.scale(0)
    kube.delete("Namespace", namespace)
    wait_until(lambda: kube.find("Namespace", namespace), lambda found: found is None, "it to go", timeout=SOON)
