"""What must be true of every run, whatever went wrong in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from e2e.api.state import Observer
from e2e.kube import KINDS, Object
from e2e.proxy import Entry

Named = tuple[str, str]
"""Plural and name."""


@dataclass(frozen=True)
class State:
    """What there is of a service: its children, who sets the number of replicas, and its keys."""

    children: Mapping[str, Object]
    scaled_by: frozenset[str]
    keys: Mapping[str, Any]


def observe(observer: Observer) -> State:
    deployment = observer.kube.find("Deployment", "gpt", observer.namespace)
    managed = (deployment or {"metadata": {"managedFields": []}})["metadata"]["managedFields"]
    scaled_by = {each["manager"] for each in managed if "f:replicas" in each["fieldsV1"].get("f:spec", {})}
    secrets = observer.kube.all("Secret", observer.namespace)
    keys = {secret["metadata"]["name"]: secret["data"] for secret in secrets}
    return State(observer.children(), frozenset(scaled_by), keys)


def new_children(before: State, after: State, *, all_new: bool) -> set[Named]:
    """The children that were not there before."""
    keys = set(after.children) - (set() if all_new else set(before.children))
    return {(KINDS[kind].plural, name) for kind, _, name in (key.partition("/") for key in keys)}


def deleted(entries: Sequence[Entry]) -> set[Named]:
    """What the operator had deleted."""
    return {(e.target.resource, e.target.name) for e in entries if e.target.verb == "delete" and e.forwarded}


def complaints(
    *, entries: Sequence[Entry], new: set[Named], may_delete: set[Named], generation: int | None
) -> list[str]:
    """What the trace of one run says against the operator."""
    found = [f"deleted {what}, which nobody asked for" for what in sorted(deleted(entries) - may_delete)]
    found += ready_too_early(entries, new, generation)
    made = [e for e in entries if (e.target.verb, e.target.resource) == ("create", "secrets") and e.code == 201]
    return found + (["made a key twice"] if len(made) > 1 else [])


def ready_too_early(entries: Sequence[Entry], new: set[Named], generation: int | None) -> list[str]:
    """Ready was said of a generation although a child of it had not been made yet."""
    missing, found = set(new), list[str]()
    for entry in entries:
        if entry.forwarded and entry.target.verb in ("apply", "create"):
            missing.discard((entry.target.resource, entry.target.name))
        if missing and _says_ready(entry, generation):
            found.append(f"said Ready before there was {sorted(missing)}")
    return found


def _says_ready(entry: Entry, generation: int | None) -> bool:
    conditions = (entry.sent or {}).get("status", {}).get("conditions", [])
    return any(
        c["type"] == "Ready" and c["status"] == "True" and c.get("observedGeneration") == generation for c in conditions
    )
