"""Reads ``manifests.yaml``, which says how; the golden cases are among the accepted ones.

Both levels run it, since the CRD of a cluster may be older than the operator: unit (models and schema) and api (a real
API server).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

from tests.operator.golden_cases import CASES

Body = dict[str, Any]
By = Literal["schema", "cel", "strict"]
"""Who refuses it on the API server: the structural schema, a CEL rule, or strict field validation only."""

FILE = Path(__file__).with_name("manifests.yaml")
_NAMES = {"GPTService": "chat", "GPTModel": "gpt-4-turbo"}


@dataclass(frozen=True)
class Row:
    """A manifest and the verdict on it."""

    id: str
    body: Body
    refused: str | None = None
    """The field that the refusal must name; None if it is accepted."""
    by: By = "schema"
    server: str | None = None
    """The field that the API server names, where it is another."""


def manifest(spec: Any = None, *, kind: str = "GPTService", name: str | None = None) -> Body:
    body: Body = {"apiVersion": "ai.example.com/v1", "kind": kind, "metadata": {"name": name or _NAMES[kind]}}
    return body if spec is None else {**body, "spec": spec}


def _expanded(value: Any) -> Any:
    match value:
        case {"$repeat": [text, times]}:
            return text * times
        case {"$list": [item, times]}:
            return [_expanded(item)] * times
        case {"$map": [times, item]}:
            return {f"k{number}": item for number in range(times)}
        case dict():
            return {key: _expanded(inner) for key, inner in value.items()}  # pyright: ignore
        case list():
            return [_expanded(item) for item in value]  # pyright: ignore
        case _:
            return value


def _row(entry: Body) -> Row:
    values = _expanded(entry)
    spec = {"model": "gpt-4-turbo", **values["with"]} if "with" in values else values.get("spec")
    body = manifest(spec, kind=values.get("kind", "GPTService"), name=values.get("name"))
    return Row(values["id"], body, values.get("refused"), values.get("by", "schema"), values.get("server"))


ROWS: tuple[Row, ...] = (
    *map(_row, yaml.safe_load(FILE.read_text(encoding="utf-8"))),
    *(Row(f"golden case {name}", manifest(case.spec, name=case.name)) for name, case in CASES.items()),
)
GOOD = {row.id: row for row in ROWS if row.refused is None}
BAD = {row.id: row for row in ROWS if row.refused is not None}


def names_field(path: str, field: str) -> bool:
    """Return whether a path is the field's or that of something in it."""
    return path == field or path.startswith((f"{field}.", f"{field}["))
