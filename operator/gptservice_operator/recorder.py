"""Writes the story of a service as Events on it: one for each reason, which counts how often it was told.

So each reason stands at its last time, and `kubectl describe`, which sorts by time, tells the last rollout in order. An
Event is an aid: one that cannot be written is logged, and the status says all that is true now.
"""

import datetime
import hashlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from . import errors, names, story, wording
from .api import kinds
from .api.body import Body, first, section
from .cluster import Cluster
from .extract import Key
from .story import Line

logger = logging.getLogger(__name__)

BURST = 25
"""So many Events of one service may follow each other at once."""
SECONDS_PER_EVENT = 30.0
"""Beyond that, one in so many seconds."""
MAX_MESSAGE = 1024
"""Longest message that Kubernetes has in an Event, in characters."""


@dataclass(slots=True)
class _Told:
    """What is remembered of a service."""

    at: datetime.datetime
    left: float = BURST
    counts: dict[str, int] = field(default_factory=dict[str, int])
    """How often each Event was told, by its name; without those of an earlier process."""


@dataclass(slots=True)
class Recorder:
    """Remembers how often it has told what."""

    _told: dict[Key, _Told] = field(default_factory=dict[Key, _Told])

    def forget(self, key: Key) -> None:
        """Drop what is remembered of a service that is gone."""
        self._told.pop(key, None)

    async def record(self, cluster: Cluster, service: Body, status: Mapping[str, Any], now: datetime.datetime) -> None:
        """Tell what a status that was just written has changed. It never fails.

        Args:
            cluster: where to.
            service: the service, with the status that it had before.
            status: the one that it has now.
            now: the wall clock.
        """
        key = service["metadata"]["namespace"], service["metadata"]["name"]
        told = self._told.setdefault(key, _Told(now))
        told.left = min(BURST, told.left + max(0.0, (now - told.at).total_seconds()) / SECONDS_PER_EVENT)
        told.at = now
        try:
            for line in story.tell(section(service, "status"), status):
                if told.left < 1:
                    return
                told.left -= 1
                await _write(cluster, told.counts, event(service, line, now))
        except errors.Absent:
            return  # the namespace is being deleted, and the service with it
        except errors.OperatorError as error:
            logger.warning("%s/%s: an Event was not written: %s", *key, error)


async def _write(cluster: Cluster, counts: dict[str, int], wanted: dict[str, Any]) -> None:
    """Make an Event, or count it once more; Kubernetes forgets an Event after an hour without news."""
    namespace, name = wanted["metadata"]["namespace"], wanted["metadata"]["name"]
    if name not in counts and await cluster.create(wanted, kinds.EVENT):
        counts[name] = 1
        return
    if name not in counts:
        listed = await cluster.events(namespace, wanted["involvedObject"]["uid"])
        counts[name] = max(1, first([one for one in listed if one["metadata"]["name"] == name]).get("count") or 1)
    repeated = {field: wanted[field] for field in ("message", "type", "lastTimestamp")}
    try:
        await cluster.patch_event(namespace, name, {**repeated, "count": counts[name] + 1})
        counts[name] += 1
    except errors.Absent:
        await cluster.create(wanted, kinds.EVENT)
        counts[name] = 1


def event(service: Body, line: Line, now: datetime.datetime) -> dict[str, Any]:
    """Return the Event of a line. A reason's name is always the same, and puts those of one second in order."""
    metadata, at = service["metadata"], now.strftime("%Y-%m-%dT%H:%M:%SZ")
    involved = {field: metadata[field] for field in ("name", "namespace", "uid")}
    digest = hashlib.sha256(f"{metadata['uid']}/{line.reason}".encode()).hexdigest()[:16]
    return {
        "apiVersion": kinds.EVENT.api_version,
        "kind": kinds.EVENT.name,
        "metadata": {"name": f"{metadata['name']}.{line.place:02}{digest}", "namespace": metadata["namespace"]},
        "involvedObject": {"apiVersion": kinds.API_VERSION, "kind": kinds.GPT_SERVICE.name, **involved},
        "type": "Warning" if line.warning else "Normal",
        "reason": line.reason,
        "message": wording.bounded(line.message, MAX_MESSAGE),
        "count": 1,
        "firstTimestamp": at,
        "lastTimestamp": at,
        "source": {"component": names.MANAGER},
        "reportingComponent": names.MANAGER,
        "reportingInstance": "",
    }
