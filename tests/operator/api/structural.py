"""Validates by a structural schema as the API server does, CEL rules excepted."""

import re
from collections.abc import Iterator
from typing import Any

Schema = dict[str, Any]

_TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict, "array": list, "string": str, "integer": int, "boolean": bool, "number": (int, float),
}  # fmt: skip


def problems(schema: Schema, value: Any, path: str = "") -> Iterator[str]:
    """Yield the paths of what the schema refuses."""
    if not _has_type(schema, value):
        yield path
    elif isinstance(value, dict):
        yield from _of_map(schema, value, path)  # pyright: ignore[reportUnknownArgumentType]
    elif isinstance(value, list):
        yield from _of_list(schema, value, path)  # pyright: ignore[reportUnknownArgumentType]
    elif not _is_in_bounds(schema, value):
        yield path


def _has_type(schema: Schema, value: Any) -> bool:
    if schema.get("x-kubernetes-int-or-string"):
        return isinstance(value, int | str) and not isinstance(value, bool)
    expected = _TYPES[schema["type"]]
    return isinstance(value, expected) and (not isinstance(value, bool) or schema["type"] == "boolean")


def _is_in_bounds(schema: Schema, value: Any) -> bool:
    if "enum" in schema and value not in schema["enum"]:
        return False
    if isinstance(value, str):
        fits = schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value))
        return fits and ("pattern" not in schema or re.search(schema["pattern"], value) is not None)
    return isinstance(value, bool) or schema.get("minimum", value) <= value <= schema.get("maximum", value)


def _of_map(schema: Schema, value: dict[str, Any], path: str) -> Iterator[str]:
    if len(value) > schema.get("maxProperties", len(value)):
        yield path
    known, others = schema.get("properties", {}), schema.get("additionalProperties")
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{path}.{name}".lstrip(".")
    for name, inner in value.items():
        sub = known.get(name, others)
        if sub is not None:
            yield from problems(sub, inner, f"{path}.{name}".lstrip("."))


def _of_list(schema: Schema, value: list[Any], path: str) -> Iterator[str]:
    if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
        yield path
    keys = schema.get("x-kubernetes-list-map-keys")
    if schema.get("x-kubernetes-list-type") in ("set", "map"):
        identities = [tuple(item.get(key) for key in keys) if keys else item for item in value]
        if len(set(identities)) != len(identities):
            yield path
    for index, item in enumerate(value):
        yield from problems(schema["items"], item, f"{path}[{index}]")
