"""What is accepted and has no effect is said, and nothing else."""

import dataclasses
from typing import Any

import pytest

from gptservice_operator import advice, render
from gptservice_operator.api import schema
from tests.operator import builders
from tests.operator.api.manifests import GOOD
from tests.operator.builders import Body, resolved


def warnings(**spec: Any) -> list[str]:
    return list(advice.of_service(builders.service(spec={"model": "pvc://models/m", **spec})))


def test_a_plain_service_has_none() -> None:
    assert warnings(replicas=3, maxTokens=5, gpu={"count": 1}, rollout={"maxSurge": 1}, podLabels={"a": "b"}) == []


EXAMPLES: dict[str, Body] = {
    "decryptionKeySecretRef": {"decryptionKeySecretRef": {"name": "s"}},
    "rollout.readyLatencyMilliseconds": {"rollout": {"readyLatencyMilliseconds": 200}},
}


@pytest.mark.parametrize("path", advice.NO_EFFECT)
def test_each_field_without_effect_is_named(path: str) -> None:
    assert warnings(**EXAMPLES[path]) == [f"spec.{path} has no effect in this version"]


@pytest.mark.parametrize("path", advice.NO_EFFECT)
def test_the_table_names_fields_that_there_are(path: str) -> None:
    part = schema.spec_schemas()["GPTService"]
    for name in path.split("."):
        part = part["properties"][name]


def test_a_field_without_effect_does_not_change_what_is_rendered() -> None:
    """But the name of the revision, which will differ once they have one."""
    plain = resolved({"model": "pvc://models/m"})
    for path, spec in EXAMPLES.items():
        changed = dataclasses.replace(resolved({"model": "pvc://models/m", **spec}), origin=plain.origin)
        assert render.render(changed) == render.render(plain), path


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
