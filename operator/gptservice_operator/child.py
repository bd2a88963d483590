"""One child: whether it is as its manifest says, and what to do if it is not."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from . import contained, names
from .actions import Apply, Chain, Foreign, Manifest, child_key
from .api import kinds
from .api.body import entries, section
from .store import Observed


def with_hash(manifest: Manifest) -> Manifest:
    """Return the manifest with the annotation that records what was applied."""
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()[:32]
    metadata = manifest["metadata"]
    annotations = {**metadata.get("annotations", {}), names.APPLIED_HASH: digest}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


def chain(manifest: Manifest, live: Observed | None, owner_uid: str) -> Chain:
    """Return what to do about a child that depends on no other; nothing if it is as wanted.

    Args:
        manifest: with its hash.
        live: the child, or whatever else has its name; None if there is no such object.
        owner_uid: UID of the GPTService.
    """
    if live is None:
        return (Apply(manifest, None),)
    if live.controller_uid != owner_uid:
        return (foreign(manifest, live),)
    return () if is_as_wanted(manifest, live.body) else (apply(manifest, live),)


def apply(manifest: Manifest, live: Observed) -> Apply:
    """Return the apply of a manifest to a live child, which is a repair if that very manifest was applied before."""
    return Apply(manifest, live.uid, repair=_recorded(live.body) == _recorded(manifest))


def foreign(manifest: Manifest, live: Observed) -> Foreign:
    """Return what is known of the owner of a live object that has a child's name."""
    metadata = live.body["metadata"]
    labels = section(metadata, "labels")
    wanted: dict[str, str] = manifest["metadata"]["labels"]
    nobody: dict[str, Any] = {}
    owner = next((one for one in entries(metadata, "ownerReferences") if one.get("controller")), nobody)
    if "deletionTimestamp" in metadata:
        held = ", ".join(metadata.get("finalizers", [])) or "none"
        whose = f"is being deleted (finalizers: {held}); the service goes on once it is gone"
    elif owner.get("kind") == kinds.GPT_SERVICE.name and owner.get("name") == service_name(manifest):
        whose = "belongs to an earlier GPTService, and is deleted with it by Kubernetes"
    elif owner:
        whose = f"belongs to {owner.get('kind')} {owner.get('name')}"
    elif wanted.items() <= labels.items():
        whose = "has our labels and no owner: it was disowned, or left over from a GPTService deleted without children"
    else:
        whose = "belongs to somebody else"
    return Foreign(*child_key(manifest), whose)


def service_name(manifest: Manifest) -> str:
    """Return the name of the GPTService that a child belongs to."""
    return str(manifest["metadata"]["labels"][names.SERVICE_LABEL])


def is_as_wanted(manifest: Manifest, live: Mapping[str, Any]) -> bool:
    """Return whether an apply would change nothing: the same manifest was applied last, and all of it is still there.

    The hash finds what has left the manifest since; containment finds what others have changed.
    """
    return _recorded(live) == _recorded(manifest) and contained.contains(live, manifest)


def was_applied(manifest: Manifest, live: Mapping[str, Any]) -> bool:
    """Return whether exactly this manifest was applied last to a live object, whatever others did to it since."""
    return _recorded(live) == _recorded(with_hash(manifest))


def _recorded(body: Mapping[str, Any]) -> str | None:
    return section(body, "metadata", "annotations").get(names.APPLIED_HASH)
