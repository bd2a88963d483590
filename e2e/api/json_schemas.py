"""The API server's own schemas of everything it serves, as the JSON schemas that kubeconform reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from e2e.kube import Kube, Object

LOCATION = "{{ .ResourceKind }}{{ .KindSuffix }}.json"
"""Where kubeconform looks for a kind, below the folder."""
_REFERENCE = "#/components/schemas/"


def write(kube: Kube, folder: Path) -> list[str]:
    """Write one file per kind and return their names; an unknown field is refused, as `kubectl` does it."""
    found: list[str] = []
    for path in kube.request("GET", "/openapi/v3")["paths"]:
        if path.startswith(("api/", "apis/")):
            components = kube.request("GET", f"/openapi/v3/{path}").get("components", {}).get("schemas", {})
            definitions = {name: _strict(schema) for name, schema in components.items()}
            for name, schema in components.items():
                for kind in schema.get("x-kubernetes-group-version-kind", []):
                    found.append(_name(kind))
                    body = {"$ref": f"#/definitions/{name}", "definitions": definitions}
                    (folder / found[-1]).write_text(json.dumps(body))
    return found


def _name(kind: Object) -> str:
    group = kind["group"].partition(".")[0]
    return "-".join(filter(None, (kind["kind"].lower(), group, kind["version"]))) + ".json"


def _strict(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    strict = {key: _strict(value) for key, value in cast(Object, schema).items()}
    if isinstance(reference := strict.get("$ref"), str):
        strict["$ref"] = reference.replace(_REFERENCE, "#/definitions/")
    closed = isinstance(strict.get("properties"), dict) and strict.get("type") == "object"
    if closed and not strict.get("x-kubernetes-preserve-unknown-fields"):
        strict.setdefault("additionalProperties", False)
    return strict
