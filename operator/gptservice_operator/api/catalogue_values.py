"""Schema of the catalogue chart's values, generated from GPTModel's.

``python -m gptservice_operator.api.catalogue_values FILE`` writes it.
"""

import json
import sys
from pathlib import Path

from . import crd
from .crd import Schema

_NAME = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
_KEY = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"


def strict(schema: Schema) -> Schema:
    """Turn a structural schema into one that refuses unknown keys; what only the API server can check is left to it."""
    kept = {key: value for key, value in schema.items() if not key.startswith("x-kubernetes-") and key != "format"}
    if "properties" in kept:
        kept["properties"] = {name: strict(sub) for name, sub in kept["properties"].items()}
        kept["additionalProperties"] = False
    if "items" in kept:
        kept["items"] = strict(kept["items"])
    return kept


def schema() -> Schema:
    """Return the schema of `values.yaml`."""
    (version,) = crd.gptmodel_crd()["spec"]["versions"]
    spec = strict(version["schema"]["openAPIV3Schema"]["properties"]["spec"])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "additionalProperties": False,
        "required": ["models"],
        "properties": {
            "global": {"type": "object"},
            "models": {
                "type": "object",
                "propertyNames": {"maxLength": 253, "pattern": _NAME},
                "additionalProperties": spec,
            },
            "labels": {
                "type": "object",
                "propertyNames": {
                    "pattern": _KEY,
                    "not": {"pattern": r"^(app\.kubernetes\.io/(name|instance|version|managed-by)|helm\.sh/.*)$"},
                },
                "additionalProperties": {"type": "string"},
            },
            "annotations": {
                "type": "object",
                "propertyNames": {"pattern": _KEY, "not": {"pattern": r"^meta\.helm\.sh/"}},
                "additionalProperties": {"type": "string"},
            },
        },
    }


def write(file: Path) -> None:
    """Write the schema."""
    file.write_text(json.dumps(schema(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
