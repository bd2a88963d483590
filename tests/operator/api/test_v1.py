"""What the operator accepts and what it refuses, and where; and that the CRD's schema agrees."""

from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from gptservice_operator import resolve
from gptservice_operator.api import crd, v1
from gptservice_operator.api.base import ApiModel
from gptservice_operator.render.resolved import Refusal
from tests.operator.api import manifests, structural
from tests.operator.api.manifests import BAD, GOOD, Bad, Body

CRDS = {"GPTService": crd.gptservice_crd(), "GPTModel": crd.gptmodel_crd()}


def schema_problems(body: Body) -> list[str]:
    (version,) = CRDS[body["kind"]]["spec"]["versions"]
    return list(structural.problems(version["schema"]["openAPIV3Schema"], body))


def operator_problems(body: Body) -> list[str]:
    """Return the fields that the operator names when it meets such an object."""
    if body["kind"] == "GPTService":
        outcome = resolve.parse(body)
        return _fields(outcome.message) if isinstance(outcome, Refusal) else []
    try:
        v1.GPTModelSpec.model_validate(body.get("spec") or {})
    except ValidationError as error:
        return _fields(resolve.explain(error, "spec"))
    return []


def _fields(message: str) -> list[str]:
    return [part.partition(": ")[0] for part in message.split("; ")]


@pytest.mark.parametrize("name", GOOD)
def test_good_manifests_are_accepted_by_operator_and_schema(name: str) -> None:
    assert operator_problems(GOOD[name]) == []
    assert schema_problems(GOOD[name]) == []


@pytest.mark.parametrize("name", BAD)
def test_bad_manifests_are_refused_by_the_operator_at_their_field(name: str) -> None:
    bad = BAD[name]
    found = operator_problems(bad.body)
    assert found, "the operator accepts it"
    assert any(path == bad.field or path.startswith(f"{bad.field}.") for path in found), found


@pytest.mark.parametrize(("name", "bad"), [(name, bad) for name, bad in BAD.items() if bad.by == "schema"])
def test_bad_manifests_are_refused_by_the_schema_at_their_field(name: str, bad: Bad) -> None:
    found = schema_problems(bad.body)
    assert found, "the schema accepts it"
    assert all(path == bad.field or path.startswith(f"{bad.field}.") for path in found), found


@pytest.mark.parametrize(("name", "bad"), [(name, bad) for name, bad in BAD.items() if bad.by == "cel"])
def test_only_a_rule_refuses_what_the_schema_accepts(name: str, bad: Bad) -> None:
    """Else the mark on the manifest is wrong. That the rule refuses it is seen on a real API server."""
    assert schema_problems(bad.body) == []


def test_the_fixtures_are_word_for_word_those_that_were_given() -> None:
    given = """
apiVersion: ai.example.com/v1
kind: GPTService
metadata: {name: prod-gpt}
spec:
  model: "gpt-4-turbo"
  replicas: 3
  maxTokens: 2048
---
apiVersion: ai.example.com/v1
kind: GPTService
metadata: {name: prod-gpt-35}
spec:
  modelRef: "gpt-3.5-turbo-2024-04"
  replicas: 3
  maxInflightRequests: 128
  upgradeStrategy: RollingUpdate     # or Recreate
"""
    assert list(yaml.safe_load_all(given)) == [
        GOOD["prod-gpt, as it was given"],
        GOOD["prod-gpt-35, as it was given"],
    ]


class TestDefaults:
    def test_only_replicas_and_the_two_time_outs_have_one(self) -> None:
        """A field that the catalogue or the configuration may set must not be set by the schema."""
        spec = v1.GPTServiceSpec.model_validate({"model": "m"})
        assert spec.model_dump(exclude_none=True, by_alias=True) == {
            "model": "m", "replicas": 1, "startupTimeoutSeconds": 1800, "drainTimeoutSeconds": 60,
        }  # fmt: skip

    def test_a_catalogue_entry_has_none(self) -> None:
        entry = v1.GPTModelSpec.model_validate({"uri": "pvc://m/x"})
        assert entry.model_dump(exclude_none=True, by_alias=True) == {"uri": "pvc://m/x"}


def test_fields_of_a_newer_version_are_passed_over() -> None:
    spec = {"model": "m", "autoscaling": {"maxReplicas": 3}, "gpu": {"count": 1, "sharing": "MPS"}}
    assert operator_problems(manifests.service(spec)) == []


def test_what_was_parsed_cannot_be_changed() -> None:
    spec = v1.GPTServiceSpec.model_validate({"model": "m"})
    with pytest.raises(ValidationError):
        spec.replicas = 9  # type: ignore[misc]


@pytest.mark.parametrize("model", [v1.GPTServiceSpec, v1.GPTModelSpec, v1.GPTServiceStatus])
def test_every_field_is_described(model: type[ApiModel]) -> None:
    assert [name for name, field in model.model_fields.items() if not (field.description or "").endswith(".")] == []


def test_names_in_yaml_are_camel_case() -> None:
    aliases: list[Any] = [field.alias for field in v1.GPTServiceSpec.model_fields.values()]
    assert "maxInflightRequests" in aliases
    assert all("_" not in alias for alias in aliases)
