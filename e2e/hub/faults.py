"""What can go wrong, and how often."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from typing import Literal

Place = Literal["api", "resolve", "cdn"]


@dataclass
class Fault:
    """One way to fail, for requests of one kind."""

    place: Place
    """The list of files, the address of a file, or its bytes."""
    name: str = "*"
    """Pattern of the file's name."""
    times: int = 1_000_000
    """Requests that it is left for."""
    status: int | None = None
    """Answer that instead."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Of that answer."""
    body: bytes = b""
    """Of that answer; only a gate sends one."""
    stop_after: int | None = None
    """Bytes of an answer after which no more come."""
    then: Literal["hang", "close"] = "hang"
    """What the connection does then."""
    corrupt: bool = False
    """The first byte of the answer is another one."""
    seconds_per_mebibyte: float = 0
    """How slowly the bytes come."""

    def hits(self, place: Place, name: str) -> bool:
        """Whether it is for this request."""
        return self.times > 0 and self.place == place and fnmatch(name, self.name)
