"""The CRDs: structural, bounded, and those that are committed."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.client.models import V1CustomResourceDefinition

from gptservice_operator.api import crd

ROOT = Path(__file__).resolve().parents[3]
Schema = dict[str, Any]

CRDS = {"gptservices": crd.gptservice_crd(), "gptmodels": crd.gptmodel_crd()}
EVERY_CRD = pytest.mark.parametrize("plural", CRDS)

ATOMIC_BY_CHOICE = {
    "args", "matchExpressions", "matchFields", "metrics", "namespaces", "nodeSelectorTerms", "policies",
    "preferredDuringSchedulingIgnoredDuringExecution", "requiredDuringSchedulingIgnoredDuringExecution",
    "servedModelNames", "tolerations", "values",
}  # fmt: skip
"""Lists that one writer owns as a whole: their order has a meaning, or Kubernetes' own schema says so of the same
field. ``servedModelNames`` is one only in the status."""


def root(plural: str) -> Schema:
    (version,) = CRDS[plural]["spec"]["versions"]
    schema: Schema = version["schema"]["openAPIV3Schema"]
    return schema


def walk(schema: Schema, path: str) -> Iterator[tuple[str, Schema]]:
    """Yield every part of a schema with its path."""
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from walk(inner, f"{path}.{name}")
    if "items" in schema:
        yield from walk(schema["items"], f"{path}[]")
    if "additionalProperties" in schema:
        yield from walk(schema["additionalProperties"], f"{path}{{}}")


def parts(plural: str, below: str = "") -> list[tuple[str, Schema]]:
    return [(path, part) for path, part in walk(root(plural), plural) if path.startswith(f"{plural}{below}")]


def violations(rule: Callable[[Schema], object], plural: str, below: str = "") -> list[str]:
    """Return the paths of parts for which a rule does not hold."""
    return [path for path, part in parts(plural, below) if not rule(part)]


TYPES = {"object", "array", "string", "integer", "boolean"}
ALLOWED = {
    "description", "type", "format", "enum", "pattern", "default", "minimum", "maximum", "minLength", "maxLength",
    "minItems", "maxItems", "minProperties", "maxProperties", "required", "properties", "items",
    "additionalProperties", "anyOf", "x-kubernetes-validations", "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys", "x-kubernetes-int-or-string",
}  # fmt: skip


@EVERY_CRD
def test_what_is_committed_is_what_the_models_say(plural: str, tmp_path: Path) -> None:
    """If not: make generate."""
    crd.write(tmp_path)
    name = f"{plural}.ai.example.com.yaml"
    assert (ROOT / "crds" / name).read_text(encoding="utf-8") == (tmp_path / name).read_text(encoding="utf-8")


def test_no_other_file_is_generated_or_committed(tmp_path: Path) -> None:
    crd.write(tmp_path / "new" / "folder")
    made = {path.name for path in (tmp_path / "new" / "folder").iterdir()}
    assert made == {path.name for path in (ROOT / "crds").iterdir()}


@EVERY_CRD
def test_kubernetes_own_model_accepts_it(plural: str) -> None:
    text = yaml.safe_load((ROOT / "crds" / f"{plural}.ai.example.com.yaml").read_text(encoding="utf-8"))
    V1CustomResourceDefinition.model_validate(text)


def is_structural(part: Schema) -> bool:
    """No ``$ref``, ``title``, ``const``, ``allOf``, ``not`` or ``nullable``; no floats; one type."""
    if not set(part) <= ALLOWED or ("properties" in part and "additionalProperties" in part):
        return False
    if "anyOf" in part:
        either = part["anyOf"] == [{"type": "integer"}, {"type": "string"}]
        return bool(either and part["x-kubernetes-int-or-string"] is True and "type" not in part)
    is_list = part["type"] == "array"
    return bool(part["type"] in TYPES and ("items" in part) == is_list and part.get("default", 0) is not None)


def is_merged_as_somebody_decided(part: Schema) -> bool:
    return all(
        _has_a_list_type(name, inner)
        for name, inner in part.get("properties", {}).items()
        if inner.get("type") == "array"
    )


def _has_a_list_type(name: str, schema: Schema) -> bool:
    kind, items = schema.get("x-kubernetes-list-type", "atomic"), schema["items"]
    if kind == "atomic":
        return name in ATOMIC_BY_CHOICE
    if kind == "set":
        return bool(items["type"] == "string")
    # An item without its key could not be merged.
    return kind == "map" and set(schema["x-kubernetes-list-map-keys"]) <= set(items["required"])


def is_bounded(part: Schema) -> bool:
    match part.get("type"):
        case "string":
            return "maxLength" in part or "enum" in part
        case "array":
            return "maxItems" in part
        case "integer":
            most = 2**31 - 1 if part["format"] == "int32" else 2**63 - 1
            return bool(part.get("minimum", -1) >= 0 and part.get("maximum", most + 1) <= most)
        case "object":
            return "maxProperties" in part or "additionalProperties" not in part
        case None:
            # A text or a number: the pattern speaks of texts only.
            return bool("maxLength" in part and part.get("minimum", -1) >= 0)
        case other:
            return bool(other == "boolean")


def is_explained(part: Schema) -> bool:
    return all(
        inner.get("description", "").endswith(".")
        for name, inner in part.get("properties", {}).items()
        if name not in ("apiVersion", "kind", "metadata")
    )


KUBERNETES_WORDS = re.compile(r"metadata\.name|(limits|requests)\.(cpu|memory|ephemeral-storage)|engine")
"""Enumerated values that are names of fields and of a container, where Kubernetes' own API has them so."""


