"""Reads kinds into the store by paged lists: at the start, at each resync, and when a watch had to begin anew."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from . import errors, extract, metrics, names
from .api import kinds
from .cluster import Body, Cluster
from .extract import Entry
from .scope import Scope
from .store import Store

logger = logging.getLogger(__name__)

RETRY_SECONDS = 2.0
WARN_AFTER_SECONDS = 10.0
AT_A_TIME = 2
"""Kinds that are being read: a page is in memory whole, and several times its size while it is parsed."""


@dataclass(slots=True)
class Listing:
    """Reads kinds into the store by paged lists whenever that is asked for.

    It is asked for each time that a watch begins, the first time included: what a watch missed before it began is in
    a list that is read after that.
    """

    store: Store
    cluster: Cluster
    changed: Callable[[kinds.Kind, Entry], None]
    """Called for each entry that a list brought or took away."""
    scope: Scope = field(default_factory=Scope)
    _turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_A_TIME))
    _wanted: dict[kinds.Kind, asyncio.Event] = field(
        default_factory=lambda: {kind: asyncio.Event() for kind in kinds.WATCHED}
    )
    _read_once: dict[kinds.Kind, asyncio.Event] = field(
        default_factory=lambda: {kind: asyncio.Event() for kind in kinds.WATCHED}
    )

    def request(self, kind: kinds.Kind) -> None:
        """Have a kind read soon; requests that come before the reading begins are one."""
        self._wanted[kind].set()

    async def filled(self) -> None:
        """Return when every kind has been read once; say what is missing while that takes long."""
        for kind in self.scope.watched:
            while not self._read_once[kind].is_set():
                try:
                    async with asyncio.timeout(WARN_AFTER_SECONDS):
                        await self._read_once[kind].wait()
                except TimeoutError:
                    hint = "; are the CRDs installed (kubectl apply -f crds/)?" if kind in kinds.OWN else ""
                    logger.warning("still waiting for the first list of %s%s", kind.plural, hint)

    async def run(self) -> None:
        """Read kinds when asked, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for kind in self.scope.watched:
                group.create_task(self._serve(kind))

    async def _serve(self, kind: kinds.Kind) -> None:
        while True:
            await self._wanted[kind].wait()
            self._wanted[kind].clear()
            await self._read_until_done(kind)
            self._read_once[kind].set()

    async def _read_until_done(self, kind: kinds.Kind) -> None:
        while True:
            try:
                async with self._turns:
                    await self._read(kind)
                return
            except errors.OperatorError as error:
                logger.warning("listing %s: %s; trying again in %g s", kind.name, error, RETRY_SECONDS)
            await asyncio.sleep(RETRY_SECONDS)

    async def _pages(self, kind: kinds.Kind, selector: str | None) -> AsyncIterator[list[Body]]:
        """Yield a kind's pages; none where the cluster lacks an optional kind, of which there is no object then."""
        try:
            for place in self.scope.places(kind):
                async for page in self.cluster.list(kind, selector, place):
                    yield page
        except errors.Absent:
            if kind not in kinds.OPTIONAL:
                raise

    async def _read(self, kind: kinds.Kind) -> None:
        selector = None if kind in kinds.OWN else names.WATCH_SELECTOR
        since = self.store.mark()
        listed: list[extract.EntryKey] = []
        async for page in self._pages(kind, selector):
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
