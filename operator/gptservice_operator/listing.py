"""Reads kinds into the store by paged lists: at the start, at each resync, and when a watch had to begin anew."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from . import errors, extract, metrics, names
from .access import Access
from .api import kinds
from .cluster import Cluster, Page
from .extract import Entry
from .scope import Collection
from .store import Store

logger = logging.getLogger(__name__)

RETRY_SECONDS = 2.0
AGAIN_SECONDS = 15.0
"""Between the tries of a list that one namespace's rights do not allow, or that is too old: somebody, or time, has to
mend that first."""
WARN_AFTER_SECONDS = 10.0
AT_A_TIME = 2
"""Lists that are being read: a page is in memory whole, and several times its size while it is parsed."""


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
    access: Access = field(default_factory=Access)
    _turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_A_TIME))
    _wanted: dict[Collection, asyncio.Event] = field(init=False)
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a list was read or refused."""
    _behind: dict[Collection, float] = field(default_factory=dict[Collection, float])
    """Since when the lists of a collection have been older than what was told before."""

    def __post_init__(self) -> None:
        """Set up the requests, of which there are none yet."""
        self._wanted = {one: asyncio.Event() for one in self.access.scope.collections()}

    def request(self, kind: kinds.Kind) -> None:
        """Have a kind read soon wherever it is watched; requests that come before the reading begins are one."""
        for one in self.access.scope.of(kind):
            self.request_one(one)

    def request_one(self, one: Collection) -> None:
        """Have a kind read soon in one place; one that is not watched at all is not read either."""
        if one in self._wanted:
            self._wanted[one].set()

    def allow_watch(self, one: Collection) -> None:
        """Read what may be watched again."""
        if self.access.note_watched(one):
            self.request_one(one)

    def refuse_watch(self, one: Collection) -> None:
        """Leave a namespace out of which something may not be watched. Where all are watched at once, a probe tells."""
        if one.namespace is not None:
            self.access.note_unwatched(one)
            self._forget(one)

    async def filled(self) -> None:
        """Return when enough was read for passes to begin; say what is missing while that takes long."""
        while missing := self.access.missing():
            self._news.clear()
            try:
                async with asyncio.timeout(WARN_AFTER_SECONDS):
                    await self._news.wait()
            except TimeoutError:
                hint = "; are the CRDs installed (kubectl apply -f crds/)?" if _is_of_ours(missing) else ""
                logger.warning("still waiting for %s%s", missing, hint)

    async def run(self) -> None:
        """Read kinds when asked, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for one in self._wanted:
                group.create_task(self._serve(one))

    async def _serve(self, one: Collection) -> None:
        while True:
            await self._asked_for(one)
            self._wanted[one].clear()
            await self._read_until_done(one)
            self._news.set()

    async def _asked_for(self, one: Collection) -> None:
        """Wait until a list is asked for; one that was refused, or is too old, is tried again by itself."""
        is_retried = self.access.is_retried(one) or one in self._behind
        try:
            async with asyncio.timeout(AGAIN_SECONDS if is_retried else None):
                await self._wanted[one].wait()
        except TimeoutError:
            return

    async def _read_until_done(self, one: Collection) -> None:
        """Read until that succeeds, or is refused in one namespace, which must not keep the others waiting."""
        while True:
            try:
                async with self._turns:
                    await self._read(one)
                self.access.note_read(one)
                return
            except errors.OperatorError as error:
                if one.namespace is not None and isinstance(error, errors.Forbidden | errors.Absent):
                    self.access.note_refused(one, str(error))
                    self._forget(one)
                    return
                logger.warning("listing %s: %s; trying again in %g s", one.kind.name, error, RETRY_SECONDS)
            await asyncio.sleep(RETRY_SECONDS)

    def _forget(self, one: Collection) -> None:
        """Drop what is stored of a collection that may not be read: it would grow old, and never leave."""
        for entry in self.store.sweep(one.kind, (), self.store.mark(), one.namespace):
            self.changed(one.kind, entry)
        metrics.STORE_OBJECTS.labels(one.kind.name).set(self.store.count(one.kind))

    async def _pages(self, one: Collection, selector: str | None) -> AsyncIterator[Page]:
        """Yield the pages; none where the cluster lacks an optional kind, of which there is no object then."""
        try:
            async for page in self.cluster.list(one.kind, selector, one.namespace):
                yield page
        except errors.Absent:
            if one.kind not in kinds.OPTIONAL:
                raise

    async def _read(self, one: Collection) -> None:
        kind = one.kind
        selector = None if kind in kinds.OWN else names.WATCH_SELECTOR
        since, known = self.store.mark(), self.store.newest(kind, one.namespace)
        listed: list[extract.EntryKey] = []
        as_of = known
        async for page in self._pages(one, selector):
            as_of = page.as_of
            for body in page.items:
                entry = extract.entry(kind, body)
                listed.append(entry.key)
                if self.store.put(entry, as_of):
                    self.changed(kind, entry)
            # A page is parsed in one go; the watches and the passes get their turn in between.
            await asyncio.sleep(0)
        for entry in self.store.sweep(kind, listed, since, one.namespace):
            logger.info("%s %s/%s: gone without a word from its watch", *entry.key)
            self.changed(kind, entry)
        metrics.STORE_OBJECTS.labels(kind.name).set(self.store.count(kind))
        self._note_version(one, as_of, known)

    def _note_version(self, one: Collection, as_of: int, known: int) -> None:
        """Take note of a list that is older than what was known before it began, which a list never is by itself."""
        if as_of < 0 or as_of >= known:
            self._behind.pop(one, None)
        elif one not in self._behind:
            self._behind[one] = asyncio.get_running_loop().time()
            logger.warning(
                "the list of %s is of version %d, and %d was told before; listing it again", one, as_of, known
            )

    def behind(self) -> float:
        """Return for how many seconds lists have been older than what was told before; 0 if none is."""
        now = asyncio.get_running_loop().time()
        return max((now - since for since in self._behind.values()), default=0.0)


def _is_of_ours(missing: str) -> bool:
    return any(kind.plural in missing for kind in kinds.OWN)
