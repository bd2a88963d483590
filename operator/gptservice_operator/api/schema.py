"""The generated schemas, and what other objects and schemas have or lack in comparison."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, cast

from . import crd

Schema = Mapping[str, Any]


@cache
def schemas() -> dict[str, Schema]:
    """Return the schema of each kind of ours."""
    return {
        definition["spec"]["names"]["kind"]: definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        for definition in (crd.gptservice_crd(), crd.gptmodel_crd())
    }


def spec_schemas() -> dict[str, Schema]:
    """Return the schema of ``spec`` by kind."""
    return {kind: schema["properties"]["spec"] for kind, schema in schemas().items()}


def unknown(schema: Schema, value: Any, path: str) -> Iterator[str]:
    """Yield the paths of fields that the schema does not have."""
    if isinstance(value, dict) and "properties" in schema:
        for name, inner in cast("dict[str, Any]", value).items():
            known = schema["properties"].get(name)
            if known is None:
                yield f"{path}.{name}"
            else:
                yield from unknown(known, inner, f"{path}.{name}")
    elif isinstance(value, list) and "items" in schema:
        items: list[Any] = value  # pyright: ignore[reportUnknownVariableType]
        for index, item in enumerate(items):
            yield from unknown(schema["items"], item, f"{path}[{index}]")


def lacking(ours: Schema, live: Schema, path: str = "") -> Iterator[str]:
    """Yield the paths of fields that we have and the live schema lacks, the topmost of each branch."""
    if live.get("x-kubernetes-preserve-unknown-fields"):
        return
    for name, inner in ours.get("properties", {}).items():
        below = f"{path}.{name}".lstrip(".")
        known = live.get("properties", {}).get(name)
        if known is None:
            yield below
        else:
            yield from lacking(inner, known, below)
    if "items" in ours:
        yield from lacking(ours["items"], live.get("items", {}), f"{path}[]")
