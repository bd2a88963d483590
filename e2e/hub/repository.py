"""A repository: a folder, seen as the hub's API shows it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

_LFS_SUFFIXES = frozenset({".safetensors", ".bin", ".pth", ".onnx", ".gguf"})


@dataclass(frozen=True)
class StoredFile:
    """One file; what is known of it is read once."""

    path: Path
    name: str

    @cached_property
    def size(self) -> int:
        """Bytes."""
        return self.path.stat().st_size

    @property
    def is_lfs(self) -> bool:
        """Whether it is kept apart from git, and served from the other host."""
        return self.path.suffix in _LFS_SUFFIXES

    @cached_property
    def sha256(self) -> str:
        """Of its bytes."""
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    @cached_property
    def blob_id(self) -> str:
        """Git's name for it: of an LFS file, that of the pointer, which is not the file."""
        content = self.sha256.encode() if self.is_lfs else b"blob %d\0" % self.size + self.path.read_bytes()
        return hashlib.sha1(content, usedforsecurity=False).hexdigest()

    def sibling(self, with_blobs: bool) -> dict[str, Any]:
        """Its entry in the list of a repository's files."""
        if not with_blobs:
            return {"rfilename": self.name}
        lfs = {"sha256": self.sha256, "size": self.size, "pointerSize": 134}
        return {
            "rfilename": self.name,
            "size": self.size,
            "blobId": self.blob_id,
            **({"lfs": lfs} if self.is_lfs else {}),
        }


@dataclass
class Repository:
    """A folder that is served as `main`, and under the commit that its content comes to."""

    folder: Path
    gated: bool = False
    readers: set[str] = field(default_factory=set[str])
    """Tokens that are let in where it is gated."""

    @cached_property
    def files(self) -> dict[str, StoredFile]:
        """By name."""
        found = sorted(path for path in self.folder.rglob("*") if path.is_file())
        return {name: StoredFile(path, name) for path in found if (name := path.relative_to(self.folder).as_posix())}

    @cached_property
    def commit(self) -> str:
        """A commit's name."""
        text = "".join(f"{name} {file.blob_id}\n" for name, file in self.files.items())
        return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()

    def knows(self, revision: str) -> bool:
        """Whether it has such a branch or commit."""
        return revision in ("main", self.commit)
