"""How many services are in which state, and how long they take to get there: metrics without a label per service."""

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from . import metrics
from .api import conditions
from .api.body import Body, entries, first, section
from .extract import Key

_State = tuple[str, str, str]
"""Type, status and reason of a condition."""

_NO_OUTAGE = frozenset(
    reason.name
    for reason in (
        conditions.STOPPED,
        conditions.ROLLING_OUT,
        conditions.PODS_STARTING,
        conditions.MODEL_LOADING,
    )
)
"""What Ready says of a service that nobody misses, or that comes by itself however long its model loads."""


@dataclass(slots=True)
class Census:
    """What is counted of each service."""

    _states: dict[Key, frozenset[_State]] = field(default_factory=dict[Key, frozenset[_State]])
    _down: set[Key] = field(default_factory=set[Key])
    _edits: dict[Key, tuple[int, datetime.datetime]] = field(default_factory=dict[Key, tuple[int, datetime.datetime]])
    """The generation that a service is on its way to, and when that was first seen."""

    def see(self, service: Body, now: datetime.datetime) -> None:
        """Take note of an edit of the spec, from which the time until the service is Ready counts."""
        metadata = service["metadata"]
        key, generation = (metadata["namespace"], metadata["name"]), int(metadata.get("generation", 0))
        is_new = section(service, "status").get("observedGeneration") != generation
        if is_new and self._edits.get(key, (None, now))[0] != generation:
            self._edits[key] = generation, now

    def count(self, key: Key, status: Mapping[str, Any]) -> None:
        """Count what a service's conditions say now, in the place of what they said."""
        states = frozenset((one["type"], one["status"], one["reason"]) for one in entries(status, "conditions"))
        before = self._states.get(key, frozenset())
        for state in before - states:
            metrics.CONDITIONS.labels(*state).dec()
        for state in states - before:
            metrics.CONDITIONS.labels(*state).inc()
        self._states[key] = states
        (self._down.add if _is_down(status) else self._down.discard)(key)
        metrics.DOWN.set(len(self._down))

    def told(self, service: Body, status: Mapping[str, Any], now: datetime.datetime) -> None:
        """Take the times of what has ended with a status that was just written.

        Args:
            service: the service, with the status that it had before.
            status: the one that it has now.
            now: the wall clock.
        """
        before = _condition(section(service, "status"), conditions.PROGRESSING)
        after = _condition(status, conditions.PROGRESSING)
        ended = before.get("status") == "True" and after.get("status") == "False"
        if ended and after.get("reason") != conditions.STOPPED.name:
            metrics.ROLLOUT_SECONDS.observe((now - _time(before["lastTransitionTime"])).total_seconds())
        key = service["metadata"]["namespace"], service["metadata"]["name"]
        if _condition(status, conditions.READY).get("status") == "True" and key in self._edits:
            generation, at = self._edits[key]
            if status.get("observedGeneration") == generation:
                metrics.READY_SECONDS.observe((now - at).total_seconds())
                del self._edits[key]

    def forget(self, key: Key) -> None:
        """Drop what is counted of a service that is gone."""
        self.count(key, {})
        del self._states[key]
        self._edits.pop(key, None)


def _is_down(status: Mapping[str, Any]) -> bool:
    """Return whether clients miss the service. One that has never served has none yet, however it fails."""
    available, ready = _condition(status, conditions.AVAILABLE), _condition(status, conditions.READY)
    has_served = bool(status.get("stableRevision"))
    return has_served and available.get("status") == "False" and ready.get("reason") not in _NO_OUTAGE


def _condition(status: Mapping[str, Any], kind: str) -> dict[str, Any]:
    return first(entries(status, "conditions"), type=kind)


def _time(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text)
