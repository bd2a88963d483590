"""Files on their way, each pod's in a folder of its own, so that no two pods ever write to one file.

A lock is not trusted with that: where a node does not see the locks of another (SMB with `nobrl`, NFS with
`local_lock`, most of what FUSE mounts), two pods have it at a time. A pod beats while it is at it: others wait for it
where they see that, and take over and go on with what one has left that does not beat any more.
"""

import asyncio
import contextlib
import logging
import os
import platform
import shutil
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

_log = logging.getLogger(__name__)

BEAT_SECONDS = 5.0
QUIET_SECONDS = 20.0
"""Without a beat: the pod is gone, or its node has lost the volume."""
_BEAT = ".beat"


class Parts:
    """One pod's files of one revision, among those of others."""

    def __init__(self, folder: Path, pod: str = "") -> None:
        """`folder`: of all pods; `pod`: by its host's name, which it keeps when its container is started again."""
        self._folder = folder
        self.own = folder / (pod or platform.node())
        """Nobody else writes here."""
        self._alive: dict[Path, str | None] = {}
        """Other pods that beat when they were looked at, and what their beats said then."""
        self.has_waited = False
        """So long that another pod may have completed the model."""

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Beat while the context is open; what was left by pods that are gone is there when it opens."""
        self._folder.mkdir(parents=True, exist_ok=True)
        # First: a folder without a beat is one that nobody is at.
        self._beat()
        beating = asyncio.create_task(self._keep_beating())
        try:
            self.own.mkdir(exist_ok=True)
            await self._others_gone()
            yield
        finally:
            beating.cancel()
            with contextlib.suppress(OSError):
                _beat_of(self.own).unlink()

    def clear(self) -> None:
        """Remove one's own, since the model is complete, and what nobody is at any more."""
        for folder in self._folders():
            beat = _seen(folder)
            if folder == self.own or beat is None or beat == self._alive.get(folder):
                _remove(folder)
        # As 0.1 had them, of all pods together; what lies there is never gone on with.
        shutil.rmtree(self._folder.with_suffix(".parts"), ignore_errors=True)
        with contextlib.suppress(OSError):
            self._folder.rmdir()

    async def _keep_beating(self) -> None:
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            # What cannot be written for a moment is at the next beat; what is of no use by then fails elsewhere.
            with contextlib.suppress(OSError):
                self._beat()

    def _beat(self) -> None:
        """Show life as any file system can: by a content that changes, of a file that is opened anew each time."""
        _beat_of(self.own).write_text(str(time.time_ns()))

    async def _others_gone(self) -> None:
        """Wait for pods that are at it, but not for those that wait for this one: the first by name waits for none."""
        while (alive := await self._take_over()) and min(alive) < self.own.name:
            _log.info("waiting for %s, which does not see the locks of this pod", ", ".join(sorted(alive)))

    async def _take_over(self) -> set[str]:
        """The names of the pods that are at it. What others left is one's own now."""
        seen = {other: _seen(other) for other in self._folders() if other != self.own}
        if any(beat is not None for beat in seen.values()):
            _log.info("%s: looking for %.0f s whether other pods are at it", self._folder, QUIET_SECONDS)
            await asyncio.sleep(QUIET_SECONDS)
            self.has_waited = True
        now = {other: _seen(other) for other in seen}
        self._alive = {other: beat for other, beat in now.items() if beat is not None and beat != seen[other]}
        for other in seen.keys() - self._alive.keys():
            await asyncio.to_thread(self._take, other)
        return {other.name for other in self._alive}

    def _folders(self) -> list[Path]:
        return [folder for folder in self._folder.iterdir() if folder.is_dir()] if self._folder.is_dir() else []

    def _take(self, other: Path) -> None:
        for file in list(_files(other)):
            mine = self.own / file.relative_to(other)
            mine.parent.mkdir(parents=True, exist_ok=True)
            # A third pod may be taking it over, too: one of the two gets it.
            with contextlib.suppress(FileNotFoundError):
                if not mine.exists():
                    file.rename(mine)
        _remove(other)


def _beat_of(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}{_BEAT}")


def _seen(folder: Path) -> str | None:
    """What its beat says; None where there is none."""
    try:
        return _beat_of(folder).read_text(errors="replace")
    except FileNotFoundError:
        return None


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):
        _beat_of(folder).unlink()


def _files(folder: Path) -> Iterator[Path]:
    for inside, _, names in os.walk(folder):
        yield from (Path(inside) / name for name in names)
