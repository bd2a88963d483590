"""What the builders leave in the cache: whole or absent, built once when several ask, and pruned by age."""

import contextlib
import logging
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from e2e.cluster import files

# Prefixes of command lines. With the first a program ends when this process does, however that ends; with the second
# everything that the program started does too, and nothing that it mounts is seen or left outside.
DIES_WITH_US = ("setpriv", "--pdeathsig=KILL")
CONTAINED = (*DIES_WITH_US, "unshare", "--mount", "--propagation=private", "--pid", "--fork", "--kill-child=KILL")

logger = logging.getLogger(__name__)


class BuildError(Exception):
    """Something could not be built; the message says what, why and what to do."""


def built(target: Path, build: Callable[[Path], None], *, what: str) -> Path:
    """Returns `target`, calling `build(unfinished path)` first if it is not there.

    The unfinished path lies in a work folder of its own, where the build may put other things too, and becomes
    `target` when the build returns: a target is complete whenever it exists. One target of a family (`operator` of
    `operator-0123abcd.tar`) is built at a time, and what an interrupted build left behind goes with the next one.
    """
    if target.exists():
        return used(target)
    with files.locked(target.with_name(f".{family(target)}.lock")):
        if not target.exists():
            _build(target, build, what)
    return target


def family(target: Path) -> str:
    """What a target's name has in common with those of its other versions."""
    return target.name.rpartition("-")[0] or "any"


def _build(target: Path, build: Callable[[Path], None], what: str) -> None:
    work = target.with_name(f".{family(target)}.new")
    remove(work)
    work.mkdir()
    logger.info("building %s ...", what)
    started = time.monotonic()
    try:
        build(work / target.name)
        (work / target.name).rename(target)
    finally:
        remove(work)
    logger.info("built %s in %.0f s", what, time.monotonic() - started)


def used(target: Path) -> Path:
    """Notes that `target` was needed now; pruning keeps what was needed last."""
    os.utime(target)
    return target


def remove(target: Path) -> None:
    """Removes a file or a folder tree; nothing there is fine.

    A tree is taken away whole before it is deleted: an interruption leaves no half tree under its name, and of two
    that remove it at once one does.
    """
    if not target.is_dir() or target.is_symlink():
        target.unlink(missing_ok=True)
        return
    doomed = Path(tempfile.mkdtemp(prefix=f".{target.name}.gone.", dir=target.parent))
    with contextlib.suppress(FileNotFoundError):
        target.rename(doomed / target.name)
    shutil.rmtree(doomed)


def prune(folder: Path, pattern: str, *, keep: int) -> list[Path]:
    """Removes all but the `keep` most recently used entries that match `pattern`; returns what went."""
    entries = sorted(folder.glob(pattern), key=lambda entry: entry.lstat().st_mtime, reverse=True)
    for entry in entries[keep:]:
        remove(entry)
    return entries[keep:]


def run(*command: str | Path, what: str, stdin: str | None = None, cwd: Path | None = None) -> str:
    """Runs a program to its end and returns its standard output.

    Raises BuildError, with the end of what the program said, when it fails or is not installed.
    """
    arguments = [str(part) for part in command]
    logger.debug("running %s", " ".join(arguments))
    try:
        done = subprocess.run(arguments, input=stdin, cwd=cwd, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise BuildError(
            f"{what} needs the program {arguments[0]}: run `python -m e2e.cluster prerequisites`"
        ) from None
    if done.returncode:
        raise BuildError(failure(what, arguments, done.returncode, done.stdout + done.stderr))
    return done.stdout


def failure(what: str, arguments: Sequence[str], code: int, output: str) -> str:
    """The message for a program that failed: what was being done, how, and the end of what it said."""
    tail = "\n".join(output.strip().splitlines()[-25:])
    return f"{what} failed: `{' '.join(arguments)}` ended with {code} and said:\n{tail}"
