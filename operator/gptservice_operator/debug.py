"""What the debug page shows: the queue, the last passes, and of one service why it is as it is."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from .access import Access
from .api.body import entries, section
from .contests import Contests
from .extract import Key
from .journal import Journal
from .queue import Queue
from .store import Store

MOST_WAITING = 100


@dataclass(frozen=True, slots=True)
class DebugPages:
    """Reads what the process has in memory; nothing of a spec, where people put secrets."""

    store: Store
    queue: Queue
    journal: Journal
    contests: Contests
    access: Access

    def overview(self) -> dict[str, Any]:
        """Return the queue, those that wait longest first, the last passes, and which namespaces are left out."""
        waiting = sorted(self.queue.waiting().items(), key=lambda item: (item[1].running_for is None, item[1].due_in))
        return {
            "services": len(self.store.services()),
            "refused": self.access.refused(),
            "waiting": len(waiting),
            "queue": [{"object": "/".join(key), **asdict(one)} for key, one in waiting[:MOST_WAITING]],
            "passes": self.journal.recent(),
        }

    def one(self, key: Key) -> dict[str, Any] | None:
        """Return a service's place in the queue, its last passes, its conditions and its children; None if unknown."""
        snapshot = self.store.snapshot(key)
        if snapshot is None:
            return None
        place = self.queue.waiting().get(key)
        status = section(snapshot.service, "status")
        return {
            "object": "/".join(key),
            "generation": snapshot.service["metadata"].get("generation"),
            "observedGeneration": status.get("observedGeneration"),
            "queue": asdict(place) if place is not None else None,
            "passes": self.journal.of(key),
            "conditions": entries(status, "conditions"),
            "contested": list(self.contests.warnings(key)),
            "children": list(_objects((kind, name, child.body) for (kind, name), child in snapshot.children.items())),
            "pods": list(_objects(("Pod", pod["metadata"]["name"], pod) for pod in snapshot.pods)),
        }


def _objects(found: Iterator[tuple[str, str, Any]]) -> Iterator[dict[str, Any]]:
    for kind, name, body in found:
        metadata = section(body, "metadata")
        yield {"kind": kind, "name": name, **{part: metadata.get(part) for part in ("uid", "resourceVersion")}}
