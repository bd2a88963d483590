"""The keyed queue: at most one pass at a time per service, bounded overall, with back-off per service."""

import asyncio
import heapq
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from .extract import Key

logger = logging.getLogger(__name__)

EDITS_AT_ONCE = 5
"""So many edits in a row are each looked at at once; beyond them one in each interval, so that a service that is edited
without end, and may fail each time, takes no more of the others' time than one that is not."""

SETTLE_SECONDS = 0.1
"""How long controllers have to answer to what a pass has made that tried again, instead of the interval: whoever waits
for it has waited long enough."""

Pass = Callable[[Key], Awaitable[float | None]]
"""One pass over a service. It returns seconds after which it wants to look again, or None; it raises to be retried."""


@dataclass(slots=True)
class _Item:
    due: float | None = None
    """Time of the next pass; None if none is wanted."""
    running: bool = False
    began: float = 0.0
    """When the running pass began."""
    urgent: bool = False
    """Whether the user edited the object since the last pass began."""
    forgotten: bool = False
    failures: int = 0
    not_before: float = 0.0
    """Earliest time of a pass that is not urgent: of the interval, or of the back-off."""
    short_from: float = 0.0
    """Earliest time of a pass after which events wait for SETTLE_SECONDS alone."""
    edits_paid: float = 0.0
    """When the urgent passes so far, one in each interval, would have come to their end."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A service in the queue; times in seconds."""

    due_in: float | None
    running_for: float | None
    failures: int
    """How often in a row its pass has failed."""


