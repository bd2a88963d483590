"""The control groups of node clusters, under cgroup v1, v2 and both at once.

Each cluster has one group of its own directly below every hierarchy's root: `sys` in it holds the cluster's
processes, the kubelet makes the pods' groups beside it.
"""

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

REQUIRED = {"cpu", "cpuset", "memory", "pids"}

_MOUNTS = Path("/proc/self/mountinfo")
_SYSTEM = "sys"


@dataclass(frozen=True)
class Hierarchy:
    """One mounted tree of control groups; `unified` is cgroup v2."""

    root: Path
    unified: bool
    options: tuple[str, ...] = ()
    """The mount's options, which under v1 name the controllers."""


def hierarchies(mounts: str | None = None) -> list[Hierarchy]:
    """The trees mounted on this machine, read from a mountinfo text."""
    found: list[Hierarchy] = []
    for line in (mounts or _MOUNTS.read_text()).splitlines():
        place, _, kind = line.partition(" - ")
        kind, _, options = kind.split(" ", 2)
        if kind in ("cgroup", "cgroup2"):
            root = Path(place.split(" ")[4])
            found.append(Hierarchy(root, kind == "cgroup2", tuple(options.split(","))))
    return found


def controllers() -> set[str]:
    """The controllers of all mounted trees."""
    found = set[str]()
    for hierarchy in hierarchies():
        if hierarchy.unified:
            found.update((hierarchy.root / "cgroup.controllers").read_text().split())
        else:
            found.update(hierarchy.options)
    return found


def create(name: str) -> list[Path]:
    """Makes a cluster's groups and returns the files through which its processes join."""
    return [_create(hierarchy, name) for hierarchy in hierarchies()]


def remove(name: str) -> None:
    """Kills every process in a cluster's groups and removes them; raises TimeoutError when they stay busy."""
    deadline = time.monotonic() + 15
    roots = [hierarchy.root / name for hierarchy in hierarchies()]
    while left := [root for root in roots if root.exists()]:
        if time.monotonic() > deadline:
            raise TimeoutError(f"control groups are still in use after 15 s: {', '.join(map(str, left))}")
        for root in left:
            _kill(root)
            _remove_tree(root)
        time.sleep(0.02)


def exists(name: str) -> bool:
    """Whether any tree has a group of this cluster."""
    return any((hierarchy.root / name).exists() for hierarchy in hierarchies())


def _create(hierarchy: Hierarchy, name: str) -> Path:
    group = hierarchy.root / name
    group.mkdir(exist_ok=True)
    if hierarchy.unified:
        _delegate(hierarchy.root)
        _delegate(group)
    elif (group / "cpuset.cpus").exists():
        # An empty cpuset takes no process; later groups inherit through clone_children.
        for file in ("cpuset.cpus", "cpuset.mems"):
            (group / file).write_text((hierarchy.root / file).read_text())
        (group / "cgroup.clone_children").write_text("1")
    (group / _SYSTEM).mkdir(exist_ok=True)
    return group / _SYSTEM / "cgroup.procs"


def _delegate(group: Path) -> None:
    """Lets groups below use the controllers that this one has; beside cgroup v1 it has none."""
    for name in (group / "cgroup.controllers").read_text().split():
        try:
            (group / "cgroup.subtree_control").write_text(f"+{name}")
        except OSError as error:
            if name in REQUIRED:
                raise OSError(error.errno, f"enabling cgroup controller {name} in {group}: {error.strerror}") from error


def _kill(root: Path) -> None:
    for file in root.rglob("cgroup.procs"):
        with contextlib.suppress(OSError):
            for pid in file.read_text().split():
                os.kill(int(pid), signal.SIGKILL)


def _remove_tree(root: Path) -> None:
    """Bottom up, as far as it goes: a group of dying processes is busy for a moment."""
    for folder, _, _ in os.walk(root, topdown=False):
        with contextlib.suppress(OSError):
            Path(folder).rmdir()
