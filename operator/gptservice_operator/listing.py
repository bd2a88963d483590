"""Fills the store by paged lists, at the start, at each resync, and after a watch had to begin anew."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from . import errors, extract, metrics, names
from .api import kinds
from .cluster import Cluster
from .extract import Entry
from .store import Store

logger = logging.getLogger(__name__)

RETRY_SECONDS = 2.0


@dataclass(slots=True)
class Listing:
    """Lists kinds into the store and wakes what that changes."""

    store: Store
    cluster: Cluster
    changed: Callable[[kinds.Kind, Entry], None]
    """Called for each entry that a list brought or took away."""
    _wanted: dict[kinds.Kind, asyncio.Event] = field(default_factory=dict[kinds.Kind, asyncio.Event])

    async def fill(self) -> None:
        """List every kind once; go on trying until each has been read."""
        async with asyncio.TaskGroup() as group:
            for kind in kinds.WATCHED:
                group.create_task(self._read_until_done(kind))
        for kind in kinds.WATCHED:
            metrics.STORE_OBJECTS.labels(kind.name).set(self.store.count(kind))

    def request(self, kind: kinds.Kind) -> None:
        """Have a kind listed again soon: its watch began anew, so that deletions may have been missed."""
        self._wanted.setdefault(kind, asyncio.Event()).set()

    async def serve_requests(self) -> None:
        """Read kinds again when asked, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for kind in kinds.WATCHED:
                group.create_task(self._serve(kind, self._wanted.setdefault(kind, asyncio.Event())))

    async def _serve(self, kind: kinds.Kind, wanted: asyncio.Event) -> None:
        while True:
            await wanted.wait()
            wanted.clear()
            await self._read_until_done(kind)

    async def _read_until_done(self, kind: kinds.Kind) -> None:
        while True:
            try:
                await self._read(kind)
                return
            except errors.Absent:
                logger.warning(
                    "%s: the cluster has no such kind; install the CRDs (kubectl apply -f crds/). Trying again in %g s",
                    kind.name,
                    RETRY_SECONDS,
                )
            except errors.OperatorError as error:
                logger.warning("listing %s: %s; trying again in %g s", kind.name, error, RETRY_SECONDS)
            await asyncio.sleep(RETRY_SECONDS)

    async def _read(self, kind: kinds.Kind) -> None:
        selector = None if kind in kinds.OWN else names.WATCH_SELECTOR
        since = self.store.mark()
        listed: list[extract.EntryKey] = []
        async for page in self.cluster.list(kind, selector):
            for body in page:
                entry = extract.entry(kind, body)
                listed.append(entry.key)
                if self.store.put(entry):
                    self.changed(kind, entry)
            # A page is parsed in one go; the watches and the passes get their turn in between.
            await asyncio.sleep(0)
        for entry in self.store.sweep(kind, listed, since):
            logger.info("%s %s/%s: gone without a word from its watch", *entry.key)
            self.changed(kind, entry)
        metrics.STORE_OBJECTS.labels(kind.name).set(self.store.count(kind))
