"""What is accepted and has no effect is said, and nothing else."""

from typing import Any

import pytest

from gptservice_operator import advice
from tests.operator import builders
from tests.operator.api.manifests import GOOD
from tests.operator.builders import Body


def warnings(**spec: Any) -> list[str]:
    return list(advice.of_service(builders.service(spec={"model": "pvc://models/m", **spec})))


def test_a_plain_service_has_none() -> None:
    assert warnings(replicas=3, maxTokens=5, gpu={"count": 1}, rollout={"maxSurge": 1}, podLabels={"a": "b"}) == []


@pytest.mark.parametrize(
    ("spec", "key"),
    [
        pytest.param(
            {"podLabels": {"app.kubernetes.io/instance": "a"}}, "podLabels[app.kubernetes.io/instance]", id="1"
        ),
        pytest.param({"podLabels": {"pod-template-hash": "a"}}, "podLabels[pod-template-hash]", id="2"),
        pytest.param({"podAnnotations": {"argocd.argoproj.io/tracking-id": "a"}}, "podAnnotations[argocd.", id="3"),
        pytest.param({"service": {"annotations": {"ai.example.com/x": "a"}}}, "service.annotations[ai.example", id="4"),
    ],
)
def test_a_reserved_key_is_named(spec: Body, key: str) -> None:
    (told,) = warnings(**spec)
    assert told.startswith(f"spec.{key}")
    assert told.endswith("is left out: the key is reserved")


def test_many_unknown_fields_are_counted() -> None:
    told = warnings(**{f"new{number}": 1 for number in range(8)})
    assert len(told) == 6
    assert told[0] == "spec.new0 is not known to this version of the operator"
    assert told[-1].startswith("3 further fields")


@pytest.mark.parametrize("name", [row.id for row in GOOD.values() if row.body["kind"] == "GPTService"])
def test_no_good_manifest_has_an_unknown_field(name: str) -> None:
    body = builders.service(spec=GOOD[name].body["spec"])
    assert not [told for told in advice.of_service(body) if "not known" in told]
