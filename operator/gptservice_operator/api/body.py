"""Typed steps into objects as the API server sends them, where any part may be absent."""

from collections.abc import Mapping
from typing import Any, cast

Body = Mapping[str, Any]
"""An object, or a part of one, as parsed from JSON."""


def section(body: Body, *path: str) -> dict[str, Any]:
    """Return the mapping at ``path``; an empty one if there is none, or something else stands there or on the way."""
    value: Any = body
    for part in path:
        value = cast("Body", value).get(part)
        if not isinstance(value, dict):
            return {}
    return cast("dict[str, Any]", value)


def entries(body: Body, *path: str) -> list[dict[str, Any]]:
    """Return the mappings in the list at ``path``; none if there is no list."""
    *parents, last = path
    value: Any = section(body, *parents).get(last)
    listed: list[Any] = value if isinstance(value, list) else []  # pyright: ignore[reportUnknownVariableType]
    return [item for item in listed if isinstance(item, dict)]


def first(items: list[dict[str, Any]], **wanted: str) -> dict[str, Any]:
    """Return the first item whose fields have these values; an empty mapping if there is none."""
    for item in items:
        if all(item.get(key) == value for key, value in wanted.items()):
            return item
    return {}
