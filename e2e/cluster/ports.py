"""Free ports on the loopback for the clusters of profile api."""

import socket
from collections.abc import Sequence

from e2e.cluster import files, paths, records

# Below the ephemeral ports (32768 and up), which any client may take at any moment, and below the node ports.
_RANGE = range(20000, 30000)


def assign(record: records.Record, names: Sequence[str]) -> records.Record:
    """Gives a cluster one free port for each name and saves that, so that no other cluster takes them.

    Raises RuntimeError when the range is used up.
    """
    with files.locked(paths.clusters() / ".ports.lock"):
        taken = {port for name in records.names() for port in _ports_of(name)}
        free = (port for port in _RANGE if port not in taken and _can_listen(port))
        found = dict(zip(names, free, strict=False))
        if len(found) < len(names):
            raise RuntimeError(f"no {len(names)} free ports in {_RANGE.start}-{_RANGE.stop - 1}: end some clusters")
        return records.Record(record.spec, record.phase, record.number, found).save()


def _ports_of(name: str) -> list[int]:
    try:
        record = records.load(name)
    except ValueError:
        return []
    return list(record.ports.values()) if record else []


def _can_listen(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
