"""The digest of a model: what its files are, whatever carried them here."""

import hashlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Protocol

from gptservice_runtime import contract, models, selection

CHUNK = 1 << 20
"""Bytes held at a time: models are larger than memory."""
_AT_A_TIME = 4
"""Files hashed side by side: hashing one keeps one core busy."""


class Hasher(Protocol):
    """What takes a file's bytes in their order."""

    def update(self, piece: bytes, /) -> None:
        """Take the next bytes."""
        ...


@dataclass(frozen=True, kw_only=True)
class FileDigest:
    """One file of a model; `path` is relative to the model's folder, with ``/``."""

    path: str
    size: int
    sha256: str


def of_model(files: Iterable[FileDigest]) -> str:
    """The digest as ``sha256:…``: of one line ``SHA256  SIZE  PATH`` for each file, sorted by path as bytes.

    A name that is no UTF-8 is taken by its bytes, as the system has it.
    """
    named = sorted(((file.path.encode(errors="surrogateescape"), file) for file in files), key=itemgetter(0))
    lines = [b"%s  %d  %s\n" % (file.sha256.encode(), file.size, name) for name, file in named]
    return f"sha256:{hashlib.sha256(b''.join(lines)).hexdigest()}"


def update(hasher: Hasher, path: Path) -> None:
    """Feed a whole file to a hash."""
    with path.open("rb", buffering=0) as file:
        while piece := file.read(CHUNK):
            hasher.update(piece)


def of_path(path: Path) -> str:
    """The digest of a model folder, or of a model that is one file; reads all that `selection.needed` names.

    models.ModelError for what cannot be read.
    """
    with models.explained(path):
        if path.is_file():
            return of_model([of_file(path.parent, path.name)])
        names = [file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file()]
        with ThreadPoolExecutor(_AT_A_TIME) as pool:
            return of_model(pool.map(partial(of_file, path), selection.needed(names)))


def of_file(folder: Path, name: str) -> FileDigest:
    """Read one file of a model; OSError with its name."""
    hasher = hashlib.sha256()
    try:
        update(hasher, folder / name)
    except OSError as error:
        error.filename = error.filename or str(folder / name)
        raise
    return FileDigest(path=name, size=(folder / name).stat().st_size, sha256=hasher.hexdigest())


def demand(uri: str, found: str, wanted: str | None) -> None:
    """Refuse a model with another digest than the one wanted, if one is: models.ModelError."""
    if wanted is not None and found != wanted:
        raise models.ModelError(
            contract.REASON_CHECKSUM_MISMATCH,
            f"{uri}: the digest of its files is {found}, and modelDigest demands {wanted}: these are not the files "
            "that were meant, or modelDigest is another revision's",
        )
