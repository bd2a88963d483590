"""Which files a folder with a model has."""

import os
from collections.abc import Iterator
from pathlib import Path

from gptservice_runtime.weights.errors import WeightsError
from gptservice_runtime.weights.seal import FORMAT, SEAL_FILE


def names(folder: Path) -> list[str]:
    """The files of a model, sorted as bytes: relative, with ``/``; without the seal, and without what is hidden.

    WeightsError for what is neither a file nor a folder; OSError.
    """
    return sorted((name for name in _walk(folder, "") if name != SEAL_FILE), key=os.fsencode)


def _walk(folder: Path, prefix: str) -> Iterator[str]:
    for entry in list(os.scandir(folder)):
        if entry.name.startswith("."):
            continue
        if entry.is_file():
            yield prefix + entry.name
        elif not entry.is_dir(follow_symlinks=False):
            raise WeightsError(f"{entry.path} is neither a file nor a folder: copy what it stands for in its place")
        # A closed folder is none of the model's: the root of an ext4 volume has its lost+found.
        elif os.access(entry.path, os.R_OK | os.X_OK):
            yield from _walk(Path(entry.path), f"{prefix}{entry.name}/")


def has_seal(folder: Path) -> bool:
    """Whether the folder says of itself that it is encrypted."""
    return (folder / SEAL_FILE).is_file()


def is_encrypted(path: Path) -> bool:
    """Whether the file's first bytes say so."""
    with path.open("rb") as file:
        return file.read(len(FORMAT)) == FORMAT.encode()
