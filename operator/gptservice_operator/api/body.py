"""Typed steps into objects as the API server sends them, where any part may be absent."""

from collections.abc import Mapping
from typing import Any, cast

Body = Mapping[str, Any]
"""An object, or a part of one, as parsed from JSON."""


def section(body: Body, *path: str) -> dict[str, Any]:
    """Return the mapping at ``path``; an empty one if it, or anything on the way to it, is absent or null."""
    value: Any = body
    for part in path:
        value = cast("Body", value).get(part) or {}
    return cast("dict[str, Any]", value)


def entries(body: Body, *path: str) -> list[dict[str, Any]]:
    """Return the list of mappings at ``path``; an empty one if it, or anything on the way to it, is absent."""
    *parents, last = path
    return cast("list[dict[str, Any]]", section(body, *parents).get(last) or [])


def first(items: list[dict[str, Any]], **wanted: str) -> dict[str, Any]:
    """Return the first item whose fields have these values; an empty mapping if there is none."""
    for item in items:
        if all(item.get(key) == value for key, value in wanted.items()):
            return item
    return {}
