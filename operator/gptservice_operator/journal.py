"""The last passes, for the debug page: what was done when, and how it ended."""

from collections import deque
from dataclasses import asdict, dataclass, field
from typing import Any

from .extract import Key

KEPT = 200


@dataclass(frozen=True, slots=True)
class PassRecord:
    """One pass that has ended."""

    number: int
    """As in the log."""
    began: str
    """Wall clock."""
    seconds: float
    outcome: str
    """``ok``, the kind of a failure, or ``error`` for a fault of the operator itself."""
    error: str = ""
    again_in: float | None = None
    """Seconds after which it asked to look again."""


@dataclass(slots=True)
class Journal:
    """The last passes over all services, and the last one of each."""

    _all: "deque[tuple[Key, PassRecord]]" = field(default_factory=lambda: deque[tuple[Key, PassRecord]](maxlen=KEPT))
    _last: dict[Key, PassRecord] = field(default_factory=dict[Key, PassRecord])

    def note(self, key: Key, record: PassRecord) -> None:
        """Keep a pass."""
        self._all.append((key, record))
        self._last[key] = record

    def forget(self, key: Key) -> None:
        """Drop the last pass of a service that is gone."""
        self._last.pop(key, None)

    def recent(self) -> list[dict[str, Any]]:
        """Return the last passes, the newest first."""
        return [{"object": "/".join(key), **asdict(record)} for key, record in reversed(self._all)]

    def of(self, key: Key) -> list[dict[str, Any]]:
        """Return the passes over one service that are still known, the newest first."""
        kept = [asdict(record) for one, record in reversed(self._all) if one == key]
        last = self._last.get(key)
        return kept or ([asdict(last)] if last is not None else [])
