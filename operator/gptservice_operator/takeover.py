"""Who owns which field of a child: what somebody else set inside of ours, so that our manifest is refused with it.

Server-side apply removes what its own manager had set, never what others have. Two members of a union (``exec`` set by
hand beside our ``httpGet``) are refused by the API server for ever. Written over to our manager, the foreign member
leaves with the next apply. So do defaults: what the API server filled in beside another manager's value of ours
(``rollingUpdate`` beside ``type: RollingUpdate``) belongs to nobody, and stays when our value comes back.
"""

import copy
import json
from collections.abc import Iterator, Mapping
from typing import Any, cast

from . import names
from .api import kinds
from .api.body import Body, entries, section

Fields = dict[str, Any]
"""A set of fields in the form of ``fieldsV1``: ``f:name`` for a field, ``k:{…}`` for an item of a list."""

_KEPT = frozenset({"f:metadata", "f:replicas", "f:annotations", "f:labels"})
"""What others may set inside of a manifest of ours, whatever else is wrong with it."""


def taken_over(live: Body) -> list[dict[str, Any]] | None:
    """Return the managedFields by which our manager owns what others set inside of its structures; None if nothing.

    Items that others added to a list (a sidecar, an environment variable) stay theirs.
    """
    managed = [copy.deepcopy(dict(entry)) for entry in entries(live, "metadata", "managedFields")]
    ours = next((entry for entry in managed if _is_ours(entry)), None)
    if ours is None:
        return None
    own: Fields = ours["fieldsV1"]
    others = [entry for entry in managed if entry is not ours and not entry.get("subresource")]
    moved = False
    for entry in others:
        moved |= _move(own.get("f:spec"), entry.get("fieldsV1", {}).get("f:spec"))
    # Of a Deployment all that belongs to nobody is a default, which comes back; elsewhere it can be an allocated value.
    if live.get("kind") == kinds.DEPLOYMENT.name:
        left = [entry.get("fieldsV1", {}).get("f:spec") for entry in others]
        moved |= _claim(own.get("f:spec"), section(live, "spec"), left)
    return managed if moved else None


def _is_ours(entry: Mapping[str, Any]) -> bool:
    return bool(
        entry.get("manager") == names.MANAGER and entry.get("operation") == "Apply" and not entry.get("subresource")
    )


def _move(own: Any, theirs: Any) -> bool:
    """Move fields that only the other manager has, below structures that both have."""
    if not isinstance(own, dict) or not isinstance(theirs, dict):
        return False
    mine, others = cast("Fields", own), cast("Fields", theirs)
    moved = False
    for key in list(others):
        if key in _KEPT or key == ".":
            continue
        if key in mine:
            moved |= _move(mine[key], others[key])
        elif key.startswith("f:"):
            mine[key] = others.pop(key)
            moved = True
    return moved


def _claim(own: Any, live: Any, others: list[Any]) -> bool:
    """Take fields that nobody has, below structures of ours."""
    if not isinstance(own, dict) or not own:
        return False
    mine = cast("Fields", own)
    theirs = [cast("Fields", fields) for fields in others if isinstance(fields, dict)]
    claimed = False
    for key, value in _children(mine, live):
        if key in _KEPT:
            continue
        if key in mine:
            claimed |= _claim(mine[key], value, [fields.get(key) for fields in theirs])
        elif not any(key in fields for fields in theirs):
            mine[key] = {}
            claimed = True
    return claimed


def _children(own: Fields, live: Any) -> Iterator[tuple[str, Any]]:
    """Yield a live object's fields, or those items of a live list that are ours, by the key of their set of fields."""
    if isinstance(live, dict):
        yield from ((f"f:{name}", value) for name, value in cast("Body", live).items())
    elif isinstance(live, list):
        items = [cast("Body", item) for item in live if isinstance(item, dict)]  # pyright: ignore[reportUnknownVariableType]
        for key in [key for key in own if key.startswith("k:")]:
            wanted: dict[str, Any] = json.loads(key.removeprefix("k:"))
            yield from ((key, item) for item in items if wanted.items() <= item.items())
