"""Containers of real pods: what the kubelet says of them, their logs, and their processes on this machine."""

from __future__ import annotations

import os
import subprocess
from datetime import datetime
from pathlib import Path

from e2e.cluster import processes
from e2e.kube import Object
from e2e.kubectl import Kubectl, KubectlError

ENGINE = "engine"


def status(pod: Object, container: str = ENGINE) -> Object:
    """The kubelet's word on one container; empty before there is one."""
    found = pod.get("status", {}).get("containerStatuses", [])
    return next((one for one in found if one["name"] == container), {})


def restarts(pod: Object) -> int:
    """How often the serving container was started again."""
    return int(status(pod).get("restartCount", 0))


def identity(pod: Object) -> tuple[str, str, int]:
    """What is the same only as long as neither the pod nor its serving container was replaced."""
    return pod["metadata"]["uid"], status(pod).get("containerID", ""), restarts(pod)


def condition(pod: Object, kind: str) -> Object:
    """One of the pod's conditions; empty when there is none yet."""
    return next((c for c in pod.get("status", {}).get("conditions", []) if c["type"] == kind), {})


def moment(text: str) -> datetime:
    """A time as Kubernetes or a container's log writes it; digits below a microsecond are cut off."""
    whole, _, fraction = text.removesuffix("Z").partition(".")
    return datetime.fromisoformat(f"{whole}.{fraction[:6].ljust(6, '0')}+00:00")


def first_process(container: Object) -> int:
    """This machine's id of the container's process 1; raises AssertionError when it is not running."""
    identifier = container["containerID"].rpartition("/")[2]
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            inside = identifier in (folder / "cgroup").read_text()
            if inside and _id_inside(folder) == "1":
                return int(folder.name)
        except OSError:  # it ended meanwhile
            continue
    raise AssertionError(f"no process of container {container['name']} ({identifier}) runs")


def _id_inside(folder: Path) -> str:
    lines = (folder / "status").read_text().splitlines()
    return next(line for line in lines if line.startswith("NSpid:")).split()[-1]


def engine_process(pod: Object) -> int:
    """This machine's id of the engine's first process, which is the child of process 1."""
    (engine,) = processes.children(first_process(status(pod)))
    return engine


def descendants(pid: int) -> dict[int, str]:
    """All processes below one, by id, with their command lines."""
    found: dict[int, str] = {}
    for child in processes.children(pid):
        found |= {child: Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()}
        found |= descendants(child)
    return found


def kill(pid: int, number: int) -> None:
    """Sends a signal; an AssertionError says that there was nobody to receive it."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        raise AssertionError(f"process {pid} had ended before it could be sent signal {number}") from None


def said(kubectl: Kubectl, *command: str) -> str:
    """What a kubectl command printed, or why it could not; for reports."""
    try:
        return kubectl.run(*command)
    except (KubectlError, subprocess.TimeoutExpired) as error:
        return f"({error})"
