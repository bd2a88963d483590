"""What comes in drops: a connection that is never silent for long, and yet brings next to nothing."""

import time

from gptservice_runtime import contract, units
from gptservice_runtime.transfer import retrying

_SILENCES = 4
"""Times the seconds of silence that are borne with: the window; two minutes, unless somebody says otherwise."""
_LEAST_RATE = 8 << 10
"""Bytes per second: of the slowest lines none is so slow, and no model would ever be there."""


def window(stall: float) -> float:
    """Seconds over which a rate is judged, by those of silence that are borne with."""
    return stall * _SILENCES


class Pace:
    """How fast one answer comes."""

    def __init__(self, what: str, stall: float) -> None:
        """`what` is asked for; `stall`: seconds of silence that are borne with."""
        self._what = what
        self._window = window(stall)
        self._begin = time.monotonic()
        self._bytes = 0

    def arrived(self, count: int) -> None:
        """Count bytes; retrying.PassingError where too few came for too long."""
        self._bytes += count
        seconds = time.monotonic() - self._begin
        if seconds < self._window:
            return
        if self._bytes < seconds * _LEAST_RATE:
            came = f"{units.size(self._bytes)} came in {seconds:.0f} s"
            raise retrying.PassingError(contract.REASON_MODEL_DOWNLOAD_STALLED, f"{self._what}: no more than {came}")
        self._begin, self._bytes = time.monotonic(), 0
