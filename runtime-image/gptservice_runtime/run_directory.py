"""The folder that supervisor and engine share: in memory, and no other pod's.

The cache would not do: it may be full while the model is there, and whoever shares it could cut the shared memory short
under an engine that serves, which the kernel answers with SIGBUS.
"""

import contextlib
import logging
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path

from gptservice_runtime import contract, control, engine

_log = logging.getLogger(__name__)
_FOR_OWNER = 0o700
_LEFT_SECONDS = 24 * 3600.0


class NoRunDirectoryError(Exception):
    """It cannot be made anywhere; the text says why not."""


def made(paths: engine.EnginePaths) -> tuple[engine.EnginePaths, control.ControlBlock]:
    """Make it, where an earlier container may have left one, with a new block; NoRunDirectoryError.

    Where the folder that the paths name has no room, as shared memory that engines before have filled, it is another.
    """
    failures: list[str] = []
    for folder in (paths.run_directory, Path(contract.TEMPORARY_ROOT, engine.RUN_FOLDER)):
        found = replace(paths, run_directory=folder)
        try:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(mode=_FOR_OWNER, parents=True)
            return found, control.ControlBlock.create(found.control_file)
        except OSError as error:
            failures.append(f"cannot write to {error.filename or folder} ({error.strerror})")
            _log.warning("%s", failures[-1])
    remedy = f"mount volumes at {contract.SHARED_MEMORY_ROOT} and {contract.TEMPORARY_ROOT} that UID {os.getuid()} may"
    raise NoRunDirectoryError(f"{', '.join(failures)}: {remedy} write to")


def remove_old(cache_root: Path) -> None:
    """What earlier versions left on the cache volume, a folder for every pod that ever was; not those of yesterday."""
    with contextlib.suppress(OSError):
        for folder in (cache_root / "run").iterdir():
            if time.time() - folder.stat().st_mtime > _LEFT_SECONDS:
                shutil.rmtree(folder, ignore_errors=True)
        (cache_root / "run").rmdir()
