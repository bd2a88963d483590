"""Single flight: of the pods that share a cache, one downloads and the others wait.

The lock is the kernel's (flock), so that it is free as soon as its holder is dead, however it died; on NFS, CephFS and
SMB it holds between nodes, unless they are mounted otherwise. Where it does not, where a file system has no locks, or a
holder shows no life, more than one downloads: each into files of its own (parts.py), renamed when whole, so that a lock
that fails costs bandwidth and never the model.
"""

import asyncio
import errno
import fcntl
import json
import logging
import os
import platform
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

_log = logging.getLogger(__name__)

POLL_SECONDS = 1.0
BEAT_SECONDS = 5.0
PATIENCE_SECONDS = 120.0
"""Without a sign of life of the holder: its node may be gone without the file server's knowledge."""
_BUSY = frozenset({errno.EAGAIN, errno.EACCES})
_UNSUPPORTED = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL})


@asynccontextmanager
async def turn(path: Path, doing: Callable[[], str], patience: float = PATIENCE_SECONDS) -> AsyncIterator[None]:
    """Wait for one's turn, and have it while the context is open.

    Args:
        path: the lock's file, which everybody who shares the cache sees.
        doing: what those who wait are told.
        patience: seconds.
    """
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o664)
    try:
        has_lock = await _acquire(file, path, patience)
        beating = asyncio.create_task(_beat(file, doing)) if has_lock else None
        try:
            yield
        finally:
            if beating is not None:
                beating.cancel()
    finally:
        os.close(file)


async def _acquire(file: int, path: Path, patience: float) -> bool:
    seen, since, told = "", time.monotonic(), 0.0
    while (got := _try(file, path)) is None:
        note, now = _note(path), time.monotonic()
        if note != seen:
            seen, since = note, now
        if now - since > patience:
            _log.warning(
                "who holds %s has not moved for %.0f s (%s): going on without the lock", path, patience, _words(seen)
            )
            return False
        if now - told >= BEAT_SECONDS:
            told = now
            _log.info("another pod is at it: %s", _words(seen))
        await asyncio.sleep(POLL_SECONDS)
    return got


def _try(file: int, path: Path) -> bool | None:
    """True with the lock, False where there are none, None while another has it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _BUSY:
            return None
        if error.errno not in _UNSUPPORTED:
            raise
        _log.warning("the file system of %s has no locks (%s): every pod downloads for itself", path, error.strerror)
        return False
    return True


async def _beat(file: int, doing: Callable[[], str]) -> None:
    """A number that moves shows life where nothing else does."""
    beats = 0
    while True:
        beats += 1
        note = json.dumps({"pod": platform.node(), "doing": doing(), "beat": beats}).encode()
        os.pwrite(file, note, 0)
        os.ftruncate(file, len(note))
        await asyncio.sleep(BEAT_SECONDS)


def _note(path: Path) -> str:
    """Opened anew each time: that is when NFS asks the server what the file says."""
    return path.read_text(errors="replace")


def _words(note: str) -> str:
    try:
        read = json.loads(note)
        return f"{read['pod']}: {read['doing']}"
    except (ValueError, KeyError, TypeError):
        return "it has only begun"
