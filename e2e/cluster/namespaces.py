"""The namespaces of a node cluster: made by `unshare`, kept by process 1 in them, entered by `nsenter`.

When process 1 ends, the kernel ends every other process inside, and all mounts and interfaces go.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from e2e.cluster import node_init, paths, processes, readiness

INIT = "init"

_UNSHARE = (
    "unshare", "--net", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child=KILL",
    "--mount-proc",
)  # fmt: skip


def create(around: processes.Surroundings) -> processes.Process:
    """Makes the namespaces and returns process 1 once its mounts are in place."""
    folder = around.folder
    for name in ("kubelet", "cni", "pod-logs", "container-logs"):
        (folder / "node" / name).mkdir(parents=True, exist_ok=True)
    # Made now, so that a model prepared later appears inside too.
    paths.models().mkdir(parents=True, exist_ok=True)
    outside = processes.Surroundings(folder, around.search_path, _UNSHARE, around.cgroup_files)
    command = [sys.executable, "-m", node_init.__name__, str(folder)]
    environment = {"PYTHONPATH": str(paths.REPOSITORY), "GPTSERVICE_CACHE": str(paths.cache())}
    process = processes.start(outside, INIT, command, environment=environment)
    readiness.wait(
        "private mounts of the node",
        (folder / node_init.READY).exists,
        seconds=30,
        process=process,
        log=processes.log_path(folder, INIT),
        interval_seconds=0.01,
    )
    return process


def entering(pid: int) -> tuple[str, ...]:
    """The command prefix that runs something inside. It forks: the process gets an id inside and dies with process 1.

    Never `ip netns exec` instead: it mounts a /sys without control groups.
    """
    return ("nsenter", "-t", str(pid), "-m", "-n", "-p", "--")


def entering_from(pid: int, folder: Path, command: Sequence[str]) -> list[str]:
    """Runs a command inside, in the same folder if that exists there."""
    return [*entering(pid), "/bin/sh", "-c", 'cd "$0" 2>/dev/null; exec "$@"', str(folder), *command]


def network_of(pid: int) -> Path:
    """The network namespace's file."""
    return Path(f"/proc/{pid}/ns/net")
