"""Where the servers of a pod listen: at every address that it has, of whichever family."""

from pathlib import Path

EVERY: None = None
"""For asyncio's servers, which open a socket for each family."""
_IPV6_ADDRESSES = Path("/proc/net/if_inet6")
_SCOPE_COLUMN = 3
_GLOBAL = "00"


def for_one_socket(addresses: Path = _IPV6_ADDRESSES) -> str:
    """Return what a server with a single socket, such as vLLM, has to listen at.

    `::` takes IPv4 too, whose clients then show as `::ffff:10.0.0.1` in logs: only where the pod has an IPv6 address by
    which others may come.
    """
    try:
        lines = addresses.read_text().splitlines()
    except FileNotFoundError:
        lines = []  # a kernel without IPv6
    is_reached_by_ipv6 = any(line.split()[_SCOPE_COLUMN] == _GLOBAL for line in lines)
    return "::" if is_reached_by_ipv6 else "0.0.0.0"  # noqa: S104 - it serves the pod's address
