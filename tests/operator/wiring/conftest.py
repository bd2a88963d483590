"""A running operator beside a fake API server, in one event loop."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import kopf
import pytest

from gptservice_operator import discovery, process, watches
from gptservice_operator.api import kinds
from gptservice_operator.app import App
from gptservice_operator.cluster import Cluster
from gptservice_operator.config import Config
from gptservice_operator.leader import Election
from tests.operator import builders
from tests.operator.conftest import Kubeconfig
from tests.operator.wiring.fake_api import FakeApi

PATIENCE_SECONDS = 45.0
"""After so long, what is waited for will never come."""


async def eventually(condition: Callable[[], Any]) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not come true"
        await asyncio.sleep(0.01)


@dataclass
class Operator:
    """An operator as ``python -m gptservice_operator`` runs it, but for the process."""

    app: App
    task: asyncio.Task[None]
    started: float
    """When, in monotonic time; until a watch is asked for, that counts as when it was."""


Run = Callable[..., AbstractAsyncContextManager[Operator]]


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with FakeApi(served=set(kinds.OPTIONAL)).serving() as serving:
        yield serving


@pytest.fixture
def run(api: FakeApi, kubeconfig: Kubeconfig, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs an operator against the API server until the block is left; settings may be given."""
    kubeconfig(api.url)
    built: list[App] = []
    build_app = process.build_app

    def remembering(config: Config, cluster: Cluster, election: Election | None) -> App:
        built.append(build_app(config, cluster, election))
        return built[-1]

    build_settings = watches.build_settings

    def patient(config: Config) -> kopf.OperatorSettings:
        settings = build_settings(config)
        # kopf kills its process when it takes long to end; here that process is pytest.
        settings.process.ultimate_exiting_timeout = None
        return settings

    monkeypatch.setattr(discovery, "SETTLE_SECONDS", 0.1)
    monkeypatch.setattr(process, "build_app", remembering)
    monkeypatch.setattr(watches, "build_settings", patient)

    @asynccontextmanager
    async def running(**settings: Any) -> AsyncIterator[Operator]:
        quick: dict[str, Any] = {"status_interval_seconds": 0.01, "backoff_base_seconds": 0.05}
        config = builders.config(
            **{"health_port": 0, "metrics_port": 0, "debug_port": 0, "lease_seconds": 0, **quick, **settings}
        )
        before, started = len(built), time.monotonic()
        task = asyncio.create_task(process.run(config, started))
        await eventually(lambda: task.done() or (len(built) > before and built[-1].filled))
        try:
            yield Operator(built[-1], task, started)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    return running
