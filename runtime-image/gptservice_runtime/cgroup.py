"""How often the kernel killed a process of this container for want of memory."""

import re
from pathlib import Path

_COUNTER = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)


_ROOT = Path("/sys/fs/cgroup")
_MEMBERSHIP = Path("/proc/self/cgroup")


def oom_kills(root: Path = _ROOT, membership: Path = _MEMBERSHIP) -> int | None:
    """The counter of our own cgroup (v2, or v1's memory controller); None where it cannot be read."""
    for path in _candidates(root, _read(membership)):
        if (match := _COUNTER.search(_read(path))) is not None:
            return int(match[1])
    return None


def _candidates(root: Path, membership: str) -> list[Path]:
    """Our own cgroup's file first; with a cgroup namespace, or v1's bind mount, it is found at the root."""
    unified, memory = "", ""
    for line in membership.splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            unified = path.lstrip("/")
        elif "memory" in controllers.split(","):
            memory = path.lstrip("/")
    v1, v2 = root / "memory", root
    return [
        v1 / memory / "memory.oom_control",
        v1 / "memory.oom_control",
        v2 / unified / "memory.events",
        v2 / "memory.events",
    ]


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
