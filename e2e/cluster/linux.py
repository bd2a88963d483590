"""The system calls that Python 3.11 does not have."""

import ctypes
import os
from pathlib import Path

MS_RDONLY = 1
MS_REMOUNT = 32
MS_BIND = 4096
MS_REC = 16384
MS_SHARED = 1 << 20
_MNT_DETACH = 2
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}

_libc = ctypes.CDLL(None, use_errno=True)


def mount(source: str | Path, target: str | Path, kind: str = "", flags: int = 0, data: str = "") -> None:
    """mount(2); raises OSError."""
    arguments = (str(source).encode(), str(target).encode(), kind.encode(), flags, data.encode())
    _check(_libc.mount(*arguments[:3], ctypes.c_ulong(flags), arguments[4]), f"mount {source} at {target}")


def bind(source: str | Path, target: str | Path, *, read_only: bool = False) -> None:
    """Makes `source`, with what is mounted below it, visible at `target`; only `source` itself becomes read-only."""
    mount(source, target, flags=MS_BIND | MS_REC)
    if read_only:
        mount("none", target, flags=MS_BIND | MS_REMOUNT | MS_RDONLY)


def detach(target: str | Path) -> None:
    """umount2(2) with MNT_DETACH; raises OSError."""
    _check(_libc.umount2(str(target).encode(), _MNT_DETACH), f"unmount {target}")


def pivot_root(new_root: Path, old_root_inside: Path) -> None:
    """pivot_root(2); raises OSError, and RuntimeError on a processor that this does not know."""
    number = _PIVOT_ROOT.get(os.uname().machine)
    if number is None:
        raise RuntimeError(
            f"profile node does not know the processor {os.uname().machine}; it runs on x86_64 and aarch64"
        )
    done = _libc.syscall(number, str(new_root).encode(), str(old_root_inside).encode())
    _check(done, f"pivot_root to {new_root}")


def _check(result: int, what: str) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
