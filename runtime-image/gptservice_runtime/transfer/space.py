"""Whether the cache volume has room for what is to come."""

import contextlib
import errno
import os
from pathlib import Path

from gptservice_runtime import contract, models, units

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
"""What a full file system answers."""
_ENGINE_PART = 20
"""One in so many bytes of a bounded volume is left to the engine's own caches: beyond the bound the pod is evicted."""


def demand(root: Path, needed: int, limit: int | None) -> None:
    """Refuse what does not fit: models.ModelError.

    Args:
        root: of the cache volume.
        needed: bytes that are still to be written.
        limit: bytes that the volume may hold, where its file system does not know.
    """
    free = _free(root, limit)
    if needed > free:
        raise full(root, f"{units.size(needed)} more are needed and {units.size(free)} are free")


def full(root: Path, what: str) -> models.ModelError:
    """The error for a volume without room."""
    return models.ModelError(
        contract.REASON_DISK_FULL,
        f"the cache volume at {root} is too small: {what}: set spec.cache.size (or a larger one), or free the volume",
    )


def _free(root: Path, limit: int | None) -> int:
    system = os.statvfs(root)
    free = system.f_bavail * system.f_frsize
    return free if limit is None else min(free, max(limit - limit // _ENGINE_PART - _used(root), 0))


def _used(root: Path) -> int:
    """Bytes; a file that revisions share counts once, and one that is removed meanwhile not at all."""
    used = dict[tuple[int, int], int]()
    for folder, _, names in os.walk(root):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                found = (Path(folder) / name).lstat()
                used[found.st_dev, found.st_ino] = found.st_blocks * 512
    return sum(used.values())
