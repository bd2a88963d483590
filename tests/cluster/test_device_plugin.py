"""The device plugin against a fake kubelet: both sides speak gRPC over real unix sockets."""

import asyncio
import json
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from e2e.cluster.device_plugin import messages, plugin

OFFER = plugin.Offer("nvidia.com/gpu", 3)
ALL_HEALTHY = {"GPU-fake-0": "Healthy", "GPU-fake-1": "Healthy", "GPU-fake-2": "Healthy"}


class FakeKubelet:
    """Takes registrations on `kubelet.sock` and calls the plugin as the device manager does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.registrations: asyncio.Queue[Any] = asyncio.Queue()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Like a kubelet's start: the folder is emptied, then the socket appears."""
        for entry in self.folder.iterdir():
            entry.unlink()
        server = grpc.aio.server()
        register = grpc.unary_unary_rpc_method_handler(
            self._register, messages.RegisterRequest.FromString, messages.Empty.SerializeToString
        )
        service = grpc.method_handlers_generic_handler(messages.REGISTRATION_SERVICE, {"Register": register})
        server.add_generic_rpc_handlers((service,))
        server.add_insecure_port(f"unix:{self.folder / 'kubelet.sock'}")
        await server.start()
        try:
            yield
        finally:
            await server.stop(None)
            (self.folder / "kubelet.sock").unlink(missing_ok=True)

    async def _register(self, request: Any, _context: Any) -> Any:
        await self.registrations.put(request)
        return messages.Empty()

    async def registration(self) -> Any:
        async with asyncio.timeout(20):
            return await self.registrations.get()

    @asynccontextmanager
    async def devices(self, endpoint: str) -> AsyncIterator[Callable[[], Awaitable[dict[str, str]]]]:
        """Yields a function that waits for the plugin's next list of devices: id to health."""
        async with grpc.aio.insecure_channel(f"unix:{self.folder / endpoint}") as channel:
            call = channel.unary_stream(
                f"/{messages.PLUGIN_SERVICE}/ListAndWatch",
                request_serializer=messages.Empty.SerializeToString,
                response_deserializer=messages.ListAndWatchResponse.FromString,
            )(messages.Empty())

            async def following() -> dict[str, str]:
                async with asyncio.timeout(20):
                    return {device.ID: device.health for device in (await call.read()).devices}

            yield following

    async def allocate(self, endpoint: str, *containers: list[str]) -> list[dict[str, str]]:
        """The environment that each container gets for its devices."""
        async with grpc.aio.insecure_channel(f"unix:{self.folder / endpoint}") as channel:
            call = channel.unary_unary(
                f"/{messages.PLUGIN_SERVICE}/Allocate",
                request_serializer=messages.AllocateRequest.SerializeToString,
                response_deserializer=messages.AllocateResponse.FromString,
            )
            requests = [messages.ContainerAllocateRequest(devices_ids=ids) for ids in containers]
            response = await call(messages.AllocateRequest(container_requests=requests), timeout=20)
            return [dict(container.envs) for container in response.container_responses]


@pytest.fixture
def kubelet() -> Iterator[FakeKubelet]:
    # Not in tmp_path: a unix socket's path has at most 107 characters.
    with tempfile.TemporaryDirectory(prefix="kubelet-") as folder:
        yield FakeKubelet(Path(folder))


@pytest.fixture
def control(tmp_path: Path) -> Path:
    return tmp_path / "control.json"


def write(control: Path, content: str) -> None:
    control.write_text(content)


def remove(control: Path) -> None:
    control.unlink()


@asynccontextmanager
async def serving(kubelet: FakeKubelet, control: Path) -> AsyncIterator[None]:
    stop = asyncio.Event()
    task = asyncio.create_task(plugin.serve(OFFER, kubelet.folder, control, stop))
    try:
        yield
    finally:
        stop.set()
        await asyncio.wait_for(task, 20)


async def test_registers_its_resource_and_lists_its_devices(kubelet: FakeKubelet, control: Path) -> None:
    async with kubelet.running(), serving(kubelet, control):
        request = await kubelet.registration()
        assert (request.version, request.resource_name) == ("v1beta1", "nvidia.com/gpu")
        async with kubelet.devices(request.endpoint) as following:
            assert await following() == ALL_HEALTHY


async def test_waits_for_a_kubelet_that_comes_later(kubelet: FakeKubelet, control: Path) -> None:
    async with serving(kubelet, control):
        await asyncio.sleep(2 * plugin.POLL_SECONDS)
        async with kubelet.running():
            assert (await kubelet.registration()).resource_name == "nvidia.com/gpu"


async def test_registers_again_and_is_reachable_after_a_kubelet_restart(kubelet: FakeKubelet, control: Path) -> None:
    async with serving(kubelet, control):
        async with kubelet.running():
            await kubelet.registration()
        async with kubelet.running():
            request = await kubelet.registration()
            async with kubelet.devices(request.endpoint) as following:
                assert await following() == ALL_HEALTHY


async def test_marks_devices_and_takes_the_mark_back(kubelet: FakeKubelet, control: Path) -> None:
    async with kubelet.running(), serving(kubelet, control):
        request = await kubelet.registration()
        async with kubelet.devices(request.endpoint) as following:
            assert await following() == ALL_HEALTHY
            write(control, json.dumps({"unhealthy": ["GPU-fake-2"]}))
            assert await following() == ALL_HEALTHY | {"GPU-fake-2": "Unhealthy"}
            remove(control)
            assert await following() == ALL_HEALTHY


async def test_an_unreadable_control_file_changes_nothing(kubelet: FakeKubelet, control: Path) -> None:
    write(control, json.dumps({"unhealthy": ["GPU-fake-0"]}))
    health = plugin.Health(control)
    await health.refresh()
    write(control, '{"unhealthy": ["GPU')
    await health.refresh()
    assert health.unhealthy == {"GPU-fake-0"}


async def test_each_container_sees_the_devices_it_was_given(kubelet: FakeKubelet, control: Path) -> None:
    async with kubelet.running(), serving(kubelet, control):
        request = await kubelet.registration()
        environments = await kubelet.allocate(request.endpoint, ["GPU-fake-2", "GPU-fake-0"], [])
        assert environments == [
            {"NVIDIA_VISIBLE_DEVICES": "GPU-fake-2,GPU-fake-0"},
            {"NVIDIA_VISIBLE_DEVICES": ""},
        ]


async def test_ends_at_sigterm_without_an_error_and_takes_its_socket_along(kubelet: FakeKubelet, control: Path) -> None:
    command = ("-m", "e2e.cluster.device_plugin", "--count", "1", "--control", str(control))
    async with kubelet.running():
        process = await asyncio.create_subprocess_exec(
            sys.executable, *command, "--socket-dir", str(kubelet.folder),
            env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        request = await kubelet.registration()
        async with kubelet.devices(request.endpoint) as following:
            assert await following() == {"GPU-fake-0": "Healthy"}
            process.send_signal(signal.SIGTERM)
            _, errors = await asyncio.wait_for(process.communicate(), 20)
    assert process.returncode == 0, errors.decode()
    assert b"Traceback" not in errors
    assert not (kubelet.folder / request.endpoint).exists()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("[]", id="a list"),
        pytest.param("{}", id="key missing"),
        pytest.param('{"unhealthy": "GPU-fake-0"}', id="a string for a list"),
        pytest.param('{"unhealthy": [0]}', id="a number for an id"),
    ],
)
def test_a_control_file_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected|Expecting"):
        plugin.parse_control(text)