def has_camel_case_words(part: Schema) -> bool:
    """``true`` alone stands for a union's member without fields."""
    values = part.get("enum", ())
    return values == [True] or all(
        (value[0].isupper() and value.isalnum()) or KUBERNETES_WORDS.fullmatch(value) for value in values
    )


def has_rules_that_say_what_is_wrong(part: Schema) -> bool:
    return all(rule["rule"] and rule["message"] for rule in part.get("x-kubernetes-validations", ()))


@EVERY_CRD
@pytest.mark.parametrize(
    "rule",
    [
        is_structural,
        is_merged_as_somebody_decided,
        is_explained,
        has_camel_case_words,
        has_rules_that_say_what_is_wrong,
    ],
)
def test_of_every_part_it_holds_that_it(rule: Callable[[Schema], bool], plural: str) -> None:
    assert violations(rule, plural) == []


@EVERY_CRD
def test_every_part_of_a_spec_is_bounded(plural: str) -> None:
    """What is not bounded makes CEL rules too expensive to be accepted, and objects too large to be stored."""
    assert violations(is_bounded, plural, ".spec") == []


@pytest.mark.parametrize(
    ("rule", "part"),
    [
        pytest.param(is_structural, {"$ref": "#/$defs/X"}, id="a reference"),
        pytest.param(is_structural, {"type": "number"}, id="a float"),
        pytest.param(is_structural, {"anyOf": [{"type": "string"}, {"type": "null"}]}, id="something or null"),
        pytest.param(
            is_merged_as_somebody_decided,
            {"properties": {"things": {"type": "array", "items": {"type": "object"}}}},
            id="a list about which nobody decided",
        ),
        pytest.param(is_bounded, {"type": "string"}, id="a text without end"),
        pytest.param(is_bounded, {"type": "integer", "format": "int32", "minimum": 0}, id="a number without end"),
        pytest.param(is_explained, {"properties": {"a": {"type": "string"}}}, id="a field that nobody explains"),
    ],
)
def test_the_rules_find_what_they_are_for(rule: Callable[[Schema], bool], part: Schema) -> None:
    assert not rule(part)


