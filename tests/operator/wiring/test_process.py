"""The process: it starts from the environment and ends cleanly on SIGTERM, whatever it is doing."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from gptservice_operator.api import kinds
from tests.operator import builders
from tests.operator.conftest import Kubeconfig
from tests.operator.wiring.conftest import PATIENCE_SECONDS, eventually
from tests.operator.wiring.fake_api import FakeApi

pytestmark = pytest.mark.wiring

END_SECONDS = 20
"""Far above what it takes, and below a pod's grace period of 30 s."""
COMPLAINTS = ("Traceback", "was destroyed", "never awaited", "never retrieved", "ERROR", "Unclosed")

COMMAND = ["-m", "gptservice_operator"]
IMPATIENT = [
    "-c",
    """
import sys
from gptservice_operator import __main__, watches
build_settings = watches.build_settings
def impatient(config):
    settings = build_settings(config)
    settings.networking.error_backoffs = [0.01]
    return settings
watches.build_settings = impatient
sys.exit(__main__.main())
""",
]
"""The command, but for the minutes that kopf goes on trying."""
SIGNALLED_AS_KOPF_STARTS = [
    "-c",
    """
import os, signal, sys
import kopf
from gptservice_operator import __main__
spawn_tasks = kopf.spawn_tasks
async def signalled(**settings):
    tasks = await spawn_tasks(**settings)
    os.kill(os.getpid(), signal.SIGTERM)
    return tasks
kopf.spawn_tasks = signalled
sys.exit(__main__.main())
""",
]
"""The command, to which the signal comes when kopf's own handlers are in place of ours."""

Start = Callable[..., AbstractAsyncContextManager[asyncio.subprocess.Process]]


@pytest.fixture
def start(api: FakeApi, kubeconfig: Kubeconfig) -> Start:
    """Starts the operator's command as a process of its own."""
    path = kubeconfig(api.url)
    root = Path(__file__).resolve().parents[3]
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join([str(root / "operator"), str(root / "runtime-image")]),
        "PYTHONASYNCIODEBUG": "0",
        "KUBECONFIG": str(path),
        "GPTSERVICE_RUNTIME_IMAGE": "runtime:1",
        "GPTSERVICE_HEALTH_PORT": "0",
        "GPTSERVICE_METRICS_PORT": "0",
        "GPTSERVICE_DEBUG_PORT": "0",
        "GPTSERVICE_LEASE_SECONDS": "0",
    }

    @asynccontextmanager
    async def started(command: Sequence[str] = COMMAND) -> AsyncIterator[asyncio.subprocess.Process]:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *command,
            env=environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
                await process.communicate()

    return started


async def end(process: asyncio.subprocess.Process) -> tuple[int | None, str]:
    """Send SIGTERM and return the exit code and all that was said."""
    process.send_signal(signal.SIGTERM)
    said, _ = await asyncio.wait_for(process.communicate(), END_SECONDS)
    return process.returncode, said.decode()


def assert_clean(code: int | None, said: str) -> None:
    assert code == 0, said
    assert [line for line in said.splitlines() if any(complaint in line for complaint in COMPLAINTS)] == []


async def test_sigterm_ends_it_while_it_has_nothing_to_do(api: FakeApi, start: Start) -> None:
    api.add(builders.service())
    async with start() as process:
        await eventually(lambda: "GPTService/status" in [write.kind for write in api.writes])
        assert_clean(*await end(process))


async def test_sigterm_ends_it_while_a_request_hangs(api: FakeApi, start: Start) -> None:
    api.add(builders.service())
    api.hangs = True
    async with start() as process:
        await eventually(lambda: any(request.method == "PATCH" for request in api.requests))
        assert_clean(*await end(process))


async def test_sigterm_ends_it_while_the_store_is_not_filled(api: FakeApi, start: Start) -> None:
    api.add(builders.service())
    api.lists_hang = True
    async with start() as process:
        await eventually(lambda: any(request.is_list for request in api.requests))
        assert_clean(*await end(process))


@pytest.mark.parametrize("requests", [1, 3, 6, 10, 20])
async def test_sigterm_ends_it_wherever_its_start_is(api: FakeApi, start: Start, requests: int) -> None:
    """While it asks what the API server serves, logs in, scans, lists, watches or makes its first writes."""
    api.add(builders.service())
    async with start() as process:
        await eventually(lambda: len(api.requests) >= requests)
        assert_clean(*await end(process))


async def test_sigterm_ends_it_while_kopf_takes_the_signals(api: FakeApi, start: Start) -> None:
    async with start(SIGNALLED_AS_KOPF_STARTS) as process:
        said, _ = await asyncio.wait_for(process.communicate(), PATIENCE_SECONDS)
    assert_clean(process.returncode, said.decode())


async def test_a_watch_that_fails_for_good_ends_it(api: FakeApi, start: Start) -> None:
    """Without one it would be deaf; started again, it may be lucky, and somebody looks at what it says."""
    api.forbidden = {kinds.POD.path()}
    async with start(IMPATIENT) as process:
        said, _ = await asyncio.wait_for(process.communicate(), PATIENCE_SECONDS)
    assert process.returncode == 1, said
    assert "gptservice-operator: the watches ended by themselves" in said.decode()
