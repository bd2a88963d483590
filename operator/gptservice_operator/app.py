"""The parts of the operator, who feeds whom, and the passes' tasks."""

import asyncio
import datetime
import logging
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from . import extract, health, leader, metrics
from .access import Access
from .api import kinds
from .api.body import section
from .cluster import Cluster
from .config import Config
from .debug import DebugPages
from .discovery import Discovery
from .extract import Entry, Key
from .journal import Journal
from .listing import Listing
from .passes import build_queue
from .queue import Queue
from .reconcile import Reconciler
from .scope import Collection, Scope
from .skew import Skew
from .store import Store

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class App:
    """The parts of a running operator."""

    config: Config
    store: Store
    queue: Queue
    listing: Listing
    access: Access
    cluster: Cluster
    skew: Skew
    discovery: Discovery
    debug: DebugPages
    election: leader.Election | None = None
    """None where there is but one replica."""
    filled: bool = False
    working: bool = False
    """Whether this replica runs passes: its store is filled, and it leads."""
    asked: dict[Collection, float] = field(default_factory=dict[Collection, float])
    """When each watch was last asked for, in monotonic time."""

    def changed(self, kind: kinds.Kind, entry: Entry) -> None:
        """Wake the services that an object's change concerns."""
        if not self.working:
            return
        urgent = kind is kinds.GPT_SERVICE
        concerned = self.store.users_of(entry.key[2]) if kind is kinds.GPT_MODEL else [entry.owner]
        for key in concerned:
            if key is not None:
                self.queue.wake(key, urgent=urgent and self._is_edited(key))

    def _is_edited(self, key: Key) -> bool:
        """Whether the spec is newer than the last report on it; our own status writes are not edits."""
        service = self.store.service(key)
        if service is None:
            return False
        observed = section(service, "status").get("observedGeneration")
        return bool(observed != service["metadata"].get("generation"))

    def on_event(self, kind: kinds.Kind, event: Mapping[str, Any]) -> None:
        """Take one event of a watch into the store. No API call; it cannot fail for a well-formed event."""
        entry = extract.entry(kind, event["object"])
        before = self.store.get(entry.key)
        news = self.store.remove(entry) if event["type"] == "DELETED" else self.store.put(entry)
        if news:
            self.changed(kind, entry)
            if before is not None and before.owner != entry.owner:
                self.changed(kind, before)

    def wake_all(self, namespace: str | None = None) -> None:
        """Have every service looked at, or those in one namespace."""
        if self.working:
            for key in self.store.services(namespace):
                self.queue.wake(key)

    def on_listed(self, one: Collection) -> None:
        """Have a kind read after its watch began; an optional one may have come to the cluster just now."""
        self.listing.request_one(one)
        has_begun = not self.access.is_refused(one)  # Else kopf asks in vain, every few seconds.
        if has_begun and one.kind is kinds.GPT_SERVICE:
            # A watch begins anew after an outage.
            self.queue.try_again()
        if has_begun and one.kind in kinds.OPTIONAL:
            self.discovery.request()

    def on_asked(self, one: Collection) -> None:
        """Take note that a watch lives."""
        self.asked[one] = time.monotonic()

    def on_opened(self, namespace: str) -> None:
        """Look at the services of a namespace that may be read again; its watches have their time to begin."""
        self.asked |= dict.fromkeys([one for one in self.asked if one.namespace == namespace], time.monotonic())
        self.wake_all(namespace)

    async def run(self, started: float) -> None:
        """Fill the store, wait for the Lease, then run passes and resyncs until cancelled.

        Raises:
            leader.LostError: another replica leads now.
        """
        self.asked = dict.fromkeys(self.access.scope.collections(), started)
        async with asyncio.TaskGroup() as group:
            await self._ask_what_is_served()
            group.create_task(self.listing.run())
            group.create_task(self.discovery.run(self.cluster, self.wake_all))
            for kind in kinds.OPTIONAL:
                # No watch will ask for a kind that is not there.
                self.listing.request(kind)
            await self.listing.filled()
            self._report_filled(time.monotonic() - started)
            group.create_task(self._resync())
            if self.election is not None:
                await self.election.win()
                group.create_task(self.election.hold())
            self.working = True
            metrics.LEADER.set(1)
            self.wake_all()
            group.create_task(self.queue.run())

    def _report_filled(self, seconds: float) -> None:
        self.filled = True
        metrics.STORE_FILLED.set(seconds)
        logger.info("store filled: %d services, %.2f s after the start", len(self.store.services()), seconds)

    async def _ask_what_is_served(self) -> None:
        await self.skew.refresh(self.cluster)
        await self.discovery.refresh(self.cluster)

    async def _resync(self) -> None:
        while True:
            await asyncio.sleep(self.config.resync_seconds * random.uniform(0.9, 1.1))  # noqa: S311  # jitter
            await self._ask_what_is_served()
            for kind in self.access.scope.watched:
                self.listing.request(kind)
            self.wake_all()

    def problems(self) -> list[str]:
        """Return why the process has to be started again."""
        now = time.monotonic()
        refused = self.access.refused()
        signs = health.Signs(
            now=now,
            # An optional kind is watched where the API server has it; to be started again grants no right.
            asked={
                one.path: at
                for one, at in self.asked.items()
                if self.discovery.has(one.kind) and one.namespace not in refused
            },
            overdue=self.queue.overdue(),
            since_progress=now - self.queue.last_progress,
            longest_pass=self.queue.longest_pass(),
            behind=self.listing.behind(),
        )
        return health.problems(signs)

    def measure(self) -> None:
        """Set the metrics that say how it is at the moment."""
        metrics.QUEUE_LENGTH.set(self.queue.length())
        metrics.QUEUE_AGE.set(self.queue.overdue())

    def not_ready(self) -> str:
        """Return why the process is not ready; one that waits for the Lease is, to take over at once."""
        return self.access.missing() or ("" if self.filled else "the first lists of all kinds")


def build_app(config: Config, cluster: Cluster, election: leader.Election | None = None) -> App:
    """Put the parts together."""
    store, skew, discovery, journal = Store(), Skew(), Discovery(), Journal()
    reconciler = Reconciler(
        store, cluster, config, now=lambda: datetime.datetime.now(datetime.UTC), skew=skew, discovery=discovery
    )
    app: App
    access = Access(Scope(config.namespaces, config.catalogue), lambda namespace: app.on_opened(namespace))
    queue = build_queue(config, reconciler, store, journal, access.may_look)
    listing = Listing(store, cluster, lambda kind, entry: app.changed(kind, entry), access)
    debug = DebugPages(store, queue, journal, reconciler.contests, access)
    app = App(config, store, queue, listing, access, cluster, skew, discovery, debug, election)
    return app
