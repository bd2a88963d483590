"""containerd's content for a new node, made from a seed that already holds every image.

The seed's snapshots (100,000 files) stay where they are: the node sees each through a read-only mount of its own.
Image archives are shared as hard links, everything that containerd changes is copied: a second containerd would
wait for ever on the lock of a shared database. So a node's content takes milliseconds to make and to remove.
"""

import importlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, cast

from e2e.cluster import files, paths, records

# Where, in a cluster's folder, the mounts are listed for the node's process 1.
MOUNTS = "node/snapshots.json"

_BLOBS = "io.containerd.content.v1.content/blobs"
_SNAPSHOTS = "io.containerd.snapshotter.v1.overlayfs/snapshots"
# A snapshot's files; beside it lies a work folder.
_FILES = "fs"


class Seeds(Protocol):
    """Where seeds come from; the module `e2e.cluster.images.seed` is the one there is."""

    def seed(self) -> Path:
        """A containerd root with all images, built if it is missing. Nothing may ever change in it."""
        ...


def images_seeds() -> Seeds:
    """The seeds of `e2e.cluster.images`, imported late: that package uses this one."""
    return cast(Seeds, importlib.import_module("e2e.cluster.images.seed"))


def prepare(cluster: Path, root: Path, seed: Path) -> None:
    """Makes `root`, below the cluster's folder, a containerd root with the seed's images, once process 1 has mounted.

    Raises OSError, also when seed and cluster lie on different disks.
    """
    # Written first: from here on the seed is in use.
    mounts = {str(seed / place): str(root / place) for place in _snapshots(seed)}
    files.write(cluster / MOUNTS, json.dumps(mounts, indent=1))
    _copy(seed, root, seed)


def mounts(cluster: Path) -> dict[Path, Path]:
    """What process 1 mounts, as source -> target; empty before `prepare`."""
    try:
        content = json.loads((cluster / MOUNTS).read_text())
    except (FileNotFoundError, NotADirectoryError):
        return {}
    return {Path(source): Path(target) for source, target in content.items()}


def in_use(seed: Path) -> bool:
    """Whether some cluster's node sees the seed's snapshots: then it must not be removed."""
    folders = map(paths.cluster, records.names())
    return any(source.is_relative_to(seed) for folder in folders for source in mounts(folder))


def _snapshots(seed: Path) -> Iterator[Path]:
    for snapshot in sorted((seed / _SNAPSHOTS).glob("*")):
        yield snapshot.relative_to(seed) / _FILES


def _copy(source: Path, target: Path, seed: Path) -> None:
    target.mkdir(parents=True)
    shutil.copystat(source, target)
    for entry in os.scandir(source):
        place = target / entry.name
        if entry.is_symlink():
            place.symlink_to(os.readlink(entry.path))
        elif not entry.is_dir():
            _copy_file(Path(entry.path), place, shared=source.is_relative_to(seed / _BLOBS))
        elif entry.name == _FILES and source.parent == seed / _SNAPSHOTS:
            place.mkdir()
        else:
            _copy(Path(entry.path), place, seed)


def _copy_file(source: Path, target: Path, *, shared: bool) -> None:
    if shared:
        os.link(source, target)
    else:
        shutil.copy2(source, target)
