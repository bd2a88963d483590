"""An object of a child's name that is somebody else's is never touched."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.api.state import Observer, condition, holds, service
from e2e.kube import KINDS, Kube, Object, stays
from e2e.operator_process import OperatorProcess

LABELS = {"app": "theirs"}
OURS = {
    "app.kubernetes.io/managed-by": "gptservice-operator",
    "app.kubernetes.io/name": "gptservice",
    "gptservice-name": "gpt",
}
SPECS: dict[str, dict[str, Any]] = {
    "Deployment": {
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": LABELS},
            "template": {
                "metadata": {"labels": LABELS},
                "spec": {"containers": [{"name": "theirs", "image": "localhost/theirs:1"}]},
            },
        }
    },
    "Service": {"spec": {"selector": LABELS, "ports": [{"port": 81}]}},
    "ConfigMap": {"data": {"theirs": "yes"}},
    "ServiceAccount": {"automountServiceAccountToken": True},
    "NetworkPolicy": {"spec": {"podSelector": {"matchLabels": LABELS}, "policyTypes": ["Egress"]}},
}
NAMES = {
    "Deployment": "gpt",
    "Service": "gpt",
    "ConfigMap": "gpt-limits",
    "ServiceAccount": "gpt-pods",
    "NetworkPolicy": "gpt",
}


def foreign(kind: str, labels: dict[str, str]) -> Object:
    return {
        "apiVersion": KINDS[kind].api_version,
        "kind": kind,
        "metadata": {"name": NAMES[kind], "labels": labels},
        **SPECS[kind],
    }


def contents(obj: Object) -> list[object]:
    fields = ("spec", "data", "automountServiceAccountToken")
    return [obj["metadata"].get("labels"), obj["metadata"].get("ownerReferences"), *map(obj.get, fields)]


@pytest.mark.parametrize("labels", [pytest.param({}, id="unlabelled"), pytest.param(OURS, id="with our labels")])
@pytest.mark.parametrize("kind", sorted(SPECS))
def test_is_reported_left_alone_and_ends_by_itself(
    operator: OperatorProcess, kube: Kube, namespace: str, observer: Observer, kind: str, labels: dict[str, str]
) -> None:
    name = NAMES[kind]
    theirs = kube.create(foreign(kind, labels), namespace)
    kube.apply(service(), namespace)
    refused = observer.wait(lambda o: holds(o, "Accepted", "False", "NameConflict"), "to be refused")
    said = condition(refused, "Accepted")["message"]
    assert kind in said
    assert name in said
    assert condition(refused, "Ready")["status"] == "False"
    stays(lambda: contents(kube.get(kind, name, namespace)), lambda now: now == contents(theirs), "theirs", seconds=1.5)

    kube.delete(kind, name, namespace)
    ready = observer.wait_ready()
    assert observer.child(kind, name)["metadata"]["ownerReferences"][0]["uid"] == ready["metadata"]["uid"]


def test_does_not_disturb_another_service(
    operator: OperatorProcess, kube: Kube, namespace: str, observer: Observer
) -> None:
    kube.create(foreign("Deployment", {}), namespace)
    kube.apply(service(), namespace)
    kube.apply(service("other", replicas=2), namespace)
    observer.wait_ready("other")
    observer.wait(lambda o: holds(o, "Accepted", "False", "NameConflict"), "to be refused")
    # The children whose names are free are made all the same.
    assert observer.child("Service")["spec"]["selector"]["gptservice-name"] == "gpt"


def test_a_child_that_was_disowned_is_theirs(
    operator: OperatorProcess, kube: Kube, namespace: str, observer: Observer
) -> None:
    kube.apply(service(), namespace)
    ready = observer.wait_ready()
    kube.merge("Service", "gpt", namespace, {"metadata": {"ownerReferences": None}})
    observer.wait(lambda o: holds(o, "Accepted", "False", "NameConflict"), "to be refused")
    assert "ownerReferences" not in observer.child("Service")["metadata"]
    kube.delete("Service", "gpt", namespace)
    observer.wait_ready()
    assert observer.child("Service")["metadata"]["ownerReferences"][0]["uid"] == ready["metadata"]["uid"]
