"""The numbers of the node clusters on this machine: whoever holds one may use its addresses, interface and cgroups.

Claims lie in /run, not in the cache: two caches share one machine's addresses, and a restart clears both.
"""

from pathlib import Path

from e2e.cluster import files, network

_CLAIMS = Path("/run/gptservice-clusters")


def claim(folder: Path) -> int:
    """Takes the lowest free number for the cluster in `folder` (the number it already has, if it has one).

    Raises RuntimeError when there is none left.
    """
    with files.locked(_CLAIMS / ".lock"):
        for number in network.NUMBERS:
            if _owner(number) == folder:
                return number
        for number in network.NUMBERS:
            if _owner(number) is None and not network.in_use(number):
                files.write(_CLAIMS / str(number), str(folder))
                return number
    raise RuntimeError(
        f"all of 10.200.1.0/30 to 10.200.{network.NUMBERS[-1]}.0/30 are taken on this machine: end some node "
        f"clusters, or remove routes and interfaces with these addresses (`ip route`, `ip link`)"
    )


def held_by(folder: Path) -> list[int]:
    """The numbers that the cluster in `folder` holds: none or one."""
    return [number for number in network.NUMBERS if _owner(number) == folder]


def abandoned() -> list[int]:
    """Numbers whose cluster's folder is gone: it was removed by hand."""
    return [number for number in network.NUMBERS if (owner := _owner(number)) and not owner.exists()]


def release(number: int) -> None:
    """Gives a number back, once nothing of the cluster is left."""
    (_CLAIMS / str(number)).unlink(missing_ok=True)


def _owner(number: int) -> Path | None:
    try:
        return Path((_CLAIMS / str(number)).read_text())
    except FileNotFoundError:
        return None
