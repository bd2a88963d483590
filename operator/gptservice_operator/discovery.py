"""Kinds that come with other operators: which of them the API server has at the moment."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from . import errors
from .api import kinds
from .cluster import Cluster

logger = logging.getLogger(__name__)

SETTLE_SECONDS = 3.0
"""Within this time of a change of a CRD the API server's discovery has followed."""


@dataclass(slots=True)
class Discovery:
    """The optional kinds that are served. A child of one that is not is neither rendered nor missed."""

    served: frozenset[kinds.Kind] = frozenset()
    _scanned: bool = False
    _wanted: asyncio.Event = field(default_factory=asyncio.Event)

    def has(self, kind: kinds.Kind) -> bool:
        """Return whether the API server has a kind, as far as is known."""
        return kind not in kinds.OPTIONAL or kind in self.served

    async def refresh(self, cluster: Cluster) -> bool:
        """Ask the API server; return whether the answer is another than before. No answer is no news."""
        served = frozenset([kind for kind in kinds.OPTIONAL if await self._is_served(cluster, kind)])
        before, self.served = self.served, served
        for kind in kinds.OPTIONAL:
            if (kind in served) is not (kind in before):
                logger.info("%s (%s) %s", kind.name, kind.api_version, "is served" if kind in served else "is gone")
        return served != before

    async def _is_served(self, cluster: Cluster, kind: kinds.Kind) -> bool:
        try:
            return await cluster.serves(kind)
        except errors.OperatorError as error:
            logger.warning("whether there is a %s could not be read: %s", kind.name, error)
            return kind in self.served

    def request(self) -> None:
        """Have it asked for soon: a watch of an optional kind has begun, so that there is news."""
        self._wanted.set()

    async def on_scan(self) -> None:
        """Have kopf look at what the API server has when that has followed the CRDs, and look as well.

        kopf looks at the moment at which a CRD changes, and not again. At the start nothing has changed.
        """
        if self._scanned:
            await asyncio.sleep(SETTLE_SECONDS)
            self.request()
        self._scanned = True

    async def run(self, cluster: Cluster, changed: Callable[[], None]) -> None:
        """Ask when that is requested, until cancelled; call ``changed`` for another answer."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            if await self.refresh(cluster):
                changed()
