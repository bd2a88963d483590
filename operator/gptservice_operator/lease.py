"""Who leads, as a Lease says it: pure rules on what is written there.

A holder is trusted for the Lease's duration from the moment at which *we* saw it renewed. What another machine's clock
says is never compared with ours.
"""

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .api import kinds
from .api.body import section

NAME = "gptservice-operator"


@dataclass(frozen=True, slots=True)
class Record:
    """What a Lease says."""

    holder: str
    """Identity of who leads; empty once it was given back."""
    seconds: float
    """For how long after a renewal nobody else may take it."""
    version: str
    """resourceVersion: a write is meant for the Lease as it is at this one."""
    acquired: str
    transitions: int


@dataclass(frozen=True, slots=True)
class Sight:
    """A record, and the monotonic time at which it was first seen like this. None: there is no Lease."""

    record: Record | None
    at: float


def read(body: Mapping[str, Any] | None) -> Record | None:
    """Return what a Lease object says; what is missing in it counts as given back."""
    if body is None:
        return None
    spec = section(body, "spec")
    return Record(
        holder=str(spec.get("holderIdentity") or ""),
        seconds=float(spec.get("leaseDurationSeconds") or 0),
        version=str(body["metadata"]["resourceVersion"]),
        acquired=str(spec.get("acquireTime") or ""),
        transitions=int(spec.get("leaseTransitions") or 0),
    )


def seen(before: Sight | None, record: Record | None, now: float) -> Sight:
    """Return the sight of a record: any change of it, such as a renewal, begins its time anew."""
    return before if before is not None and before.record == record else Sight(record, now)


def seconds_until_free(sight: Sight, identity: str, now: float) -> float:
    """Return for how long the Lease must be left alone; 0 if it may be taken: it is ours, nobody's, or has run out."""
    record = sight.record
    if record is None or record.holder in ("", identity):
        return 0.0
    return max(0.0, sight.at + record.seconds - now)


def manifest(
    namespace: str, identity: str, seconds: int, before: Record | None, now: datetime.datetime
) -> dict[str, Any]:
    """Return the Lease as ``identity`` takes or renews it.

    Args:
        namespace: the operator's.
        identity: who takes it.
        seconds: the Lease's duration.
        before: what it says now; None if there is none.
        now: the wall clock, for people who read the Lease.
    """
    at = now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    renewed = before if before is not None and before.holder == identity else None
    metadata = {"name": NAME, "namespace": namespace}
    return {
        "apiVersion": kinds.LEASE.api_version,
        "kind": kinds.LEASE.name,
        "metadata": metadata if before is None else {**metadata, "resourceVersion": before.version},
        "spec": {
            "holderIdentity": identity,
            "leaseDurationSeconds": seconds,
            "acquireTime": renewed.acquired or at if renewed is not None else at,
            "renewTime": at,
            "leaseTransitions": 0 if before is None else before.transitions + (renewed is None),
        },
    }


def given_back(namespace: str, before: Record, now: datetime.datetime) -> dict[str, Any]:
    """Return the Lease as its holder leaves it, so that the next one need not wait."""
    freed = manifest(namespace, before.holder, 1, before, now)
    return {**freed, "spec": {**freed["spec"], "holderIdentity": ""}}
