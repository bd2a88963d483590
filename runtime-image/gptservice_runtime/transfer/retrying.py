"""What passes by itself is tried again: how often, and after how long."""

import asyncio
import email.utils
import logging
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from gptservice_runtime import contract, models

_log = logging.getLogger(__name__)
_LONGEST_RETRY_AFTER_SECONDS = 300.0
"""A source that asks for more is asked earlier, so that a person soon sees the reason."""
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long to bear with a source; seconds."""

    tries: int = 6
    """In a row, without anything gained in between."""
    pause: float = 1.0
    """Before the second try; it doubles."""
    longest_pause: float = 60.0
    stall: float = 30.0
    """Without a byte on an open connection."""


class PassingError(Exception):
    """A fault that may be over at the next try; the text says what was seen."""

    def __init__(
        self,
        reason: contract.TerminationReason,
        message: str,
        *,
        retry_after: float | None = None,
        gained: bool = False,
    ) -> None:
        """`retry_after`: seconds that the source asked for; `gained`: it was worth it, so the count begins anew."""
        super().__init__(message)
        self.reason: contract.TerminationReason = reason
        self.retry_after = retry_after
        self.gained = gained


async def retrying(act: Callable[[], Awaitable[T]], patience: Patience, retried: Callable[[], None]) -> T:
    """Do it until it succeeds; models.ModelError after as many tries as patience lasts. `retried` counts."""
    failures = 0
    while True:
        try:
            return await act()
        except PassingError as error:
            failures = 1 if error.gained else failures + 1
            if failures >= patience.tries:
                raise models.ModelError(
                    error.reason, f"{error}; that was try {failures} of {patience.tries}"
                ) from error
            seconds = pause(failures, patience, error.retry_after)
            _log.warning("%s; trying again in %.1f s (%d of %d)", error, seconds, failures + 1, patience.tries)
            retried()
            await asyncio.sleep(seconds)


def pause(failures: int, patience: Patience, retry_after: float | None) -> float:
    """Seconds until the next try: what the source asks for, within bounds, else doubling, with jitter."""
    if retry_after is not None:
        return min(max(retry_after, 0.0), _LONGEST_RETRY_AFTER_SECONDS)
    most = min(patience.pause * 2.0 ** (failures - 1), patience.longest_pause)
    return most * random.uniform(0.5, 1)  # noqa: S311 - so that many pods do not come back at once


def retry_after(header: str | None) -> float | None:
    """Seconds of a ``Retry-After`` header: a number or a date; None for nonsense."""
    if header is None:
        return None
    if header.strip().isdecimal() and header.isascii():
        return float(header)
    try:
        return email.utils.parsedate_to_datetime(header).timestamp() - time.time()
    except ValueError:
        return None
