"""The cache on disk: one folder per commit, complete once the manifest beside it says so.

models/ORG--NAME/COMMIT/          the files, each renamed into place when it is whole and its digest right
models/ORG--NAME/COMMIT.json      the manifest: every file's size, digest and time; written last
models/ORG--NAME/COMMIT.parts/    files on their way
models/ORG--NAME/COMMIT.lock      see lock.py
models/ORG--NAME/refs/REVISION    the commit that a branch or tag was when it was last looked up
"""

import json
import os
import shutil
import urllib.parse
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gptservice_runtime.digest import FileDigest
from gptservice_runtime.hub.repository import Repository

_FOLDER = "models"
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
    """One commit's place in the cache."""

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
        """Files on their way."""
        return self.base.with_name(f"{self.base.name}.parts")

    @property
    def _manifest(self) -> Path:
        return self.base.with_name(f"{self.base.name}.json")

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
        shutil.rmtree(self.parts, ignore_errors=True)

    def suspects(self, manifest: Manifest) -> list[FileDigest]:
        """Files that are missing, or are not as they were when they were right; nothing is read."""
        return [file for file in manifest.files if not self._is_as_it_was(file, manifest.changed[file.path])]

    def _is_as_it_was(self, file: FileDigest, changed: int) -> bool:
        try:
            found = (self.folder / file.path).stat()
        except OSError:
            return False
        return (found.st_size, found.st_mtime_ns) == (file.size, changed)


@dataclass(frozen=True)
class Shelf:
    """A repository's place in the cache."""

    folder: Path

    @classmethod
    def of(cls, cache_root: Path, repository: Repository) -> "Shelf":
        """Where it is."""
        return cls(cache_root / _FOLDER / repository.name.replace("/", "--"))

    def snapshot(self, commit: str) -> Snapshot:
        """A commit's place."""
        return Snapshot(self.folder / commit)

    def known(self, repository: Repository) -> str | None:
        """The commit that its revision is, or was when it was last looked up."""
        if repository.is_pinned:
            return repository.revision
        try:
            return self._reference(repository).read_text().strip() or None
        except OSError:
            return None

    def remember(self, repository: Repository, commit: str) -> None:
        """Keep what the revision is, for a time when the hub cannot be asked."""
        if not repository.is_pinned and self.known(repository) != commit:
            _replace(self._reference(repository), commit)

    def _reference(self, repository: Repository) -> Path:
        return self.folder / "refs" / urllib.parse.quote(repository.revision, safe="")


def _replace(path: Path, text: str) -> None:
    """Write a small file whole or not at all; two who share a cache may do it at a time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.{os.uname().nodename}.{os.getpid()}")
    with fresh.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
