"""A few bytes that the supervisor and the middleware inside the engine share: who is in flight, and whether to refuse.

The supervisor drains by this count and not by the engine's own: vLLM drops requests that it has accepted but not yet
passed to its core when SIGTERM comes.
"""

import mmap
import struct
from pathlib import Path

_IN_FLIGHT = struct.Struct("<Q")
_DRAINING = _IN_FLIGHT.size
_SIZE = _DRAINING + 1


class ControlBlock:
    """Shared memory with one writer for each field: the middleware counts, the supervisor says when it is over."""

    def __init__(self, memory: mmap.mmap) -> None:
        self._memory = memory

    @classmethod
    def create(cls, path: Path) -> "ControlBlock":
        """A block with nothing in flight, whatever an earlier container left there; OSError."""
        path.unlink(missing_ok=True)
        path.write_bytes(bytes(_SIZE))
        return cls.open(path)

    @classmethod
    def open(cls, path: Path) -> "ControlBlock":
        """The block that another process made; OSError or ValueError when there is none."""
        with path.open("r+b") as file:
            return cls(mmap.mmap(file.fileno(), _SIZE))

    @classmethod
    def private(cls) -> "ControlBlock":
        """A block that nobody else sees."""
        return cls(mmap.mmap(-1, _SIZE))

    @property
    def in_flight(self) -> int:
        """Requests being answered."""
        (count,) = _IN_FLIGHT.unpack_from(self._memory)
        return int(count)

    @in_flight.setter
    def in_flight(self, count: int) -> None:
        _IN_FLIGHT.pack_into(self._memory, 0, count)

    @property
    def draining(self) -> bool:
        """Whether new requests must be refused."""
        return self._memory[_DRAINING] != 0

    def drain(self) -> None:
        """From now on new requests are refused."""
        self._memory[_DRAINING] = 1
