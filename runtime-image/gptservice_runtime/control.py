"""A few bytes that the supervisor and the middleware inside the engine share: requests, the engine's answers, the end.

The supervisor drains by this count and not by the engine's own: vLLM drops requests that it has accepted but not yet
passed to its core when SIGTERM comes.

Imports nothing but the standard library, so that it fits any version of the engine's libraries.
"""

import logging
import mmap
import os
import struct
from pathlib import Path
from typing import Literal, get_args

from gptservice_runtime import engine

_log = logging.getLogger(__name__)

Refused = Literal["limit", "draining", "key"]
"""Why a request was not let through: above the bound (429), at the end (503), without a valid API key (401)."""
REFUSED: tuple[Refused, ...] = get_args(Refused)

_NUMBER = struct.Struct("<Q")
_IN_FLIGHT = 0
_REFUSED: dict[Refused, int] = {why: _NUMBER.size * place for place, why in enumerate(REFUSED, start=1)}
_ANSWERED = _NUMBER.size * (1 + len(REFUSED))
_FAILED = _ANSWERED + _NUMBER.size
_MOVEMENTS = _FAILED + _NUMBER.size
_SESSIONS = _MOVEMENTS + _NUMBER.size
_STOPPING = _SESSIONS + _NUMBER.size
_DRAINING = _STOPPING + 1
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
    def of_supervisor(cls) -> "ControlBlock":
        """Inside the engine: the block that the supervisor made; where there is none, a private one and a warning."""
        path = os.environ.get(engine.CONTROL_FILE_ENV, "")
        try:
            return cls.open(Path(path))
        except (OSError, ValueError) as error:
            name = engine.CONTROL_FILE_ENV
            _log.warning("%s=%r (%s): SIGTERM will not wait for running requests", name, path, error)
            return cls.private()

    @classmethod
    def private(cls) -> "ControlBlock":
        """A block that nobody else sees."""
        return cls(mmap.mmap(-1, _SIZE))

    def _number(self, position: int) -> int:
        (number,) = _NUMBER.unpack_from(self._memory, position)
        return int(number)

    def _count(self, position: int) -> None:
        _NUMBER.pack_into(self._memory, position, self._number(position) + 1)

    @property
    def in_flight(self) -> int:
        """Requests being answered."""
        return self._number(_IN_FLIGHT)

    @in_flight.setter
    def in_flight(self, count: int) -> None:
        _NUMBER.pack_into(self._memory, _IN_FLIGHT, count)

    @property
    def sessions(self) -> int:
        """WebSockets that are open: a drain waits for them, and no bound counts them."""
        return self._number(_SESSIONS)

    @sessions.setter
    def sessions(self, count: int) -> None:
        _NUMBER.pack_into(self._memory, _SESSIONS, count)

    def refused(self, why: Refused) -> int:
        """Requests refused for that reason since the engine's start."""
        return self._number(_REFUSED[why])

    def count_refused(self, why: Refused) -> None:
        """One more."""
        self._count(_REFUSED[why])

    @property
    def probes_answered(self) -> int:
        """Probes that the engine core answered in time since the engine's start."""
        return self._number(_ANSWERED)

    @property
    def probes_failed(self) -> int:
        """Probes that it did not answer in time."""
        return self._number(_FAILED)

    def count_probe(self, *, answered: bool) -> None:
        """One more result."""
        self._count(_ANSWERED if answered else _FAILED)

    @property
    def movements(self) -> int:
        """Times that the engine's metrics were found changed."""
        return self._number(_MOVEMENTS)

    def count_movement(self) -> None:
        """One more."""
        self._count(_MOVEMENTS)

    @property
    def stopping(self) -> bool:
        """Whether SIGTERM was received: clients must not keep their connections."""
        return self._memory[_STOPPING] != 0

    def stop(self) -> None:
        """From now on each response ends its connection."""
        self._memory[_STOPPING] = 1

    @property
    def draining(self) -> bool:
        """Whether new requests must be refused."""
        return self._memory[_DRAINING] != 0

    def drain(self) -> None:
        """From now on new requests are refused, and each response ends its connection."""
        self.stop()
        self._memory[_DRAINING] = 1
