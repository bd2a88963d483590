"""Serves devices to a kubelet and registers them, again whenever the kubelet was restarted.

The control file is read every POLL_SECONDS: `{"unhealthy": ["GPU-fake-2"]}` marks devices; without the file
all are healthy.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import grpc  # pyright: ignore[reportMissingTypeStubs]

from e2e.cluster.device_plugin import messages

POLL_SECONDS = 0.2
REGISTRATION_SECONDS = 5
DEVICE_PREFIX = "GPU-fake-"
VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"
KUBELET_SOCKET = "kubelet.sock"

logger = logging.getLogger(__name__)
aio: Any = grpc.aio
rpc: Any = grpc


@dataclass(frozen=True)
class Offer:
    """What is advertised: `count` devices of a resource."""

    resource: str
    count: int

    @property
    def socket_name(self) -> str:
        """The plugin's socket within the kubelet's folder."""
        return f"gptservice-{self.resource.replace('/', '-')}.sock"

    def devices(self, unhealthy: frozenset[str]) -> list[tuple[str, str]]:
        """Each device's id and health."""
        ids = [f"{DEVICE_PREFIX}{number}" for number in range(self.count)]
        return [(id_, messages.UNHEALTHY if id_ in unhealthy else messages.HEALTHY) for id_ in ids]


class Health:
    """Which devices are marked unhealthy at the moment; watchers are told of every change."""

    def __init__(self, control: Path) -> None:
        """Nothing is read before the first `refresh`."""
        self.unhealthy: frozenset[str] = frozenset()
        self._control = control
        self._changed = asyncio.Condition()

    async def refresh(self) -> None:
        """Reads the control file; one that cannot be understood changes nothing."""
        try:
            unhealthy = parse_control(self._control.read_text())
        except FileNotFoundError:
            unhealthy = frozenset[str]()
        except (OSError, ValueError) as error:
            logger.warning("%s left as it was: %s", self._control, error)
            return
        if unhealthy != self.unhealthy:
            logger.info("unhealthy: %s", ", ".join(sorted(unhealthy)) or "none")
            async with self._changed:
                self.unhealthy = unhealthy
                self._changed.notify_all()

    async def states(self) -> AsyncIterator[frozenset[str]]:
        """The present state, then every other one."""
        while True:
            sent = self.unhealthy
            yield sent
            async with self._changed:
                while self.unhealthy == sent:
                    await self._changed.wait()


def parse_control(text: str) -> frozenset[str]:
    """The devices that a control file marks unhealthy. Raises ValueError for anything that is not such a
    file.
    """
    content: object = json.loads(text)
    marked = cast(dict[str, object], content).get("unhealthy") if isinstance(content, dict) else None
    ids = cast(list[object], marked) if isinstance(marked, list) else None
    if ids is None or not all(isinstance(id_, str) for id_ in ids):
        raise ValueError(f'expected {{"unhealthy": ["{DEVICE_PREFIX}0"]}}, found {text.strip()[:80]!r}')
    return frozenset(str(id_) for id_ in ids)


async def serve(offer: Offer, socket_dir: Path, control: Path, stop: asyncio.Event) -> None:
    """Offers the devices until `stop` is set. A kubelet that is not there yet is waited for."""
    health = Health(control)
    while not stop.is_set():
        await health.refresh()
        async with _listening(offer, health, socket_dir / offer.socket_name):
            # Taken before registering: a kubelet that restarts in between is noticed afterwards.
            identity = _identity(socket_dir)
            if await _registered(offer, socket_dir):
                await _watch(health, offer, socket_dir, identity, stop)
        await _pause(stop)


async def _watch(
    health: Health, offer: Offer, socket_dir: Path, identity: tuple[int, int] | None, stop: asyncio.Event
) -> None:
    """Returns when the kubelet was restarted (it then empties its folder, our socket included) or `stop` is
    set.
    """
    while not stop.is_set():
        await health.refresh()
        if _identity(socket_dir) != identity or not (socket_dir / offer.socket_name).exists():
            logger.info("the kubelet was restarted: registering again")
            return
        await _pause(stop)


async def _pause(stop: asyncio.Event) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), POLL_SECONDS)


def _identity(socket_dir: Path) -> tuple[int, int] | None:
    """Tells one kubelet's socket from the next one's, also if the inode number is used again."""
    try:
        status = (socket_dir / KUBELET_SOCKET).stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_ctime_ns


async def _registered(offer: Offer, socket_dir: Path) -> bool:
    request = messages.RegisterRequest(
        version=messages.VERSION,
        endpoint=offer.socket_name,
        resource_name=offer.resource,
        options=messages.DevicePluginOptions(),
    )
    async with aio.insecure_channel(f"unix:{socket_dir / KUBELET_SOCKET}") as channel:
        register = channel.unary_unary(
            f"/{messages.REGISTRATION_SERVICE}/Register",
            request_serializer=messages.RegisterRequest.SerializeToString,
            response_deserializer=messages.Empty.FromString,
        )
        try:
            await register(request, timeout=REGISTRATION_SECONDS)
        except rpc.RpcError as error:
            logger.info("the kubelet does not register %s yet: %s", offer.resource, error.details())
            return False
    logger.info("registered %d x %s", offer.count, offer.resource)
    return True


@asynccontextmanager
async def _listening(offer: Offer, health: Health, socket: Path) -> AsyncIterator[None]:
    _remove(socket)
    server = aio.server()
    server.add_generic_rpc_handlers((_handlers(offer, health),))
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    try:
        yield
    finally:
        # No grace: the kubelet's ListAndWatch never ends by itself.
        await server.stop(None)
        _remove(socket)


def _remove(socket: Path) -> None:
    socket.unlink(missing_ok=True)


def _handlers(offer: Offer, health: Health) -> Any:
    async def options(_request: Any, _context: Any) -> Any:
        return messages.DevicePluginOptions()

    async def list_and_watch(_request: Any, _context: Any) -> AsyncIterator[Any]:
        async for unhealthy in health.states():
            devices = [messages.Device(ID=id_, health=state) for id_, state in offer.devices(unhealthy)]
            yield messages.ListAndWatchResponse(devices=devices)

    async def allocate(request: Any, _context: Any) -> Any:
        responses = [_container_response(container.devices_ids) for container in request.container_requests]
        return messages.AllocateResponse(container_responses=responses)

    empty = messages.Empty.FromString
    methods = {
        "GetDevicePluginOptions": rpc.unary_unary_rpc_method_handler(
            options, empty, messages.DevicePluginOptions.SerializeToString
        ),
        "ListAndWatch": rpc.unary_stream_rpc_method_handler(
            list_and_watch, empty, messages.ListAndWatchResponse.SerializeToString
        ),
        "Allocate": rpc.unary_unary_rpc_method_handler(
            allocate, messages.AllocateRequest.FromString, messages.AllocateResponse.SerializeToString
        ),
    }
    return rpc.method_handlers_generic_handler(messages.PLUGIN_SERVICE, methods)


def _container_response(device_ids: Iterable[str]) -> Any:
    return messages.ContainerAllocateResponse(envs={VISIBLE_DEVICES: ",".join(device_ids)})
