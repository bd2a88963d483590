"""Ways from a process on this machine into a cluster's network."""

import ctypes
import os
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from e2e.kubectl import Kubectl, KubectlError

# Of one entry of getaddrinfo, as aiohttp calls it.
SocketFactory = Callable[[Any], socket.socket]

_CLONE_NEWNET = 0x40000000
_FORWARDING = re.compile(r"Forwarding from (127\.0\.0\.1:\d+)")


@dataclass(frozen=True)
class Route:
    """Where a Service answers: the base URL, and how to make sockets that get there (None: as usual)."""

    url: str
    socket_factory: SocketFactory | None = None


class Reach(Protocol):
    """How a Service of one cluster is reached."""

    def route(self, namespace: str, name: str, *, port: int | None = None) -> AbstractContextManager[Route]:
        """Opens the way to a Service's port (its first by default) for as long as the block lasts."""
        ...


@dataclass(frozen=True)
class ThroughNamespace:
    """Through the Service's cluster IP, with sockets made in the cluster's network namespace. Needs root."""

    kubectl: Kubectl
    network: Path
    """A network namespace's file, such as /proc/<pid>/ns/net."""

    @contextmanager
    def route(self, namespace: str, name: str, *, port: int | None = None) -> Iterator[Route]:
        """See Reach; raises NotFoundError when there is no such Service."""
        spec = self.kubectl.get("service", name, namespace=namespace)["spec"]
        number = port if port is not None else spec["ports"][0]["port"]
        yield Route(f"http://{spec['clusterIP']}:{number}", sockets_in(self.network))


@dataclass(frozen=True)
class ThroughPortForward:
    """Through `kubectl port-forward`, for a cluster whose network this machine is not in. Picks one pod."""

    kubectl: Kubectl

    @contextmanager
    def route(self, namespace: str, name: str, *, port: int | None = None) -> Iterator[Route]:
        """See Reach; raises KubectlError when the forward cannot be opened."""
        spec = self.kubectl.get("service", name, namespace=namespace)["spec"]
        number = port if port is not None else spec["ports"][0]["port"]
        arguments = ("port-forward", "--namespace", namespace, f"service/{name}", f":{number}")
        with self.kubectl.background(*arguments) as child:
            line = child.stdout.readline() if child.stdout else ""
            if not (found := _FORWARDING.search(line)):
                said = child.stderr.read().strip() if child.stderr else ""
                raise KubectlError(f"kubectl {' '.join(arguments)}: {said or line}")
            yield Route(f"http://{found[1]}")


def sockets_in(network: Path) -> SocketFactory:
    """Makes sockets that belong to another network namespace; a socket keeps the namespace it was made in."""

    def make(info: Any) -> socket.socket:
        family, kind, protocol, *_ = info
        with _entered(network):
            return socket.socket(family, kind, protocol)

    return make


@contextmanager
def _entered(network: Path) -> Iterator[None]:
    """This thread, and only it, in another network namespace; nothing may be awaited inside."""
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        other = os.open(network, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _setns(other)
        finally:
            os.close(other)
        try:
            yield
        finally:
            _setns(own)
    finally:
        os.close(own)


def _setns(namespace: int) -> None:
    """os.setns, which Python has from 3.12 on."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, _CLONE_NEWNET):
        number = ctypes.get_errno()
        raise OSError(number, f"setns into the cluster's network: {os.strerror(number)}; this takes root")
