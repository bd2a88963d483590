"""Objects that were stored under a lax CRD and parse no more: each is told what is wrong, and its neighbours go on."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.api import other_crds
from e2e.api.state import Observer, condition, service
from e2e.kube import Kube, Object
from e2e.operator_process import OperatorProcess

ANYTHING: dict[str, Any] = {"x-kubernetes-preserve-unknown-fields": True}

BAD: dict[str, Any] = {
    "text": "gpt-4",
    "list": ["gpt-4"],
    "wrong-types": {
        "model": 5, "replicas": "three", "gpu": [], "engine": {"env": "A=b", "args": {"x": 1}}, "resources": 7,
        "scheduling": "anywhere", "servedModelNames": [{}], "podLabels": ["a"], "service": {"port": "http"},
    },
    "nothing": {},
    "deep": {"model": "file:///m", "engine": {"env": [{"name": 1}, "x", None]}, "rollout": {"maxSurge": {}}},
}  # fmt: skip


def lax(definition: Object) -> None:
    """Anything goes; the scale subresource would ask for a spec with a number in it."""
    del definition["spec"]["versions"][0]["subresources"]["scale"]
    schema = other_crds.schema_of(definition)
    schema["properties"]["spec"] = ANYTHING
    schema["properties"]["status"] = ANYTHING
    schema.pop("required", None)
    schema.pop("x-kubernetes-validations", None)


@pytest.fixture
def stored(operator: OperatorProcess, kube: Kube, observer: Observer, namespace: str) -> list[str]:
    """Return the names of objects that have been told while anything goes.

    With the rules back, the API server takes no status at all of one whose types these can make nothing of.
    """
    names = [*BAD, "unspecified"]
    with other_crds.served(kube, lax):
        for name, spec in BAD.items():
            kube.create({**service(name), "spec": spec}, namespace)
        kube.merge("GPTService", "wrong-types", namespace, {"status": {"conditions": "x"}}, subresource="status")
        kube.merge("GPTService", "text", namespace, {"status": "x"}, subresource="status")
        kube.create(service("unspecified") | {"spec": None}, namespace)
        for name in names:
            observer.wait(lambda o: bool(condition(o, "Accepted")), "a condition", name)
    return names


def test_each_is_told_and_the_neighbours_go_on(
    operator: OperatorProcess, kube: Kube, namespace: str, observer: Observer, stored: list[str]
) -> None:
    operator.restart()
    kube.apply(service("neighbour"), namespace)
    observer.wait_ready("neighbour")
    for name in stored:
        found = observer.wait(lambda o: bool(condition(o, "Accepted")), "a condition", name)
        assert condition(found, "Accepted")["reason"] == "InvalidSpec"
    assert "a fault of the operator itself" not in operator.output().decode()
