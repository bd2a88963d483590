"""What is made beside the pods, on a real API server: who it is for, what it lets through, and how it is kept."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from e2e.api import optional_crds
from e2e.api.state import COLLECTED, Observer, condition, holds, is_stopped, service
from e2e.kube import Kube, Object, wait_until
from e2e.operator_process import NAMESPACE, OperatorProcess
from gptservice_operator import names
from gptservice_operator.api import kinds

CACHE = {"size": "1Gi", "storageClassName": "none", "accessModes": ["ReadWriteMany"]}
CLAIM = names.cache_claim("gpt", "none", ["ReadWriteMany"])
THEIRS = {"example.org/theirs": "yes"}
COMPANIONS = [
    ("Service", "gpt-pods"),
    ("ServiceAccount", "gpt-pods"),
    ("PodDisruptionBudget", "gpt"),
    ("NetworkPolicy", "gpt"),
]


@pytest.fixture
def running(operator_without_resync: OperatorProcess, kube: Kube, namespace: str, observer: Observer) -> Object:
    """A Ready GPTService with two replicas, under an operator that hears of things by its watches alone."""
    kube.apply(service(replicas=2), namespace)
    return observer.wait_ready()


def test_pods_run_as_an_account_of_their_own_without_a_token(running: Object, observer: Observer) -> None:
    assert observer.child("ServiceAccount", "gpt-pods")["automountServiceAccountToken"] is False
    for pod in observer.pods():
        assert pod["spec"]["serviceAccountName"] == "gpt-pods"
        assert not any("serviceAccountToken" in str(volume) for volume in pod["spec"]["volumes"])


def test_a_service_called_default_leaves_the_namespace_s_account_alone(
    operator: OperatorProcess, kube: Kube, namespace: str, observer: Observer
) -> None:
    wait_until(lambda: kube.find("ServiceAccount", "default", namespace), bool, "the namespace's account")
    before = kube.get("ServiceAccount", "default", namespace)
    kube.apply(service("default"), namespace)
    observer.wait_ready("default")
    assert kube.get("ServiceAccount", "default", namespace) == before


def test_the_headless_service_lists_every_ready_pod(running: Object, kube: Kube, namespace: str) -> None:
    path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
    query = {"labelSelector": "kubernetes.io/service-name=gpt-pods"}

    def ready() -> list[Any]:
        slices = kube.request("GET", path, query=query)["items"]
        found = [endpoint for one in slices for endpoint in one.get("endpoints") or []]
        return [endpoint for endpoint in found if endpoint["conditions"]["ready"]]

    wait_until(ready, lambda found: len(found) == 2, "two ready endpoints")
    (only,) = kube.request("GET", path, query=query)["items"]
    assert [port["port"] for port in only["ports"]] == [8000]


def test_of_two_replicas_one_may_be_evicted(running: Object, observer: Observer) -> None:
    wait_until(
        lambda: observer.child("PodDisruptionBudget").get("status", {}),
        lambda status: (status.get("currentHealthy"), status.get("disruptionsAllowed")) == (2, 1),
        "the budget to count two pods",
    )


def test_metrics_are_for_the_operator_s_namespace_until_others_are_named(
    running: Object, kube: Kube, namespace: str, observer: Observer
) -> None:
    def scrapers() -> list[str]:
        _, metrics = observer.child("NetworkPolicy")["spec"]["ingress"]
        return [source["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"] for source in metrics["from"]]

    assert scrapers() == [NAMESPACE]
    kube.merge("GPTService", "gpt", namespace, {"spec": {"monitoring": {"namespaces": ["obs"]}}})
    wait_until(scrapers, lambda found: found == ["obs"], "the policy to follow")


@pytest.mark.parametrize(("kind", "name"), COMPANIONS)
def test_annotations_of_others_stay_through_a_repair(
    running: Object, kube: Kube, namespace: str, observer: Observer, kind: str, name: str
) -> None:
    """Deletion and edits by hand are in test_drift."""
    kube.merge(kind, name, namespace, {"metadata": {"annotations": THEIRS}})
    kube.merge(kind, name, namespace, {"metadata": {"labels": {"gptservice-name": None}}})
    ours = names.labels("gpt")
    repaired = wait_until(
        lambda: observer.child(kind, name), lambda child: child["metadata"].get("labels") == ours, "our labels"
    )
    assert THEIRS.items() <= repaired["metadata"]["annotations"].items()


class TestCache:
    @pytest.fixture
    def claim(self, operator_without_resync: OperatorProcess, kube: Kube, namespace: str, observer: Observer) -> Object:
        """The claim of a stopped service: no volume is there for it, and none is needed."""
        kube.apply(service(replicas=0, cache=CACHE), namespace)
        observer.wait(is_stopped, "to be Stopped")
        return observer.child("PersistentVolumeClaim", CLAIM)

    def test_it_is_asked_for_as_the_spec_says_and_mounted(self, claim: Object, observer: Observer) -> None:
        assert claim["spec"]["resources"]["requests"] == {"storage": "1Gi"}
        assert (claim["spec"]["storageClassName"], claim["spec"]["accessModes"]) == ("none", ["ReadWriteMany"])
        volumes = observer.child("Deployment")["spec"]["template"]["spec"]["volumes"]
        assert {"name": "cache", "persistentVolumeClaim": {"claimName": CLAIM}} in volumes

    def test_deleted_it_is_made_again(self, claim: Object, observer: Observer) -> None:
        observer.delete_and_wait_for_another("PersistentVolumeClaim", CLAIM)

    def test_our_label_is_put_back_and_theirs_stays(
        self, claim: Object, kube: Kube, namespace: str, observer: Observer
    ) -> None:
        change = {"metadata": {"annotations": THEIRS, "labels": {"gptservice-name": None}}}
        kube.merge("PersistentVolumeClaim", CLAIM, namespace, change)
        repaired = wait_until(
            lambda: observer.child("PersistentVolumeClaim", CLAIM),
            lambda child: child["metadata"].get("labels") == names.labels("gpt"),
            "our labels",
        )
        assert THEIRS.items() <= repaired["metadata"]["annotations"].items()

    def test_a_smaller_size_is_a_warning(self, claim: Object, kube: Kube, namespace: str, observer: Observer) -> None:
        kube.merge("GPTService", "gpt", namespace, {"spec": {"cache": {"size": "512Mi"}}})
        warned = observer.wait(lambda o: holds(o, "Accepted", "True", "AcceptedWithWarnings"), "to be warned")
        assert "spec.cache.size 512Mi is less than the 1Gi" in condition(warned, "Accepted")["message"]
        assert observer.uid("PersistentVolumeClaim", CLAIM) == claim["metadata"]["uid"]

    def test_it_is_kept_without_the_field_and_goes_with_the_service(
        self, claim: Object, kube: Kube, namespace: str, observer: Observer
    ) -> None:
        kube.merge("GPTService", "gpt", namespace, {"spec": {"cache": None}})
        observer.wait(lambda o: is_stopped(o) and holds(o, "Accepted", "True", "Accepted"), "to be Stopped")
        assert observer.uid("PersistentVolumeClaim", CLAIM) == claim["metadata"]["uid"]
        kube.delete("GPTService", "gpt", namespace)
        wait_until(
            lambda: kube.find("PersistentVolumeClaim", CLAIM, namespace),
            lambda found: found is None,
            "the claim to go",
            timeout=COLLECTED,
        )


IN_VAIN: Object = {
    "tls": {"issuerRef": {"name": "internal", "kind": "ClusterIssuer"}},
    "monitoring": {"podMonitor": "Enabled"},
}


WARNINGS = ("nothing issues the certificate", "no PodMonitor CRD")


def warnings(gpt: Object | None) -> set[str]:
    said = condition(gpt, "Accepted").get("message", "")
    return {warning for warning in WARNINGS if warning in said}


class TestKindsOfOtherOperators:
    """Certificate and PodMonitor: their CRDs come and go while the operator runs."""

    @pytest.fixture
    def warned(
        self, operator_without_resync: OperatorProcess, kube: Kube, namespace: str, observer: Observer
    ) -> OperatorProcess:
        """The operator with a service that asks for both in vain. That a kind went, it hears at a resync or a start."""
        operator_without_resync.restart()
        kube.apply(service(**IN_VAIN), namespace)
        observer.wait(lambda o: warnings(o) == set(WARNINGS), "to be warned")
        observer.wait_ready()
        return operator_without_resync

    def test_they_are_made_mended_and_kept_once_their_crds_are_there(
        self, warned: OperatorProcess, kube: Kube, namespace: str, observer: Observer
    ) -> None:
        with optional_crds.installed(kube):
            for kind in ("Certificate", "PodMonitor"):
                wait_until(functools.partial(kube.find, kind, "gpt", namespace), bool, f"the {kind}")
                observer.delete_and_wait_for_another(kind)
                self.mended(kube, namespace, observer, kind)
            observer.wait(lambda o: not warnings(o), "to be warned no more")

    @staticmethod
    def mended(kube: Kube, namespace: str, observer: Observer, kind: str) -> None:
        edits: dict[str, Object] = {
            "Certificate": {"dnsNames": ["mine.example.com"]},
            "PodMonitor": {"podMetricsEndpoints": [{"port": "http", "path": "/"}]},
        }
        before = observer.child(kind)["spec"]
        kube.merge(kind, "gpt", namespace, {"metadata": {"annotations": THEIRS}, "spec": edits[kind]})
        mended = wait_until(lambda: observer.child(kind), lambda child: child["spec"] == before, f"the {kind} mended")
        assert THEIRS.items() <= mended["metadata"]["annotations"].items()

    def test_when_the_crds_go_the_operator_goes_on(
        self, warned: OperatorProcess, kube: Kube, namespace: str, observer: Observer
    ) -> None:
        pid = warned.pid
        with optional_crds.installed(kube):
            for kind in kinds.OPTIONAL:
                wait_until(functools.partial(kube.find, kind.name, "gpt", namespace), bool, f"the {kind.name}")
        observer.wait(lambda o: warnings(o) == set(WARNINGS), "to be warned again")
        kube.scale("gpt", namespace, 2)
        observer.wait_ready()
        assert warned.pid == pid
