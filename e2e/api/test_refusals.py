"""What the namespace or the cluster forbids: its own words are in the condition, it heals, and nothing floods."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from e2e.api.state import Observer, condition, holds, probe_deployment, service
from e2e.kube import Kube, KubeError, Object, wait_until
from e2e.operator_process import OperatorProcess
from e2e.proxy import Switchboard

WATCHED_SECONDS = 8
# The back-off of this level doubles from 0.2 s to 2 s, with jitter.
MOST_TRIES = 10
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"


def quota(resource: str, most: str) -> Object:
    header = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}}
    return {**header, "spec": {"hard": {resource: most}}}


def limited(kube: Kube, namespace: str, manifest: Object) -> None:
    """Create a quota or limits, and wait until they count."""
    plural = {"ResourceQuota": "resourcequotas", "LimitRange": "limitranges"}[manifest["kind"]]
    path = f"/api/v1/namespaces/{namespace}/{plural}"
    kube.request("POST", path, body=manifest)
    if manifest["kind"] == "ResourceQuota":
        wait_until(
            lambda: kube.request("GET", f"{path}/q").get("status", {}).get("hard"), bool, "the quota to be counted"
        )


@contextmanager
def policy(kube: Kube, namespace: str) -> Iterator[None]:
    """Refuse every Deployment of a namespace, as a policy engine does."""
    name = f"no-deployments-{namespace}"
    rules = [{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
              "resources": ["deployments"]}]  # fmt: skip
    spec: Object = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": rules},
        "validations": [{"expression": "false", "message": "house rule 7: no Deployment on Fridays"}],
    }
    header = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": name}}
    kube.request("POST", POLICIES, body={**header, "kind": "ValidatingAdmissionPolicy", "spec": spec})
    selector = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    bound = {"policyName": name, "validationActions": ["Deny"], "matchResources": {"namespaceSelector": selector}}
    kube.request("POST", BINDINGS, body={**header, "kind": "ValidatingAdmissionPolicyBinding", "spec": bound})
    try:
        wait_until(lambda: refuses(kube, namespace), bool, "the policy to count")
        yield
    finally:
        kube.request("DELETE", f"{BINDINGS}/{name}")
        kube.request("DELETE", f"{POLICIES}/{name}")


def refuses(kube: Kube, namespace: str) -> bool:
    try:
        probe_deployment(kube, namespace)
    except KubeError as error:
        return "house rule 7" in str(error)
    return False


def assert_no_flood(board: Switchboard, kube: Kube, namespace: str) -> None:
    """While it lasts, little is tried, and nothing is made in vain."""
    mark, pods = board.log.position, len(kube.all("Pod", namespace))
    time.sleep(WATCHED_SECONDS)
    tried = [entry for entry in board.log.writes(mark) if entry.target.namespace == namespace]
    counted = Counter((entry.target.verb, entry.target.resource) for entry in tried)
    assert not [what for what, count in counted.items() if count > MOST_TRIES], counted
    assert len(kube.all("Pod", namespace)) <= pods + 1
    ours = [e for e in kube.all("Event", namespace) if "gptservice" in str(e.get("source", {}).get("component"))]
    assert sum(event["count"] for event in ours) <= MOST_TRIES


def test_a_policy_that_refuses_the_deployment(
    operator: OperatorProcess, board: Switchboard, kube: Kube, namespace: str, observer: Observer
) -> None:
    with policy(kube, namespace):
        kube.apply(service(), namespace)
        told = observer.wait(lambda o: "house rule 7" in str(condition(o, "Ready").get("message")), "its words")
        assert (condition(told, "Ready")["status"], condition(told, "Ready")["reason"]) == ("False", "Forbidden")
        assert condition(told, "Available")["status"] == "False"
        assert_no_flood(board, kube, namespace)
        # What is not refused is made all the same.
        assert observer.child("Service")["spec"]["selector"]["gptservice-name"] == "gpt"
    observer.wait_ready()


def test_a_policy_that_comes_while_it_serves_takes_nothing_away(
    operator: OperatorProcess, kube: Kube, namespace: str, observer: Observer
) -> None:
    kube.apply(service(), namespace)
    observer.wait_ready()
    before = {pod["metadata"]["uid"] for pod in observer.pods()}
    with policy(kube, namespace):
        kube.apply(service(engine={"args": ["--seed=2"]}), namespace)
        told = observer.wait(lambda o: "house rule 7" in str(condition(o, "Ready").get("message")), "its words")
        assert condition(told, "Available")["status"] == "True"
        assert {pod["metadata"]["uid"] for pod in observer.pods()} == before
    observer.wait_ready()


def test_a_quota_on_objects(
    operator: OperatorProcess, board: Switchboard, kube: Kube, namespace: str, observer: Observer
) -> None:
    limited(kube, namespace, quota("services", "1"))
    kube.apply(service(), namespace)
    told = observer.wait(lambda o: holds(o, "Ready", "False", "QuotaExceeded"), "the quota to be named")
    assert "exceeded quota: q" in condition(told, "Ready")["message"]
    assert_no_flood(board, kube, namespace)
    kube.request("DELETE", f"/api/v1/namespaces/{namespace}/resourcequotas/q")
    observer.wait_ready()


@pytest.mark.parametrize(
    ("manifest", "reason", "words"),
    [
        pytest.param(quota("requests.memory", "1Mi"), "QuotaExceeded", "exceeded quota: q", id="a quota on memory"),
        pytest.param(
            {
                "apiVersion": "v1",
                "kind": "LimitRange",
                "metadata": {"name": "l"},
                "spec": {"limits": [{"type": "Container", "max": {"memory": "1Mi"}}]},
            },
            "Forbidden",
            "maximum memory usage per Container is 1Mi",
            id="limits on memory",
        ),
    ],
)
def test_pods_that_are_refused(
    operator: OperatorProcess,
    board: Switchboard,
    kube: Kube,
    namespace: str,
    observer: Observer,
    manifest: Object,
    reason: str,
    words: str,
) -> None:
    limited(kube, namespace, manifest)
    kube.apply(service(), namespace)
    told = observer.wait(lambda o: holds(o, "Ready", "False", reason), "the refusal of its pods")
    assert words in condition(told, "Ready")["message"]
    assert_no_flood(board, kube, namespace)


def test_pods_without_their_service_account(
    operator: OperatorProcess, kube: Kube, namespace: str, observer: Observer
) -> None:
    kube.apply(service(serviceAccountName="loader"), namespace)
    told = observer.wait(lambda o: holds(o, "Ready", "False", "ServiceAccountNotFound"), "the account to be named")
    assert 'serviceaccount "loader" not found' in condition(told, "Ready")["message"]
    assert holds(told, "Degraded", "False"), "somebody has still to make it"
    kube.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "loader"}}, namespace)
    observer.wait_ready()
