"""The engine's processes, as the kernel has them."""

import contextlib
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")


@dataclass(frozen=True, kw_only=True)
class Process:
    """One process, or what is left of it."""

    pid: int
    name: str
    """At most 15 characters; a process may choose it."""
    state: str
    """The kernel's letter: T is stopped, Z and X have ended."""


def of_group(group: int, proc: Path = _PROC) -> tuple[Process, ...]:
    """The processes of a process group; without those that end meanwhile."""
    found: list[Process] = []
    for folder in proc.glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            process, its_group = _parse((folder / "stat").read_text(errors="replace"))
            if its_group == group:
                found.append(process)
    return tuple(found)


def _parse(stat: str) -> tuple[Process, int]:
    """The name is in parentheses and may hold any character, those too."""
    pid, _, rest = stat.partition(" (")
    name, _, after = rest.rpartition(") ")
    state, _parent, group, *_ = after.split()
    return Process(pid=int(pid), name=name, state=state), int(group)
