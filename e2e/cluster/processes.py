"""Starts, finds and ends the processes of a cluster, none of which is a child of the command that started it.

A process is identified by its id and its start time, so that an id used again is never taken for ours. Every process
carries the cluster's folder in its environment: one whose record was never written is found by that.
"""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from e2e.cluster import files

MARKER = "GPTSERVICE_CLUSTER_FOLDER"

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGESIZE")
_PROC = Path("/proc")
# Joins cgroups, then leaves the program behind as an orphan and prints its process id: the starting command need not
# live as long, and a test process with children of its own is not bothered by zombies.
_LAUNCH = """
log=$1; shift
while [ "$1" != -- ]; do echo 0 > "$1" || exit 97; shift; done; shift
"$@" </dev/null >>"$log" 2>&1 & echo $!
"""


class StartError(Exception):
    """A process could not be started or ended at once; the message holds the end of its log."""


@dataclass(frozen=True)
class Process:
    """A running program: `started` is in clock ticks since the machine's start."""

    component: str
    pid: int
    started: int


@dataclass(frozen=True)
class Usage:
    """CPU time in seconds since the process's start, resident memory in bytes."""

    cpu_seconds: float
    resident_bytes: int


@dataclass(frozen=True)
class Surroundings:
    """Where a cluster's processes run.

    `prefix` enters namespaces (and must then fork, as nsenter does for a process namespace); `cgroup_files` are the
    `cgroup.procs` of the cgroups to join.
    """

    folder: Path
    search_path: str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    prefix: tuple[str, ...] = ()
    cgroup_files: tuple[Path, ...] = ()

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """A small environment of our own: a proxy setting of the user's would break calls inside the cluster."""
        own = {"PATH": self.search_path, "HOME": str(self.folder), "LANG": "C.UTF-8", MARKER: str(self.folder)}
        return own | dict(extra or {})


def log_path(folder: Path, component: str) -> Path:
    """Where a component's output goes."""
    return folder / "logs" / f"{component}.log"


def start(
    around: Surroundings,
    component: str,
    command: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
) -> Process:
    """Starts a component in the background and records it; raises StartError when it cannot be started."""
    log = log_path(around.folder, component)
    log.parent.mkdir(parents=True, exist_ok=True)
    launch = ["/bin/sh", "-c", _LAUNCH, "sh", str(log), *map(str, around.cgroup_files), "--"]
    done = subprocess.run(
        [*launch, *around.prefix, *command],
        env=around.environment(environment),
        capture_output=True,
        start_new_session=True,
        text=True,
        check=False,
    )
    if done.returncode or not done.stdout.strip():
        raise StartError(f"{component} could not be started (status {done.returncode}): {done.stderr.strip()}")
    pid = int(done.stdout)
    if around.prefix:
        pid = _entered(pid, component, log)
    return _record(around.folder, component, pid, log)


def recorded(folder: Path) -> list[Process]:
    """The processes started for a cluster, in the order of their start, alive or not."""
    records = [json.loads(path.read_text()) for path in (folder / "processes").glob("*.json")]
    return sorted((Process(**record) for record in records), key=lambda process: process.started)


def alive(process: Process) -> bool:
    """Whether this very process still runs (a zombie does not)."""
    stat = _stat(process.pid)
    return stat is not None and stat.started == process.started and stat.state != "Z"


def usage(process: Process) -> Usage | None:
    """What the process has used; None when it is gone."""
    stat = _stat(process.pid)
    if stat is None or stat.started != process.started or stat.state == "Z":
        return None
    return Usage(stat.cpu_ticks / _TICKS_PER_SECOND, stat.resident_pages * _PAGE_BYTES)


def stop(process: Process, *, grace_seconds: float) -> None:
    """SIGTERM, then SIGKILL after the grace; returns when the process is gone."""
    if alive(process):
        _signal(process.pid, signal.SIGTERM)
    if not _wait_gone([process], grace_seconds):
        kill([process])


def kill(processes: Iterable[Process]) -> None:
    """SIGKILL to all; returns when they are gone, or raises TimeoutError after 10 seconds."""
    targets = [process for process in processes if alive(process)]
    for process in targets:
        _signal(process.pid, signal.SIGKILL)
    if not _wait_gone(targets, 10):
        left = [f"{process.component} ({process.pid})" for process in targets if alive(process)]
        raise TimeoutError(f"still there 10 s after SIGKILL, probably stuck in the kernel: {', '.join(left)}")


def marked(folder: Path) -> list[Process]:
    """Every process on the machine that carries the cluster's mark, recorded or not, but not this one."""
    mark = f"{MARKER}={folder}".encode()
    found = [
        Process(f"pid {pid}", pid, stat.started)
        for pid in _pids()
        if pid != os.getpid() and mark in _environment_of(pid) and (stat := _stat(pid)) and stat.state != "Z"
    ]
    return found


def children(pid: int) -> list[int]:
    """The direct children of a process; empty when it is gone."""
    try:
        return [int(child) for child in (_PROC / f"{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def parent(pid: int) -> int:
    """The parent's id; 0 when the process is gone."""
    stat = _stat(pid)
    return stat.parent if stat else 0


def log_tail(log: Path, lines: int = 12) -> str:
    """The end of a log, for an error message."""
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return "(no output)"


@dataclass(frozen=True)
class _Stat:
    state: str
    parent: int
    cpu_ticks: int
    started: int
    resident_pages: int


def _stat(pid: int) -> _Stat | None:
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    # The second field is the program's name in parentheses and may hold anything; field 3 follows the last one.
    fields = text[text.rindex(")") + 2 :].split()
    return _Stat(fields[0], int(fields[1]), int(fields[11]) + int(fields[12]), int(fields[19]), int(fields[21]))


def _record(folder: Path, component: str, pid: int, log: Path) -> Process:
    stat = _stat(pid)
    if stat is None:
        raise StartError(f"{component} ended at once:\n{log_tail(log)}")
    process = Process(component, pid, stat.started)
    files.write(folder / "processes" / f"{component}.json", json.dumps(asdict(process)))
    return process


def _entered(wrapper: int, component: str, log: Path) -> int:
    """The process that the namespace-entering wrapper forked: the one to watch, measure and signal."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if inside := children(wrapper):
            return inside[0]
        if _stat(wrapper) is None:
            break
        time.sleep(0.005)
    raise StartError(f"{component} could not be started inside the cluster's namespaces:\n{log_tail(log)}")


def _wait_gone(processes: Iterable[Process], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    left = list(processes)
    while left := [process for process in left if alive(process)]:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _pids() -> list[int]:
    return [int(path.name) for path in _PROC.iterdir() if path.name.isdigit()]


def _environment_of(pid: int) -> list[bytes]:
    try:
        return (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return []
