"""The cache on disk: one folder per revision, complete once the manifest beside it says so.

models/SHELF/REVISION/          the files, each renamed into place when it is whole and its digest right
models/SHELF/REVISION.json      the manifest: every file's size, digest and time; written last
models/SHELF/REVISION.pods/     files on their way, and archives until they are unpacked; see parts.py
models/SHELF/REVISION.lock      see lock.py
models/SHELF/refs/REFERENCE     the revision that a branch or tag was when it was last looked up

A shelf is a source's folder (`Source.shelf`); a hub's is called ORG--NAME, and its revisions are commits.
"""

import json
import os
import urllib.parse
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gptservice_runtime.digest import FileDigest
from gptservice_runtime.transfer.source import Source

_FOLDER = "models"
_MANIFEST = ".json"
_FORMAT = 1
"""Of the manifest; also what `selection.needed` chooses: raise it when that changes."""


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What a complete snapshot holds."""

    files: tuple[FileDigest, ...]
    changed: dict[str, int]
    """By path: the file's modification time when its digest was right, in nanoseconds."""


@dataclass(frozen=True)
class Snapshot:
    """One revision's place in the cache."""

    base: Path
    """The folder without a suffix."""

    @property
    def folder(self) -> Path:
        """The model."""
        return self.base

    @property
    def lock(self) -> Path:
        """See lock.py."""
        return self.base.with_name(f"{self.base.name}.lock")

    @property
    def parts(self) -> Path:
        """Files on their way, of all pods."""
        return self.base.with_name(f"{self.base.name}.pods")

    @property
    def _manifest(self) -> Path:
        return self.base.with_name(f"{self.base.name}{_MANIFEST}")

    def manifest(self) -> Manifest | None:
        """What it should hold; None unless it was once complete."""
        try:
            read = json.loads(self._manifest.read_bytes())
            if read["format"] != _FORMAT:
                return None
            files = tuple(FileDigest(path=f["path"], size=f["size"], sha256=f["sha256"]) for f in read["files"])
            return Manifest(files=files, changed={f["path"]: f["changed"] for f in read["files"]})
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def complete(self, files: Iterable[FileDigest]) -> None:
        """Declare it complete: all these files are there, and their digests right."""
        listed = [
            {"path": f.path, "size": f.size, "sha256": f.sha256, "changed": (self.folder / f.path).stat().st_mtime_ns}
            for f in files
        ]
        _replace(self._manifest, json.dumps({"format": _FORMAT, "files": listed}, indent=1))

    def suspects(self, manifest: Manifest) -> list[FileDigest]:
        """Files that are missing, or are not as they were when they were right; nothing is read."""
        return [file for file in manifest.files if not self.is_as_it_was(file, manifest.changed[file.path])]

    def is_as_it_was(self, file: FileDigest, changed: int) -> bool:
        """Whether it has its size, and the time that it had when it was right."""
        try:
            found = (self.folder / file.path).stat()
        except OSError:
            return False
        return (found.st_size, found.st_mtime_ns) == (file.size, changed)


@dataclass(frozen=True)
class Shelf:
    """A source's place in the cache."""

    folder: Path
    source: Source

    @classmethod
    def of(cls, cache_root: Path, source: Source) -> "Shelf":
        """Where it is."""
        return cls(cache_root / _FOLDER / source.shelf, source)

    def snapshot(self, revision: str) -> Snapshot:
        """A revision's place."""
        return Snapshot(self.folder / revision.replace(":", "-"))

    def others(self, revision: str) -> list[Snapshot]:
        """Those of other revisions that are complete, or were, the last one first."""
        mine = self.snapshot(revision)
        manifests = sorted(self.folder.glob(f"*{_MANIFEST}"), key=lambda path: path.stat().st_mtime, reverse=True)
        found = [Snapshot(path.with_name(path.name.removesuffix(_MANIFEST))) for path in manifests]
        return [each for each in found if each != mine]

    def known(self) -> str | None:
        """The revision that its reference is, or was when it was last looked up."""
        if self.source.pinned is not None:
            return self.source.pinned
        try:
            return self._reference.read_text().strip() or None
        except OSError:
            return None

    def remember(self, revision: str) -> None:
        """Keep what the reference is, for a time when the source cannot be asked."""
        if self.source.pinned is None and self.known() != revision:
            _replace(self._reference, revision)

    @property
    def _reference(self) -> Path:
        return self.folder / "refs" / urllib.parse.quote(self.source.reference, safe="")


def _replace(path: Path, text: str) -> None:
    """Write a small file whole or not at all; two who share a cache may do it at a time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.{os.uname().nodename}.{os.getpid()}")
    with fresh.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
