"""The record of every request that went through the proxy."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from e2e.proxy.target import Target


@dataclass(kw_only=True)
class Entry:
    """One request. `code` is None while no answer has been sent (for good, if the client never got one)."""

    seq: int
    time: float
    """Arrival, in seconds since the epoch."""
    method: str
    path: str
    query: str
    user_agent: str
    target: Target
    code: int | None = None
    seconds: float | None = None
    """From arrival to the last byte of the answer; None while it is running."""
    fault: str = ""
    """What a rule did to this request, empty when nothing was done."""
    error: str = ""
    """What the API server said with a status from 400 on, shortened."""
    events: int = 0
    """Events passed on, for a watch."""
    sent: Mapping[str, Any] | None = None
    """The body of a write to a status, for whoever asks what was claimed when; bodies of others may hold secrets."""
    forwarded: bool = False
    """Whether the API server got it."""

    def finish(self) -> None:
        self.seconds = time.time() - self.time


@dataclass
class RequestLog:
    """All entries of a run in order of arrival; safe to read from another thread while requests run."""

    file: Path | None = None
    _entries: list[Entry] = field(default_factory=list[Entry])

    def open_entry(self, *, method: str, path: str, query: str, user_agent: str, target: Target) -> Entry:
        entry = Entry(
            seq=len(self._entries),
            time=time.time(),
            method=method,
            path=path,
            query=query,
            user_agent=user_agent,
            target=target,
        )
        self._entries.append(entry)
        return entry

    def close_entry(self, entry: Entry) -> None:
        """Note the end of a request and write it to the log file, if there is one."""
        entry.finish()
        if self.file is not None:
            with self.file.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(asdict(entry)) + "\n")

    @property
    def position(self) -> int:
        """The sequence number that the next request will get; pass it to `since`."""
        return len(self._entries)

    def since(self, seq: int = 0, *, where: Callable[[Entry], bool] = lambda _entry: True) -> list[Entry]:
        """Entries from `seq` on for which `where` holds."""
        return [entry for entry in self._entries[seq:] if where(entry)]

    def writes(self, since: int = 0) -> list[Entry]:
        """Entries from `since` on that could have changed something."""
        return self.since(since, where=lambda entry: entry.target.is_write)

    def count(self, since: int = 0) -> Counter[tuple[str, str]]:
        """Requests from `since` on, by verb and resource."""
        return Counter((entry.target.verb, entry.target.resource) for entry in self._entries[since:])