@dataclass(slots=True)
class Queue:
    """Wakes are merged: however many arrive before a pass begins, it is one pass; one during it is one more."""

    run_pass: Pass
    clock: Callable[[], float]
    """Monotonic time in seconds."""
    workers: int
    backoff_base: float
    backoff_max: float
    interval: float
    """Shortest time in seconds between the starts of two passes of one service, unless the second is urgent, or one
    of the two tries again what has failed: the back-off alone says when that is; what follows waits SETTLE_SECONDS."""
    retry_after: Callable[[Exception], float | None] = lambda _: None
    """Seconds that an error asks to wait at least."""
    last_progress: float = 0.0
    """When a pass last ended."""
    _items: dict[Key, _Item] = field(default_factory=dict[Key, _Item])
    _heap: list[tuple[float, Key]] = field(default_factory=list[tuple[float, Key]])
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _running: int = 0

    def wake(self, key: Key, *, urgent: bool = False, after: float = 0.0) -> None:
        """Ask for a pass.

        An urgent one (the user's own edit) waits for no back-off, and of EDITS_AT_ONCE in a row not for the interval.
        """
        item = self._items.setdefault(key, _Item())
        item.forgotten = False
        now = self.clock()
        due = now + after
        if urgent:
            item.failures, item.urgent = 0, True
            due = max(due, self._next_edit(item))
        else:
            due = max(due, item.not_before)
        if item.due is None or due < item.due:
            item.due = due
            if not item.running:
                self._schedule(due, key)

    def _next_edit(self, item: _Item) -> float:
        """Return the time from which another edit may be looked at."""
        return item.edits_paid - (EDITS_AT_ONCE - 1) * self.interval

    def try_again(self) -> None:
        """End all back-offs within ``backoff_base`` seconds: what has failed may succeed now."""
        now = self.clock()
        for key, item in self._items.items():
            if not item.failures or item.due is None:
                continue
            item.not_before = now + self.backoff_base * random.random()  # noqa: S311  # jitter
            if item.not_before < item.due:
                item.due = item.not_before
                if not item.running:
                    self._schedule(item.due, key)

    def length(self) -> int:
        """Return how many services wait for a pass."""
        return sum(1 for item in self._items.values() if item.due is not None)

    def overdue(self) -> float:
        """Return for how many seconds the most overdue pass has been waiting; 0 if none is."""
        now = self.clock()
        waits = [now - item.due for item in self._items.values() if item.due is not None and not item.running]
        return max([0.0, *waits])

    def longest_pass(self) -> float:
        """Return for how many seconds the oldest of the running passes has run; 0 if none runs."""
        now = self.clock()
        return max((now - item.began for item in self._items.values() if item.running), default=0.0)

    def waiting(self) -> dict[Key, Waiting]:
        """Return what waits or runs, by service."""
        now = self.clock()
        return {
            key: Waiting(
                due_in=round(item.due - now, 3) if item.due is not None else None,
                running_for=round(now - item.began, 3) if item.running else None,
                failures=item.failures,
            )
            for key, item in self._items.items()
            if item.due is not None or item.running
        }

    def _schedule(self, due: float, key: Key) -> None:
        heapq.heappush(self._heap, (due, key))
        self._changed.set()

    async def run(self) -> None:
        """Run passes until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                self._changed.clear()
                while self._running < self.workers and (key := self._next()) is not None:
                    self._start(group, key)
                await self._pause()

    def _start(self, group: asyncio.TaskGroup, key: Key) -> None:
        item = self._items[key]
        item.began = self.clock()
        if item.urgent:
            item.edits_paid = max(item.edits_paid, item.began) + self.interval
        item.not_before = item.began + self._pause_after(item)
        item.due, item.running, item.urgent = None, True, False
        self._running += 1
        group.create_task(self._work(key, item), name=f"pass {key[0]}/{key[1]}")

    def _pause_after(self, item: _Item) -> float:
        """Return how long events have to wait once a pass has begun; it is short once in each interval at most."""
        if not item.failures or item.began < item.short_from:
            return self.interval
        item.short_from = item.began + self.interval
        return min(SETTLE_SECONDS, self.interval)

    def _next(self) -> Key | None:
        """Take the next service that is due; entries of the heap that were overtaken are thrown away."""
        while self._heap and self._heap[0][0] <= self.clock():
            due, key = heapq.heappop(self._heap)
            item = self._items.get(key)
            if item is not None and item.due == due and not item.running:
                return key
        return None

    async def _pause(self) -> None:
        timeout = None
        if self._heap and self._running < self.workers:
            timeout = max(0.0, self._heap[0][0] - self.clock())
        try:
            async with asyncio.timeout(timeout):
                await self._changed.wait()
        except TimeoutError:
            return

    async def _work(self, key: Key, item: _Item) -> None:
        try:
            again = await self.run_pass(key)
        except Exception as error:
            self._failed(key, item, error)
        else:
            item.failures = 0
            if again is not None:
                self.wake(key, after=again)
        finally:
            self._finish(key, item)

    def _failed(self, key: Key, item: _Item, error: Exception) -> None:
        item.failures += 1
        ceiling = min(self.backoff_max, self.backoff_base * 2.0 ** min(item.failures - 1, 30))
        wait = max(ceiling * random.uniform(0.5, 1.0), self.retry_after(error) or 0.0)  # noqa: S311  # jitter
        item.not_before = max(self.clock() + wait, self._next_edit(item))
        if not item.urgent:
            item.due = None
        self.wake(key)
        logger.warning("%s/%s: %s; looking again in %.1f s", *key, error, wait)

    def _finish(self, key: Key, item: _Item) -> None:
        item.running = False
        self._running -= 1
        self.last_progress = self.clock()
        if item.due is not None:
            self._schedule(item.due, key)
        self._drop_if_forgotten(key, item)
        self._changed.set()

    def forget(self, key: Key) -> None:
        """Drop what is remembered of a service that is gone, when its pass has ended and no other is wanted."""
        if (item := self._items.get(key)) is not None:
            item.forgotten = True
            self._drop_if_forgotten(key, item)

    def _drop_if_forgotten(self, key: Key, item: _Item) -> None:
        if item.forgotten and item.due is None and not item.running:
            del self._items[key]
