"""Who owns which field of a child: what somebody else set inside of ours, so that our manifest is refused with it.

Server-side apply removes what its own manager had set, never what others have. Two members of a union (``exec`` set by
hand beside our ``httpGet``) are refused by the API server for ever. Written over to our manager, the foreign member
leaves with the next apply.
"""

import copy
from collections.abc import Mapping
from typing import Any, cast

from . import names
from .api.body import entries

Fields = dict[str, Any]
"""A set of fields in the form of ``fieldsV1``: ``f:name`` for a field, ``k:{…}`` for an item of a list."""

_KEPT = frozenset({"f:metadata", "f:replicas", "f:annotations", "f:labels"})
"""What others may set inside of a manifest of ours, whatever else is wrong with it."""


def taken_over(metadata: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Return the managedFields by which our manager owns what others set inside of its structures; None if nothing.

    Items that others added to a list (a sidecar, an environment variable) stay theirs.
    """
    managed = [copy.deepcopy(dict(entry)) for entry in entries(metadata, "managedFields")]
    ours = next((entry for entry in managed if _is_ours(entry)), None)
    if ours is None:
        return None
    own: Fields = ours["fieldsV1"]
    moved = False
    for entry in managed:
        if entry is not ours and not entry.get("subresource"):
            moved |= _move(own.get("f:spec"), entry.get("fieldsV1", {}).get("f:spec"))
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
