"""Files from a stream to the disk: who reads the stream writes, and others meanwhile hash and wait for the disk."""

import hashlib
import itertools
import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import IO

from gptservice_runtime import digest

_PIECES_AHEAD = 4
"""That are written and not hashed yet: held in memory."""
_FILES_AHEAD = 16
"""That are written and not on the disk yet: each is open."""


class Writer:
    """Writes files one after another. At the end of its context all of them are on the disk and in their places."""

    def __init__(self, scratch: Path) -> None:
        """`scratch`: folder on the same file system for what is not whole yet; whoever is killed leaves it there."""
        self._scratch = scratch
        self._hashing, self._syncing = ThreadPoolExecutor(1), ThreadPoolExecutor(1)
        self._numbers = itertools.count()
        self._unfinished: deque[Future[None]] = deque()

    def __enter__(self) -> "Writer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        try:
            while self._unfinished and kind is None:
                self._unfinished.popleft().result()
        finally:
            self._hashing.shutdown()
            self._syncing.shutdown()

    def write(self, source: IO[bytes], path: Path) -> str:
        """Write the rest of a stream to a file, which gets its name when it is whole and on the disk; its sha256.

        OSError, perhaps one of the files before it.
        """
        for each in (self._scratch, path.parent):
            each.mkdir(parents=True, exist_ok=True)
        # A name that comes again must not write into the one before, which may wait for the disk.
        fresh = self._scratch / f"{os.uname().nodename}.{os.getpid()}.{next(self._numbers)}"
        hasher, unhashed = hashlib.sha256(), deque[Future[None]]()
        with fresh.open("wb", buffering=0) as target:
            while piece := source.read(digest.CHUNK):
                unhashed.append(self._hashing.submit(hasher.update, piece))
                write_all(target.fileno(), piece)
                if len(unhashed) > _PIECES_AHEAD:
                    unhashed.popleft().result()
            left = os.dup(target.fileno())
        self._later(lambda: _finish(left, fresh, path))
        for one in unhashed:
            one.result()
        return hasher.hexdigest()

    def _later(self, act: Callable[[], None]) -> None:
        if len(self._unfinished) >= _FILES_AHEAD:
            self._unfinished.popleft().result()
        self._unfinished.append(self._syncing.submit(act))


def _finish(file: int, fresh: Path, path: Path) -> None:
    try:
        os.fsync(file)
    finally:
        os.close(file)
    fresh.replace(path)


def write_all(file: int, piece: bytes) -> None:
    """Write a piece to a file descriptor, however much of it the system takes at a time; OSError."""
    rest = memoryview(piece)
    while rest:
        rest = rest[os.write(file, rest) :]
