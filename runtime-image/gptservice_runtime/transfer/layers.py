"""Archives that lie over each other, as an image's layers do: what comes later replaces, hides and removes. Pure."""

import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

FILE = "a file"
FOLDER = "a folder"
_WHITEOUT = ".wh."
_OPAQUE = ".wh..wh..opq"
"""Removes all that lower layers have in its folder."""
_OTHER = ".wh..wh."
"""Of file systems that once used such names for themselves."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What an archive has by one name."""

    archive: Path
    kind: str
    """FILE, FOLDER, or what else it is."""
    size: int

    @classmethod
    def of(cls, archive: Path, member: tarfile.TarInfo) -> "Entry":
        """Without the rest of its header, which may be large."""
        if member.isreg():
            kind = FILE
        elif member.isdir():
            kind = FOLDER
        else:
            kind = "a link" if member.issym() or member.islnk() else "no regular file"
        return cls(archive=archive, kind=kind, size=member.size)


def over(lower: Mapping[str, Entry], layer: Mapping[str, Entry]) -> dict[str, Entry]:
    """What is there once a layer lies over all that are below it; what it removes, it removes of those alone."""
    whole, below = set[PurePosixPath](), set[PurePosixPath]()
    for name, entry in layer.items():
        path = PurePosixPath(name)
        if path.name == _OPAQUE:
            below.add(path.parent)
        elif path.name.startswith(_WHITEOUT) and not path.name.startswith(_OTHER):
            removed = path.name.removeprefix(_WHITEOUT)
            whole |= {path.with_name(removed)} if removed not in ("", ".", "..") else set()
        elif entry.kind != FOLDER:
            # What was in a folder of this name is not to be reached any more.
            below.add(path)
    kept = {name: entry for name, entry in lower.items() if not _is_hidden(PurePosixPath(name), whole, below)}
    shown = {name: entry for name, entry in layer.items() if not PurePosixPath(name).name.startswith(_WHITEOUT)}
    return {**kept, **shown}


def _is_hidden(path: PurePosixPath, whole: set[PurePosixPath], below: set[PurePosixPath]) -> bool:
    return path in whole or any(parent in whole or parent in below for parent in path.parents)
