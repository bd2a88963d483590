"""Who asked the API server for what, and when: read from an audit log that keeps every request.

Times are the API server's own, so that neither a proxy nor a client's clock is in a figure.
"""

import datetime
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
API_SERVER = "system:apiserver"
_ACCOUNT = "system:serviceaccount:"
Place = tuple[str, str]
"""Namespace and name of an object."""


@dataclass(frozen=True)
class Request:
    """One request, answered; of a watch, that it has begun."""

    id: str
    user: str
    agent: str
    verb: str
    resource: str
    """Plural, with the subresource: `deployments`, `gptservices/status`. Empty for what is no resource."""
    place: Place
    code: int
    received: float
    """Seconds since the epoch."""
    answered: float

    @property
    def is_write(self) -> bool:
        """Whether it changed something, or might have."""
        return self.verb in WRITES and self.code < 300

    @property
    def is_lease(self) -> bool:
        return self.resource == "leases"


def account(namespace: str, name: str) -> str:
    """The user name of a ServiceAccount."""
    return f"{_ACCOUNT}{namespace}:{name}"


def parse(line: bytes) -> Request:
    """One event of the log."""
    event: dict[str, Any] = json.loads(line)
    target: dict[str, Any] = event.get("objectRef") or {}
    resource, subresource = target.get("resource", ""), target.get("subresource")
    return Request(
        id=event["auditID"],
        user=event.get("user", {}).get("username", ""),
        agent=event.get("userAgent", ""),
        verb=event["verb"],
        resource=f"{resource}/{subresource}" if subresource else resource,
        place=(target.get("namespace", ""), target.get("name", "")),
        code=event.get("responseStatus", {}).get("code", 0),
        received=_seconds(event["requestReceivedTimestamp"]),
        answered=_seconds(event["stageTimestamp"]),
    )


def _seconds(text: str) -> float:
    return datetime.datetime.fromisoformat(text).timestamp()


@dataclass
class Reader:
    """Follows a log: each call takes in what has been written since the one before."""

    path: Path
    requests: list[Request] = field(default_factory=list[Request])
    _offset: int = 0
    _ids: set[str] = field(default_factory=set[str])

    def read(self) -> Sequence[Request]:
        """All requests so far. A watch is told of twice, and counts once, when it began."""
        with self.path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        whole = data.rfind(b"\n") + 1
        self._offset += whole
        for request in map(parse, data[:whole].splitlines()):
            if request.id not in self._ids:
                self._ids.add(request.id)
                self.requests.append(request)
        return self.requests


@dataclass(frozen=True)
class Counts:
    """What one user's requests came to, those about its Lease apart."""

    requests: int
    leases: int
    children: int
    """Writes of objects, neither status nor Events."""
    status: int
    events: int
    by_kind: Counter[str]
    """All requests but those about the Lease, by resource, subresources with it."""

    @property
    def writes(self) -> int:
        return self.children + self.status + self.events


def count(requests: Iterable[Request], user: str) -> Counts:
    """Count one user's requests."""
    own = [one for one in requests if one.user == user]
    others = [one for one in own if not one.is_lease]
    writes = [one for one in others if one.is_write]
    status = sum(one.resource.endswith("/status") for one in writes)
    events = sum(one.resource == "events" for one in writes)
    return Counts(
        requests=len(others),
        leases=len(own) - len(others),
        children=len(writes) - status - events,
        status=status,
        events=events,
        by_kind=Counter(one.resource.split("/")[0] for one in others),
    )


def last_write(requests: Iterable[Request], user: str) -> float | None:
    """When the user's last write of a child or a status was answered; None if there was none."""
    times = [
        one.answered
        for one in requests
        if one.user == user and one.is_write and one.resource not in ("leases", "events")
    ]
    return max(times, default=None)


def delays(requests: Iterable[Request], *, editor: str, user: str, resource: str, suffix: str) -> list[float]:
    """Seconds from each edit of a GPTService to the user's next write of the child that is called after it.

    Args:
        requests: in any order.
        editor: the agent of the edits.
        user: whose writes are looked for.
        resource: the child's, in the plural.
        suffix: what the child's name has behind the service's.

    Raises:
        ValueError: an edit was followed by no write.
    """
    writes: dict[Place, list[float]] = {}
    edits: list[Request] = []
    for one in sorted(requests, key=lambda request: request.answered):
        if one.user == user and one.is_write and one.resource == resource:
            writes.setdefault(one.place, []).append(one.answered)
        elif one.agent.startswith(editor) and one.is_write and one.resource == "gptservices":
            edits.append(one)
    return [_until(edit, writes.get((edit.place[0], edit.place[1] + suffix), [])) for edit in edits]


def _until(edit: Request, writes: Sequence[float]) -> float:
    # The edit is seen by a watch before its own answer is sent.
    after = next((time for time in writes if time >= edit.received), None)
    if after is None:
        raise ValueError(f"nothing was written after the edit of {'/'.join(edit.place)}")
    return after - edit.received
