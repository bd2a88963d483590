"""What can be done to a child, and in which order."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Manifest = dict[str, Any]
ChildKey = tuple[str, str]
"""Kind and name."""


@dataclass(frozen=True, slots=True)
class Apply:
    """Apply a manifest by server-side apply. ``uid`` is that of the live child; None if none exists."""

    manifest: Manifest
    uid: str | None
    repair: bool = field(default=False, compare=False)
    """Whether this very manifest was applied before, and somebody else has changed the child since."""


@dataclass(frozen=True, slots=True)
class Foreign:
    """An object of that kind and name is not ours: nothing is sent. ``whose`` says what is known of its owner."""

    kind: str
    name: str
    whose: str


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete the object of that UID, and see it gone before anything that follows in its chain."""

    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class SetReplicas:
    """Apply a Deployment's ``spec.replicas``, and that alone, as the manager that hands it over to an autoscaler.

    ``count`` None takes back what that manager has applied.
    """

    name: str
    count: int | None


Action = Apply | Foreign | Delete | SetReplicas
Chain = tuple[Action, ...]
"""Actions in their order; where one fails, those behind it in the chain are left out."""


def child_key(manifest: Mapping[str, Any]) -> ChildKey:
    """Return the kind and name of a manifest."""
    return manifest["kind"], manifest["metadata"]["name"]


def repaired(chain: Chain) -> ChildKey | None:
    """Return the child that a chain does nothing but set right again; None if it does anything else."""
    match chain:
        case (Apply(manifest, _, True),) | (Apply(manifest, _, True), SetReplicas(_, None)):
            return child_key(manifest)
        case _:
            return None
