"""Content keys: the same inputs give the same key on every machine, any change gives another."""

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

LENGTH = 16  # hexadecimal digits
IGNORED_FOLDERS = frozenset({"__pycache__", ".git", ".venv", ".mypy_cache", ".ruff_cache", ".pytest_cache"})


def of(*parts: str) -> str:
    """The key of an ordered list of strings; where one ends and the next begins matters."""
    digest = hashlib.sha256()
    for part in parts:
        encoded = part.encode()
        digest.update(f"{len(encoded)}:".encode())
        digest.update(encoded)
    return digest.hexdigest()[:LENGTH]


def of_files(root: Path, inputs: Iterable[str]) -> str:
    """The key of files and folders below `root`: their relative paths, executable bits and contents.

    Raises FileNotFoundError for an input that does not exist: a forgotten input would be a key that never
    changes.
    """
    return of(*(part for file in files(root, inputs) for part in _describe(root, file)))


def files(root: Path, inputs: Iterable[str]) -> list[Path]:
    """Every file that `inputs` (files or folders, relative to `root`) stand for, sorted, caches left out."""
    return sorted({file for entry in inputs for file in _walk(root / entry)})


def _walk(entry: Path) -> Iterator[Path]:
    if entry.is_file() or entry.is_symlink():
        yield entry
        return
    if not entry.is_dir():
        raise FileNotFoundError(f"{entry} is an input of an image and does not exist")
    for child in entry.iterdir():
        if child.name not in IGNORED_FOLDERS and child.suffix != ".pyc":
            yield from _walk(child)


def _describe(root: Path, file: Path) -> tuple[str, str, str]:
    if file.is_symlink():
        return str(file.relative_to(root)), "link", str(file.readlink())
    executable = "x" if file.stat().st_mode & 0o100 else "-"
    return str(file.relative_to(root)), executable, hashlib.sha256(file.read_bytes()).hexdigest()
