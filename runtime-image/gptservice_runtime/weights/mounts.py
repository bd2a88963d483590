"""What kind of storage a folder lies on, as the kernel says."""

import os
from dataclasses import dataclass
from pathlib import Path

IN_MEMORY = frozenset({"tmpfs", "ramfs"})
_MOUNTS = Path("/proc/self/mountinfo")
_SWAPS = Path("/proc/swaps")


@dataclass(frozen=True)
class Mount:
    """A file system's type, and the options of the file system itself."""

    kind: str
    options: frozenset[str]


def mount_of(path: Path, table: str | None = None) -> Mount | None:
    """The file system that a path is on, by its device number; None where the kernel's table does not name it."""
    device = path.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    # ID PARENT MAJOR:MINOR ROOT MOUNTPOINT OPTIONS [FIELD...] - TYPE SOURCE OPTIONS
    for line in (_MOUNTS.read_text() if table is None else table).splitlines():
        before, _, after = line.partition(" - ")
        if before.split()[2] == number:
            kind, _, options = after.split()
            return Mount(kind, frozenset(options.split(",")))
    return None


def node_swaps(table: str | None = None) -> bool:
    """Whether memory may go to a disk."""
    return len((_SWAPS.read_text() if table is None else table).splitlines()) > 1
