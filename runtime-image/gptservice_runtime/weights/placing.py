"""Folders and files that are there whole or not at all, whenever the process ends."""

import fcntl
import glob
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gptservice_runtime.weights.errors import WeightsError

_SUFFIX = ".partial"


@contextmanager
def whole_folder(target: Path, source: Path) -> Iterator[Path]:
    """A new folder to fill, which becomes `target` when the context ends well, and is removed when it does not.

    What a killed run has left beside it is removed first. WeightsError if `target` is there already, or would lie
    within the model that it is made from.
    """
    if target.absolute().is_relative_to(source.absolute()):
        raise WeightsError(f"{target} would lie within {source}: name a folder beside it")
    if target.exists() or target.is_symlink():
        raise WeightsError(f"{target} is there already: nothing is overwritten; name another, or remove it")
    remove_leftovers(target)
    partial = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=_SUFFIX, dir=target.parent))
    lock = os.open(partial, os.O_RDONLY | os.O_DIRECTORY)
    try:
        # Says that it is no leftover, for as long as this process lives. Where there are no locks, none is removed.
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield partial
        partial.chmod(0o777 & ~_umask())
        os.fsync(lock)
        partial.rename(target)
        _sync(target.parent)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    finally:
        os.close(lock)


def remove_leftovers(target: Path) -> None:
    """Remove what runs that were killed have left of `target`."""
    for leftover in target.parent.glob(f".{glob.escape(target.name)}.*{_SUFFIX}"):
        with suppress(OSError):
            lock = os.open(leftover, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(leftover)
            finally:
                os.close(lock)


def replace(path: Path, content: bytes) -> None:
    """Write a file's new content at one stroke."""
    number, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=_SUFFIX, dir=path.parent)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(number)
        Path(name).chmod(path.stat().st_mode & 0o777)
        os.replace(name, path)
        _sync(path.parent)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def _sync(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
