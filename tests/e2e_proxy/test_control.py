"""The control port, the thread and the command line."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator, Iterator
from typing import Any

import aiohttp
import pytest

from e2e.proxy import Proxy, ProxyOptions, ProxyThread, answer
from tests.e2e_proxy.conftest import Client
from tests.e2e_proxy.upstream import Upstream

pytestmark = pytest.mark.wiring


class Control:
    def __init__(self, base: str, session: aiohttp.ClientSession) -> None:
        self._base, self._session = base, session

    async def __call__(self, command: str, **arguments: Any) -> tuple[int, dict[str, Any]]:
        async with self._session.post(f"{self._base}/{command}", json=arguments) as reply:
            return reply.status, await reply.json()

    async def get(self, path: str) -> Any:
        async with self._session.get(self._base + path) as reply:
            return await reply.json()


@pytest.fixture
async def control(proxy: Proxy) -> AsyncIterator[Control]:
    assert proxy.control_url is not None
    async with aiohttp.ClientSession() as session:
        yield Control(proxy.control_url, session)


async def test_installs_rules(client: Client, control: Control) -> None:
    assert await control("add", fault={"action": "answer", "code": 409}, nth=2) == (200, {"value": None})
    assert [(await client.apply("one"))[0], (await client.apply("one"))[0]] == [200, 409]
    await control("add", fault={"action": "answer", "code": 500}, times=None)
    await control("clear")
    assert (await client.apply("one"))[0] == 200


async def test_turns_watches(client: Client, upstream: Upstream, control: Control) -> None:
    watch = await client.watch()
    await control("add_event_rule", action="drop", name="dropped")
    upstream.feed(name="dropped")
    upstream.feed(name="passed")
    assert await watch.next_name() == "passed"
    assert await control("open_watches") == (200, {"value": ["deployments"]})
    assert await control("cut_watches", resource="deployments", how="end") == (200, {"value": 1})
    with pytest.raises(EOFError):
        await watch.next()


async def test_reads_the_log(client: Client, control: Control) -> None:
    await client.apply("one")
    await client.apply("two")
    (entry,) = await control.get("/requests?since=1")
    assert (entry["seq"], entry["target"]["name"], entry["code"]) == (1, "two", 200)
    assert "answer_gone" in await control.get("/")


@pytest.mark.parametrize(
    ("command", "arguments", "code", "says"),
    [
        pytest.param("explode", {}, 404, "no command explode", id="unknown command"),
        pytest.param("cut_watches", {"colour": "red"}, 400, "colour", id="unknown argument"),
        pytest.param("add", {"fault": {"action": "explode"}}, 400, "explode", id="unknown action"),
        pytest.param("add", {"fault": {"action": "kill"}}, 400, "victim", id="kill without victim"),
    ],
)
async def test_explains_what_it_refuses(
    control: Control, command: str, arguments: dict[str, Any], code: int, says: str
) -> None:
    status, body = await control(command, **arguments)
    assert status == code
    assert says in body["error"]


async def test_a_thread_is_controlled_from_outside(upstream: Upstream) -> None:
    with ProxyThread(Proxy(ProxyOptions(upstream=upstream.url))) as running:
        running.switchboard.fail(answer(503))
        async with aiohttp.ClientSession() as session:
            codes = [(await session.post(f"{running.proxy.url}/api/v1/pods")).status for _ in range(2)]
            watch = await session.get(f"{running.proxy.url}/api/v1/pods?watch=1")
            assert running.switchboard.open_watches() == ["pods"]
            assert running.switchboard.cut_watches("pods", how="end") == 1
            assert await watch.content.read() == b""
            watch.close()
    assert codes == [503, 200]


async def test_a_thread_reports_why_it_did_not_start(upstream: Upstream) -> None:
    port = int(upstream.url.rsplit(":", 1)[1])
    with pytest.raises(OSError, match="address already in use"):
        ProxyThread(Proxy(ProxyOptions(upstream=upstream.url, port=port))).start()


@pytest.fixture
def command_line(upstream: Upstream) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "e2e.proxy", "--upstream", upstream.url], stdout=subprocess.PIPE, text=True
    )
    yield process
    process.kill()
    process.communicate()


def _read(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=5) as reply:
        return json.load(reply)


async def test_runs_from_the_command_line(command_line: subprocess.Popen[str], upstream: Upstream) -> None:
    assert command_line.stdout is not None
    addresses = json.loads(await asyncio.to_thread(command_line.stdout.readline))
    assert await asyncio.to_thread(_read, f"{addresses['url']}/api/v1/pods") == {"count": 1}
    (entry,) = await asyncio.to_thread(_read, f"{addresses['control_url']}/requests")
    assert entry["target"]["resource"] == "pods"
    command_line.terminate()
    assert await asyncio.to_thread(command_line.wait, 10) == 0
