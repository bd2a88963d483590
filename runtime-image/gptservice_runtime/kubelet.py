"""Directories that the kubelet mounts from Secrets and ConfigMaps, and changes at one stroke.

Imports nothing but the standard library, so that it fits any version of the engine's libraries.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

PREFIX = ".."
"""Beginning of the names that are the kubelet's own; no key of a Secret has it."""
_CURRENT = "..data"
"""Link to the folder with the files; it is led elsewhere, and then the folder before is removed."""
_TURNS = 5
T = TypeVar("T")


def current(directory: Path) -> Path:
    """Where the files are now: those of one folder belong together."""
    link = directory / _CURRENT
    return link.resolve() if link.exists() else directory


def read_whole(directory: Path, read: Callable[[Path], T]) -> T:
    """What `read` makes of the files, all of the same moment; whatever it raises while nothing changes."""
    for _ in range(_TURNS):
        folder = current(directory)
        try:
            found = read(folder)
        except FileNotFoundError:
            if current(directory) == folder:
                raise
            continue
        # Nothing of a folder is removed as long as the link leads there.
        if current(directory) == folder:
            return found
    return read(current(directory))
