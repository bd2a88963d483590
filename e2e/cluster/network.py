"""Addresses of node clusters, and the pair of interfaces that joins one to this machine.

Cluster number N has 10.200.N.1/30 on this machine, 10.200.N.2/30 inside, and 10.(100+N).0.0/16 for its pods, which
this machine reaches through a route. The Service range is the same in all clusters and exists only inside.
"""

import ipaddress
import json
import subprocess
from collections.abc import Iterable
from typing import Any, cast

from e2e.cluster import controlplane, processes

NUMBERS = range(1, 100)


def addresses(number: int) -> controlplane.Addresses:
    """Where the control plane of cluster `number` listens: its own network, so every port is the default."""
    return controlplane.Addresses(inner(number), "0.0.0.0", pod_range(number), controlplane.DEFAULT_PORTS)


def outer(number: int) -> str:
    """This machine's address on the link; pods reach services of this machine under it."""
    return f"10.200.{number}.1"


def inner(number: int) -> str:
    """The cluster's (and its node's) address."""
    return f"10.200.{number}.2"


def pod_range(number: int) -> str:
    """The addresses of the cluster's pods."""
    return f"10.{100 + number}.0.0/16"


def interface(number: int) -> str:
    """The link's end on this machine."""
    return f"gptservice{number}"


def in_use(number: int) -> bool:
    """Whether an interface or a route of this machine already has a cluster's addresses."""
    link = ipaddress.IPv4Network(f"{outer(number)}/30", strict=False)
    pods = ipaddress.IPv4Network(pod_range(number))
    return any(_collides(route, (link, pods)) for route in _routes()) or interface(number) in _interfaces()


def connect(number: int, pid: int) -> None:
    """Links this machine with the network namespace of process `pid`; all of it goes when that namespace goes."""
    outside, inside = interface(number), "eth0"
    _ip("link", "add", outside, "type", "veth", "peer", "name", inside, "netns", str(pid))
    _ip("addr", "add", f"{outer(number)}/30", "dev", outside)
    _ip("link", "set", outside, "up")
    for step in (
        ("link", "set", "lo", "up"),
        ("addr", "add", f"{inner(number)}/30", "dev", inside),
        ("link", "set", inside, "up"),
        # Without a default route nothing on the node itself could reach a Service's address.
        ("route", "add", "default", "via", outer(number)),
    ):
        _run(["nsenter", "-t", str(pid), "-n", "ip", *step])
    _ip("route", "add", pod_range(number), "via", inner(number))


def disconnect(number: int) -> None:
    """Removes the link (and with it addresses and routes) if it is there."""
    if interface(number) not in _interfaces():
        return
    try:
        _ip("link", "del", interface(number))
    except RuntimeError:
        # The kernel takes it away by itself, at a time of its own, once the namespace at its other end has gone.
        if interface(number) in _interfaces():
            raise


def _collides(route: str, wanted: Iterable[ipaddress.IPv4Network]) -> bool:
    """A wider route, such as a VPN's 10.0.0.0/8, is no collision: the more specific one wins."""
    if route == "default":
        return False
    return any(ipaddress.IPv4Network(route).subnet_of(own) for own in wanted)


def _routes() -> list[str]:
    return [
        str(route["dst"]) for route in _json("-4", "route", "show", "table", "all") if route.get("type") != "broadcast"
    ]


def _interfaces() -> set[str]:
    return {str(link["ifname"]) for link in _json("link", "show")}


def _json(*arguments: str) -> list[dict[str, Any]]:
    return cast(list[dict[str, Any]], json.loads(_run(["ip", "-j", *arguments]) or "[]"))


def _ip(*arguments: str) -> None:
    _run(["ip", *arguments])


def _run(command: list[str]) -> str:
    # A PATH of our own: a user's may lack the folder of `ip`.
    environment = {"PATH": processes.Surroundings.search_path}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise RuntimeError(f"`{' '.join(command)}` failed with status {done.returncode}: {done.stderr.strip()}")
    return done.stdout
