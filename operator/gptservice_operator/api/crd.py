"""CustomResourceDefinitions, generated from the models: ``python -m gptservice_operator.api.crd DIRECTORY``."""

import sys
from pathlib import Path
from typing import Any

import yaml

from . import kinds, v1
from .base import ApiModel

Schema = dict[str, Any]

_KEPT = {
    "description", "type", "format", "enum", "pattern", "default", "minimum", "maximum", "minLength", "maxLength",
    "minItems", "maxItems", "minProperties", "maxProperties", "required", "x-kubernetes-validations",
    "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-preserve-unknown-fields",
}  # fmt: skip


def structural(schema: Schema, definitions: dict[str, Schema]) -> Schema:
    """Turn a pydantic JSON schema into a structural schema: no references, no nulls, no titles."""
    if "$ref" in schema:
        target = definitions[schema["$ref"].rpartition("/")[2]]
        return structural({**target, **{k: v for k, v in schema.items() if k != "$ref"}}, definitions)
    if "anyOf" in schema:
        return _union(schema, definitions)
    result = {key: value for key, value in schema.items() if key in _KEPT and value is not None}
    if "const" in schema:
        result["enum"] = [schema["const"]]
    if result.get("type") == "integer":
        result.setdefault("format", "int32")
    if "properties" in schema:
        result["properties"] = {name: structural(sub, definitions) for name, sub in schema["properties"].items()}
    if isinstance(schema.get("additionalProperties"), dict):
        result["additionalProperties"] = structural(schema["additionalProperties"], definitions)
    if "items" in schema:
        result["items"] = structural(schema["items"], definitions)
    return result


def _union(schema: Schema, definitions: dict[str, Schema]) -> Schema:
    """``X or null`` is an optional X; ``string or integer`` is Kubernetes' int-or-string."""
    options = [option for option in schema["anyOf"] if option.get("type") != "null"]
    outer = {key: value for key, value in schema.items() if key != "anyOf"}
    if len(options) == 1:
        return structural({**options[0], **outer}, definitions)
    by_type = {option.get("type"): option for option in options}
    if set(by_type) != {"string", "integer"}:
        raise ValueError(f"a structural schema cannot express the union {schema}")
    text = structural({**by_type["string"], **outer}, definitions)
    text.pop("type")
    bounds = {key: by_type["integer"][key] for key in ("minimum", "maximum") if key in by_type["integer"]}
    return {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}], **text, **bounds}


def _columns(*columns: tuple[str, str, str, int]) -> list[Schema]:
    return [
        {"name": name, "type": kind, "jsonPath": path, **({"priority": priority} if priority else {})}
        for name, kind, path, priority in columns
    ]


def _object_schema(model: type[ApiModel]) -> Schema:
    raw = model.model_json_schema(by_alias=True, mode="validation")
    schema = structural(raw, raw.get("$defs", {}))
    schema["properties"]["metadata"] = {"type": "object"}
    header: Schema = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
    schema["properties"] = {**header, **schema["properties"]}
    return schema


def _definition(kind: kinds.Kind, model: type[ApiModel], *, names: Schema, version: Schema) -> Schema:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{kinds.GROUP}"},
        "spec": {
            "group": kinds.GROUP,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": {
                "kind": kind.name,
                "listKind": f"{kind.name}List",
                "plural": kind.plural,
                "singular": kind.name.lower(),
                "categories": ["ai"],
                **names,
            },
            "versions": [
                {
                    "name": kinds.VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": _object_schema(model)},
                    **version,
                }
            ],
        },
    }


def gptservice_crd() -> Schema:
    """Return the CRD of GPTService."""
    ready = '.status.conditions[?(@.type=="Ready")]'
    version = {
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
        "additionalPrinterColumns": _columns(
            ("Model", "string", ".status.effective.servedModelNames[0]", 0),
            ("Ready", "string", f"{ready}.status", 0),
            ("Replicas", "integer", ".status.readyReplicas", 0),
            ("Phase", "string", ".status.phase", 0),
            ("Age", "date", ".metadata.creationTimestamp", 0),
            ("Endpoint", "string", ".status.endpoint", 1),
            ("Reason", "string", f"{ready}.reason", 1),
        ),
    }
    return _definition(kinds.GPT_SERVICE, v1.GPTService, names={"shortNames": ["gpt"]}, version=version)


def gptmodel_crd() -> Schema:
    """Return the CRD of GPTModel."""
    version = {
        "additionalPrinterColumns": _columns(
            ("Uri", "string", ".spec.uri", 0),
            ("Age", "date", ".metadata.creationTimestamp", 0),
        ),
    }
    return _definition(kinds.GPT_MODEL, v1.GPTModel, names={}, version=version)


def write(directory: Path) -> None:
    """Write one file per CRD into ``directory``."""
    directory.mkdir(parents=True, exist_ok=True)
    header = "# Generated by `make generate` from operator/gptservice_operator/api; do not edit.\n"
    for crd in (gptservice_crd(), gptmodel_crd()):
        text = str(yaml.safe_dump(crd, sort_keys=False, width=120, allow_unicode=True))  # pyright: ignore[reportUnknownMemberType]
        (directory / f"{crd['metadata']['name']}.yaml").write_text(header + text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1] if len(sys.argv) > 1 else "crds"))
