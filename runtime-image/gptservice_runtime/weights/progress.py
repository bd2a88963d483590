"""How far it is, in the log."""

import logging
import time
from collections.abc import Callable

from gptservice_runtime.units import size

_log = logging.getLogger(__name__)
_LOG_SECONDS = 10.0


class Progress:
    """Bytes that are done of those there are; told now and then, and at the end."""

    def __init__(self, doing: str, total: int, clock: Callable[[], float] = time.monotonic) -> None:
        """`doing` is a verb: ``decrypting``."""
        self._doing = doing
        self._total = total
        self._clock = clock
        self._done = 0
        self._began = self._told = clock()

    def advance(self, count: int) -> None:
        """Count bytes."""
        self._done += count
        now = self._clock()
        if now - self._told >= _LOG_SECONDS:
            self._told = now
            left = max(self._total - self._done, 0) / self._rate(now)
            _log.info("%s: %s of %s, %s/s, %.0f s left", self._doing, *self._figures(now), left)

    def finish(self) -> None:
        """Say what it came to."""
        _log.info("%s: %s of %s, %s/s, done", self._doing, *self._figures(self._clock()))

    def _figures(self, now: float) -> tuple[str, str, str]:
        return size(self._done), size(self._total), size(self._rate(now))

    def _rate(self, now: float) -> float:
        return max(self._done, 1) / max(now - self._began, 1e-3)
