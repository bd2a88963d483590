"""What has to be written so that the cluster has the desired children: a pure comparison."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import contained, names
from .api.body import section
from .store import Observed

Manifest = dict[str, Any]
ChildKey = tuple[str, str]
"""Kind and name."""


@dataclass(frozen=True, slots=True)
class Apply:
    """Apply a manifest by server-side apply. ``uid`` is that of the live child; None if none exists."""

    manifest: Manifest
    uid: str | None


@dataclass(frozen=True, slots=True)
class Foreign:
    """An object of that kind and name is not ours: nothing is sent."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete the object of that UID, and only that."""

    kind: str
    name: str
    uid: str


Action = Apply | Foreign | Delete


def concerns(action: Action, kind: str) -> bool:
    """Return whether an action writes an object of a kind."""
    return isinstance(action, Apply) and action.manifest["kind"] == kind


def child_key(manifest: Mapping[str, Any]) -> ChildKey:
    """Return the kind and name of a manifest."""
    return manifest["kind"], manifest["metadata"]["name"]


def with_hash(manifest: Manifest) -> Manifest:
    """Return the manifest with the annotation that records what was applied."""
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()[:32]
    metadata = manifest["metadata"]
    annotations = {**metadata.get("annotations", {}), names.APPLIED_HASH: digest}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


def plan(desired: Sequence[Manifest], observed: Mapping[ChildKey, Observed], owner_uid: str) -> list[Action]:
    """Return what to write, in the order of ``desired``; nothing where the live child already is as wanted.

    Args:
        desired: every child's manifest.
        observed: the live children by kind and name; each desired child that exists must be among them.
        owner_uid: UID of the GPTService.
    """
    actions: list[Action] = []
    for manifest in map(with_hash, desired):
        key = child_key(manifest)
        live = observed.get(key)
        if live is None:
            actions.append(Apply(manifest, None))
        elif live.controller_uid != owner_uid:
            actions.append(Foreign(*key))
        elif not _is_as_wanted(manifest, live.body):
            actions.append(Apply(manifest, live.uid))
    return actions


def _is_as_wanted(manifest: Manifest, live: Mapping[str, Any]) -> bool:
    """Whether an apply would change nothing: the same manifest was applied last, and all of it is still there.

    The hash finds what has left the manifest since; containment finds what others have changed.
    """
    return _recorded(live) == _recorded(manifest) and contained.contains(live, manifest)


def was_applied(manifest: Manifest, live: Mapping[str, Any]) -> bool:
    """Return whether exactly this manifest was applied last to a live object, whatever others did to it since."""
    return _recorded(live) == _recorded(with_hash(manifest))


def _recorded(body: Mapping[str, Any]) -> str | None:
    return section(body, "metadata", "annotations").get(names.APPLIED_HASH)
