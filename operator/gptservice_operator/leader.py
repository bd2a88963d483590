"""Leader election on the Lease API: one replica of the operator writes, the others only watch.

Of our own, for the client's cannot make a Lease, and goes on leading after a lost connection. The deadline after which
nothing is written counts from before a renewal was sent, on the monotonic clock, and is well before the Lease runs out.
"""

import asyncio
import datetime
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from . import errors, lease, metrics
from .api import kinds
from .cluster import Cluster
from .lease import Sight

logger = logging.getLogger(__name__)

DEADLINE, PAUSE, REQUEST = 2 / 3, 2 / 15, 1 / 4
"""Parts of the Lease's duration: how long a renewal is good for, the time between two, and the longest request."""
LOOK_SECONDS = 1.0
"""How often a replica that does not lead looks at the Lease, and one that failed to renew it tries again, at most."""
SAY_SECONDS = 30.0
"""How often a Lease that cannot be read or taken is logged."""


class LostError(errors.OperatorError):
    """The Lease is somebody else's, or could not be renewed in time: the process has to end."""


@dataclass(slots=True)
class Election:
    """One replica's part in the election.

    A leader stops writing when it could not renew a Lease of ``seconds`` for two thirds of that. Until then there is
    time for two requests that take as long as they may, and the pause between.
    """

    cluster: Cluster
    """A connection for the Lease alone, so that passes cannot delay it, with a time-out of :func:`request_seconds`."""
    namespace: str
    identity: str
    seconds: int
    clock: Callable[[], float]
    """Monotonic time in seconds."""
    now: Callable[[], datetime.datetime]
    _deadline: float = float("-inf")
    _sight: Sight | None = None
    _must_look: bool = True
    """Whether the Lease may have changed since it was seen: somebody was faster, or a reply of ours was lost."""
    _said: float = field(default=float("-inf"))

    def leads(self) -> bool:
        """Return whether this replica may begin a write at this moment."""
        return self.clock() < self._deadline

    async def win(self) -> None:
        """Return once this replica leads."""
        while not await self._try():  # noqa: ASYNC110 - the event is in another process
            await asyncio.sleep(self._until_next_look())
        logger.info("leading as %s", self.identity)

    def _until_next_look(self) -> float:
        """Sleep until the Lease runs out, but look often: whoever gives it back need not be waited for."""
        free = lease.seconds_until_free(self._sight, self.identity, self.clock()) if self._sight is not None else 0.0
        return min(LOOK_SECONDS, self.seconds * PAUSE, max(free, 0.05))

    async def hold(self) -> None:
        """Renew the Lease for as long as that succeeds.

        Raises:
            LostError: it is lost.
        """
        while self.leads():
            renewed = await self._try()
            if not renewed and (holder := self._other_holder()) is not None:
                self._deadline = float("-inf")
                raise LostError(f"the lease was taken by {holder}")
            await asyncio.sleep(self.seconds * PAUSE if renewed else min(LOOK_SECONDS, self.seconds * PAUSE / 2))
        raise LostError(f"the lease could not be renewed for {self.seconds * DEADLINE:g} s; another replica takes over")

    def _other_holder(self) -> str | None:
        record = self._sight.record if self._sight is not None else None
        return record.holder if record is not None and record.holder not in ("", self.identity) else None

    async def give_back(self) -> None:
        """Free the Lease if this replica leads. Call it when nothing more is going to be written."""
        led, self._deadline = self.leads(), float("-inf")
        metrics.LEADER.set(0)
        if not led or self._sight is None or self._sight.record is None:
            return
        try:
            freed = lease.given_back(self.namespace, self._sight.record, self.now())
            await self.cluster.replace(freed, kinds.LEASE)
        except errors.OperatorError as error:
            logger.warning("the lease was not given back, and runs out by itself: %s", error)

    async def _try(self) -> bool:
        """Take or renew the Lease, if it may be taken; return whether it was."""
        try:
            if self._must_look or not self.leads():
                await self._look()
            return await self._take()
        except errors.Conflict:
            self._must_look = True
        except errors.OperatorError as error:
            self._must_look = True
            if self.clock() - self._said >= SAY_SECONDS:
                logger.warning("the lease %s/%s: %s", self.namespace, lease.NAME, error)
                self._said = self.clock()
        return False

    async def _look(self) -> None:
        body = await self.cluster.get(kinds.LEASE, self.namespace, lease.NAME)
        self._sight, self._must_look = lease.seen(self._sight, lease.read(body), self.clock()), False

    async def _take(self) -> bool:
        sight, began = self._sight, self.clock()
        if sight is None or lease.seconds_until_free(sight, self.identity, began) > 0:
            return False
        wanted = lease.manifest(self.namespace, self.identity, self.seconds, sight.record, self.now())
        if sight.record is not None:
            self._sight = Sight(lease.read(await self.cluster.replace(wanted, kinds.LEASE)), self.clock())
        elif not await self.cluster.create(wanted, kinds.LEASE):
            self._must_look = True
            return False
        else:
            await self._look()
        self._deadline = began + self.seconds * DEADLINE
        return True


def request_seconds(seconds: int) -> float:
    """Return the time-out in seconds for requests about a Lease of that duration."""
    return seconds * REQUEST
