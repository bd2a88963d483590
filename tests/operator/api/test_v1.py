"""What the operator accepts and what it refuses, and where; and that the CRD's schema agrees."""

from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from gptservice_operator import parse
from gptservice_operator.api import crd, problems, schema, v1
from gptservice_operator.api.base import ApiModel
from gptservice_operator.api.status import GPTServiceStatus
from gptservice_operator.render.resolved import Refusal
from tests.operator.api import manifests, structural
from tests.operator.api.manifests import BAD, GOOD, ROWS, Body, names_field

SPECS = schema.spec_schemas()
CRDS = {"GPTService": crd.gptservice_crd(), "GPTModel": crd.gptmodel_crd()}


def schema_problems(body: Body) -> list[str]:
    (version,) = CRDS[body["kind"]]["spec"]["versions"]
    return list(structural.problems(version["schema"]["openAPIV3Schema"], body))


def operator_problems(body: Body) -> list[str]:
    """Return the fields that the operator names when it meets such an object."""
    if body["kind"] == "GPTService":
        outcome = parse.parse(body)
        return _fields(outcome.message) if isinstance(outcome, Refusal) else []
    try:
        v1.GPTModelSpec.model_validate(body.get("spec") or {})
    except ValidationError as error:
        return _fields(problems.explain(error, "spec"))
    return []


def _fields(message: str) -> list[str]:
    return [part.partition(": ")[0] for part in message.split("; ")]


def test_the_table_is_large_and_its_rows_are_told_apart() -> None:
    assert len(ROWS) >= 150
    assert len({row.id for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("name", GOOD)
def test_good_manifests_are_accepted_by_operator_and_schema(name: str) -> None:
    body = GOOD[name].body
    assert operator_problems(body) == []
    assert schema_problems(body) == []
    assert list(schema.unknown(SPECS[body["kind"]], body["spec"], "spec")) == []


@pytest.mark.parametrize("name", [row.id for row in BAD.values() if row.by != "strict"])
def test_bad_manifests_are_refused_by_the_operator_at_their_field(name: str) -> None:
    row = BAD[name]
    found = operator_problems(row.body)
    assert found, "the operator accepts it"
    assert names_field(found[0], row.refused or ""), found


@pytest.mark.parametrize("name", [row.id for row in BAD.values() if row.by == "schema"])
def test_bad_manifests_are_refused_by_the_schema_at_their_field(name: str) -> None:
    found = schema_problems(BAD[name].body)
    assert found, "the schema accepts it"
    assert all(names_field(path, BAD[name].refused or "") for path in found), found


@pytest.mark.parametrize("name", [row.id for row in BAD.values() if row.by == "cel"])
def test_only_a_rule_refuses_what_the_schema_accepts(name: str) -> None:
    """Else the mark on the manifest is wrong. That the rule refuses it is seen on a real API server."""
    assert schema_problems(BAD[name].body) == []


@pytest.mark.parametrize("name", [row.id for row in BAD.values() if row.by == "strict"])
def test_an_unknown_field_is_passed_over_and_named(name: str) -> None:
    row = BAD[name]
    assert operator_problems(row.body) == []
    assert list(schema.unknown(SPECS[row.body["kind"]], row.body["spec"], "spec")) == [row.refused]


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
        GOOD["prod-gpt, as it was given"].body,
        GOOD["prod-gpt-35, as it was given"].body,
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
    assert operator_problems(manifests.manifest(spec)) == []


def test_what_was_parsed_cannot_be_changed() -> None:
    spec = v1.GPTServiceSpec.model_validate({"model": "m"})
    with pytest.raises(ValidationError):
        spec.replicas = 9


@pytest.mark.parametrize("model", [v1.GPTServiceSpec, v1.GPTModelSpec, GPTServiceStatus])
def test_every_field_is_described(model: type[ApiModel]) -> None:
    assert [name for name, field in model.model_fields.items() if not (field.description or "").endswith(".")] == []


def test_names_in_yaml_are_camel_case() -> None:
    aliases: list[Any] = [field.alias for field in v1.GPTServiceSpec.model_fields.values()]
    assert "maxInflightRequests" in aliases
    assert all("_" not in alias for alias in aliases)