class TestGPTService:
    @pytest.fixture
    def version(self) -> Schema:
        (version,) = CRDS["gptservices"]["spec"]["versions"]
        found: Schema = version
        return found

    def test_names(self) -> None:
        spec = CRDS["gptservices"]["spec"]
        assert (spec["group"], spec["scope"]) == ("ai.example.com", "Namespaced")
        assert spec["names"]["shortNames"] == ["gpt"]
        assert spec["names"]["categories"] == ["ai"]

    def test_it_scales_and_reports_apart_from_its_spec(self, version: Schema) -> None:
        assert version["subresources"] == {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        }

    def test_replicas_have_a_default_without_which_scale_fails(self) -> None:
        spec = root("gptservices")["properties"]["spec"]
        defaults = {name: part["default"] for name, part in spec["properties"].items() if "default" in part}
        assert defaults == {"replicas": 1, "startupTimeoutSeconds": 1800, "drainTimeoutSeconds": 60}

    def test_columns(self, version: Schema) -> None:
        columns = {column["name"]: column for column in version["additionalPrinterColumns"]}
        assert list(columns) == ["Model", "Ready", "Replicas", "Phase", "Age", "Endpoint", "Reason"]
        assert {name for name, column in columns.items() if column.get("priority")} == {"Endpoint", "Reason"}

    def test_columns_point_to_fields_that_exist(self, version: Schema) -> None:
        status = root("gptservices")["properties"]["status"]["properties"]
        for column in version["additionalPrinterColumns"]:
            if column["jsonPath"].startswith(".status."):
                assert column["jsonPath"].split(".")[2].partition("[")[0] in status

    def test_conditions_are_merged_by_type(self) -> None:
        conditions = root("gptservices")["properties"]["status"]["properties"]["conditions"]
        assert conditions["x-kubernetes-list-type"] == "map"
        assert conditions["x-kubernetes-list-map-keys"] == ["type"]
        assert set(conditions["items"]["required"]) == {"type", "status", "reason", "message", "lastTransitionTime"}

    def test_the_spec_is_required_and_the_status_is_not(self) -> None:
        assert root("gptservices")["required"] == ["spec"]


class TestGPTModel:
    def test_it_is_cluster_scoped_and_has_no_status(self) -> None:
        spec = CRDS["gptmodels"]["spec"]
        assert spec["scope"] == "Cluster"
        assert "subresources" not in spec["versions"][0]

    def test_its_spec_never_changes(self) -> None:
        rules = root("gptmodels")["properties"]["spec"]["x-kubernetes-validations"]
        assert rules[0]["rule"] == "self == oldSelf"


class TestStructural:
    """The rewriting of pydantic's schemas, where the models of today do not reach."""

    def test_a_reference_takes_the_description_of_its_place(self) -> None:
        definitions: dict[str, Schema] = {"T": {"type": "object", "title": "T", "description": "of the type"}}
        rewritten = crd.structural({"$ref": "#/$defs/T", "description": "of the field"}, definitions)
        assert rewritten == {"type": "object", "description": "of the field"}

    def test_something_or_null_is_something(self) -> None:
        schema = {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "null"}], "default": None, "title": "X"}
        assert crd.structural(schema, {}) == {"type": "string", "maxLength": 3}

    def test_a_constant_is_an_enumeration_of_one(self) -> None:
        assert crd.structural({"const": "VLLM", "type": "string"}, {}) == {"type": "string", "enum": ["VLLM"]}

    def test_a_text_or_a_number_keeps_the_bounds_of_both(self) -> None:
        schema: Schema = {
            "anyOf": [{"type": "string", "maxLength": 5, "pattern": "^x"}, {"type": "integer", "minimum": 0}]
        }
        assert crd.structural(schema, {}) == {
            "x-kubernetes-int-or-string": True,
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "maxLength": 5,
            "pattern": "^x",
            "minimum": 0,
        }

    def test_another_union_is_refused(self) -> None:
        with pytest.raises(ValueError, match="cannot express"):
            crd.structural({"anyOf": [{"type": "string"}, {"type": "object"}]}, {})
