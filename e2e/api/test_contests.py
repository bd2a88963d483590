"""Another controller that writes the same field of a child: no endless fight, and the service names it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from e2e.api.state import Observer, condition, probe_deployment, service
from e2e.kube import Kube, NotFoundError, Object, wait_until
from e2e.operator_process import OperatorProcess
from e2e.proxy import Switchboard

CALM_SECONDS = 5


@contextmanager
def another_controller(kube: Kube, namespace: str) -> Iterator[None]:
    """Something that wants five replicas of the Deployment, and never gives in."""
    ended = threading.Event()

    def insist() -> None:
        while not ended.wait(0.05):
            try:
                if kube.get("Deployment", "gpt", namespace)["spec"]["replicas"] != 5:
                    kube.merge("Deployment", "gpt", namespace, {"spec": {"replicas": 5}})
            except NotFoundError:
                return

    thread = threading.Thread(target=insist)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def test_the_other_one_is_not_fought_for_ever_and_is_named(
    operator: OperatorProcess, board: Switchboard, kube: Kube, namespace: str, observer: Observer
) -> None:
    kube.apply(service(replicas=2), namespace)
    observer.wait_ready()
    with another_controller(kube, namespace):
        told = observer.wait(
            lambda o: "Deployment gpt is contested" in str(condition(o, "Accepted").get("message")), "the contest"
        )
        assert condition(told, "Accepted")["reason"] == "AcceptedWithWarnings"
        mark = board.log.position
        time.sleep(CALM_SECONDS)
        assert writes(board, namespace, mark) == []
        # What a person asks for is written at once all the same.
        kube.scale("gpt", namespace, 3)
        observer.wait(lambda o: o is not None and o["status"]["observedGeneration"] == 2, "the edit to be seen")
        assert [
            e for e in board.log.writes(mark) if (e.target.namespace, e.target.resource) == (namespace, "deployments")
        ]


ADMISSION = "/apis/admissionregistration.k8s.io/v1"
CHANGE = "Object{spec: Object.spec{revisionHistoryLimit: 1}}"


@contextmanager
def mutating_policy(kube: Kube, namespace: str) -> Iterator[None]:
    """Has every Deployment of a namespace stored with another history than it was written with."""
    name = f"short-history-{namespace}"
    header = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": name}}
    rules = [{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
              "resources": ["deployments"]}]  # fmt: skip
    spec: Object = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": {"resourceRules": rules},
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": CHANGE}}],
    }
    selector = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    bound = {"policyName": name, "matchResources": {"namespaceSelector": selector}}
    policies, bindings = f"{ADMISSION}/mutatingadmissionpolicies", f"{ADMISSION}/mutatingadmissionpolicybindings"
    kube.request("POST", policies, body={**header, "kind": "MutatingAdmissionPolicy", "spec": spec})
    kube.request("POST", bindings, body={**header, "kind": "MutatingAdmissionPolicyBinding", "spec": bound})
    try:
        wait_until(
            lambda: probe_deployment(kube, namespace)["spec"]["revisionHistoryLimit"],
            lambda length: length == 1,
            "the policy to count",
        )
        yield
    finally:
        kube.request("DELETE", f"{bindings}/{name}")
        kube.request("DELETE", f"{policies}/{name}")


def test_a_policy_that_changes_what_is_written_is_told_and_not_fought(
    operator: OperatorProcess, board: Switchboard, kube: Kube, namespace: str, observer: Observer
) -> None:
    with mutating_policy(kube, namespace):
        kube.apply(service(), namespace)
        told = observer.wait(
            lambda o: "an admission policy or webhook" in str(condition(o, "Accepted").get("message")), "the policy"
        )
        assert condition(told, "Accepted")["reason"] == "AcceptedWithWarnings"
        assert "Deployment gpt is not as the operator writes it" in condition(told, "Accepted")["message"]
        observer.wait_ready()
        mark = board.log.position
        time.sleep(CALM_SECONDS)
        assert writes(board, namespace, mark) == []


def writes(board: Switchboard, namespace: str, since: int) -> list[str]:
    """The operator's writes of the namespace's Deployments."""
    place = (namespace, "deployments")
    found = [entry for entry in board.log.writes(since) if (entry.target.namespace, entry.target.resource) == place]
    return [f"{entry.target.verb} {entry.code}" for entry in found]
