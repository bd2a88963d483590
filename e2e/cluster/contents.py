"""containerd's content for a new node: a clone of a seed that already holds every image.

The clone shares the seed's files (hard links), so that it takes seconds and no disk. The databases are copied: a
second containerd would wait for ever on the lock of a shared one.
"""

import importlib
import importlib.util
import shutil
import subprocess
from pathlib import Path
from typing import Protocol, cast




class Seeds(Protocol):
    """Where seeds come from; `e2e.cluster.images.seed` is the one there is."""

    def seed(self) -> Path | None:
        """A containerd root with all images, building what is missing; None for an empty start."""
        ...


def images_seeds() -> Seeds:
    """The seeds of `e2e.cluster.images`. Imported late: that package uses this one's configuration of containerd."""
    if importlib.util.find_spec("e2e.cluster.images.seed") is None:
        return _Nothing()
    return cast(Seeds, importlib.import_module("e2e.cluster.images.seed"))


class _Nothing:
    def seed(self) -> Path | None:
        return None


def clone(target: Path, seeds: Seeds) -> None:
    """Makes `target`, which must not exist, a root for a new containerd; raises RuntimeError when it cannot."""
    source = seeds.seed()
    if source is None:
        target.mkdir(parents=True)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    command = ["cp", "--archive", "--link", "--", str(source), str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"cloning {source} to {target} failed: {done.stderr.strip()[-500:]}; both must be on one disk")
    for database in target.rglob("*.db"):
        _unshare(database)


def _unshare(file: Path) -> None:
    copy = file.with_name(f"{file.name}.copy")
    shutil.copy2(file, copy)
    copy.replace(file)
