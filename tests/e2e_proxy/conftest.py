from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest

from e2e.proxy import Proxy, ProxyOptions
from tests.e2e_proxy.upstream import Upstream


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    server = Upstream()
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def proxy(upstream: Upstream) -> AsyncIterator[Proxy]:
    async with Proxy(ProxyOptions(upstream=upstream.url, control_port=0)) as running:
        yield running


@dataclass
class Client:
    """What an operator does: requests, and watches whose events are read one by one."""

    base: str
    session: aiohttp.ClientSession
    answers: list[aiohttp.ClientResponse] = field(default_factory=list[aiohttp.ClientResponse])

    async def send(self, method: str, path: str, body: str = "{}", **headers: str) -> tuple[int, dict[str, Any]]:
        async with self.session.request(method, self.base + path, data=body, headers=headers) as answer:
            return answer.status, await answer.json()

    async def apply(self, name: str) -> tuple[int, dict[str, Any]]:
        path = f"/apis/apps/v1/namespaces/ns/deployments/{name}?fieldManager=x"
        return await self.send("PATCH", path, **{"Content-Type": "application/apply-patch+yaml"})

    async def watch(self, resource: str = "deployments") -> WatchClient:
        url = f"{self.base}/apis/apps/v1/{resource}?watch=true"
        self.answers.append(await self.session.get(url))
        return WatchClient(self.answers[-1])


class WatchClient:
    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self.answer = answer

    async def next(self) -> dict[str, Any]:
        line = await asyncio.wait_for(self.answer.content.readline(), 5)
        if not line:
            raise EOFError
        event: dict[str, Any] = json.loads(line)
        return event

    async def next_name(self) -> str:
        return str((await self.next())["object"]["metadata"]["name"])


@pytest.fixture
async def client(proxy: Proxy) -> AsyncIterator[Client]:
    # No keep-alive: aiohttp silently repeats an idempotent request when a reused connection was dropped.
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session:
        operator = Client(proxy.url, session)
        yield operator
        for answer in operator.answers:
            answer.close()


async def eventually(condition: Callable[[], bool], seconds: float = 5) -> None:
    deadline = asyncio.get_running_loop().time() + seconds
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, "the condition did not come true"
        await asyncio.sleep(0.01)


@pytest.fixture
def soon() -> Callable[..., Any]:
    return eventually
