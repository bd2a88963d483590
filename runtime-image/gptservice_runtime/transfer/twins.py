"""Files of a revision that another revision in the cache has too: a new text file upstream moves no weights again."""

import errno
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gptservice_runtime.digest import FileDigest
from gptservice_runtime.transfer import file, space
from gptservice_runtime.transfer.snapshot import Manifest, Snapshot
from gptservice_runtime.transfer.source import RemoteFile

_NO_LINKS = frozenset({errno.EPERM, errno.EACCES, errno.EMLINK, errno.EXDEV, errno.ENOSYS, errno.EOPNOTSUPP})
"""Of file systems that have none, and of kernels that link nobody else's files."""


@dataclass(frozen=True, kw_only=True)
class _Sibling:
    snapshot: Snapshot
    manifest: Manifest


class Twins:
    """What the complete revisions of one model hold."""

    def __init__(self, snapshots: Iterable[Snapshot], *, thorough: bool) -> None:
        """`thorough`: read what is there, instead of trusting sizes and times."""
        read = ((each, each.manifest()) for each in snapshots)
        self._siblings = [_Sibling(snapshot=each, manifest=found) for each, found in read if found is not None]
        self._thorough = thorough

    def of(self, remote: RemoteFile) -> tuple[Path, str] | None:
        """A file with the bytes that the source announced, and its sha256; None where there is none for certain."""
        if remote.digest is None or remote.is_archive:
            return None
        told = remote.digest.value if remote.digest.algorithm == "sha256" else None
        for sibling in self._siblings:
            for one in sibling.manifest.files:
                if one.size == remote.size and (sha256 := self._checked(sibling, one, remote, told)) is not None:
                    return sibling.snapshot.folder / one.path, sha256
        return None

    def _checked(self, sibling: _Sibling, one: FileDigest, remote: RemoteFile, told: str | None) -> str | None:
        """The sha256, if it is the same file; `told` is the one that the source announced, if it was a sha256."""
        if told is not None:
            if one.sha256 != told:
                return None
            if not self._thorough and sibling.snapshot.is_as_it_was(one, sibling.manifest.changed[one.path]):
                return one.sha256
        elif one.path != remote.path:
            # The manifest knows no digest of this kind, and not every file of this size is to be read.
            return None
        try:
            return file.is_right(sibling.snapshot.folder / one.path, remote)
        except OSError:
            return None


def link(twin: Path, scratch: Path, final: Path) -> bool:
    """Give a file a second name, whole or not at all; False where the file system cannot."""
    for folder in (scratch.parent, final.parent):
        folder.mkdir(parents=True, exist_ok=True)
    scratch.unlink(missing_ok=True)
    try:
        os.link(twin, scratch)
    except OSError as error:
        if error.errno in _NO_LINKS or isinstance(error, FileNotFoundError):
            return False
        raise
    scratch.replace(final)
    return True


def copy(twin: Path, part: Path) -> None:
    """Have its bytes where those from the source would go; they are read and checked there like any others."""
    part.parent.mkdir(parents=True, exist_ok=True)
    try:
        shutil.copyfile(twin, part)
    except OSError as error:
        # What cannot be read any more comes from the source.
        if error.errno in space.NO_ROOM:
            raise
