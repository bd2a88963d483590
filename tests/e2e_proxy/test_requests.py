"""Single requests: forwarding, the log, and what rules do to them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import aiohttp
import pytest

from e2e import proxy as faults
from e2e.proxy import Match, Proxy, ProxyOptions
from e2e.proxy.faults import Fault
from tests.e2e_proxy.conftest import Client
from tests.e2e_proxy.upstream import Upstream

pytestmark = pytest.mark.wiring
LOST = (aiohttp.ClientError, ConnectionError)


async def test_forwards_request_and_answer_unchanged(client: Client, upstream: Upstream, proxy: Proxy) -> None:
    upstream.code = 201
    path = "/api/v1/namespaces/a%20b/pods?labelSelector=a%3Db&limit=500"
    code, body = await client.send(
        "POST", path, body='{"a": 1}', Authorization="Bearer t", **{"User-Agent": "gptservice-operator/1"}
    )
    assert (code, body) == (201, {"count": 1})
    assert upstream.received == [("POST", path, b'{"a": 1}')]
    assert upstream.headers[0]["Authorization"] == "Bearer t"
    assert upstream.headers[0]["Host"] == upstream.url.removeprefix("http://")
    (entry,) = proxy.switchboard.log.since()
    assert (entry.seq, entry.code, entry.user_agent, entry.fault) == (0, 201, "gptservice-operator/1", "")
    assert entry.query.startswith("labelSelector=a")
    assert entry.seconds is not None


async def test_log_counts_and_selects(client: Client, proxy: Proxy) -> None:
    await client.send("GET", "/api/v1/pods")
    mark = proxy.switchboard.log.position
    await client.apply("one")
    await client.send("PATCH", "/apis/ai.example.com/v1/namespaces/ns/gptservices/gpt/status")
    log = proxy.switchboard.log
    assert log.count() == {("list", "pods"): 1, ("apply", "deployments"): 1, ("status", "gptservices"): 1}
    assert [entry.target.verb for entry in log.writes(mark)] == ["apply", "status"]
    assert [entry.target.name for entry in log.since(mark, where=lambda e: e.target.verb == "apply")] == ["one"]


async def test_keeps_what_the_api_server_says_to_a_refusal(client: Client, upstream: Upstream, proxy: Proxy) -> None:
    upstream.code = 403
    await client.apply("one")
    (entry,) = proxy.switchboard.log.since()
    assert (entry.code, entry.error) == (403, '{"count": 1}')


@pytest.mark.parametrize("retry_after", [None, 3])
@pytest.mark.parametrize("code", [409, 422, 429, 500, 503])
async def test_answers_in_place_of_the_api_server(
    client: Client, upstream: Upstream, proxy: Proxy, code: int, retry_after: int | None
) -> None:
    rule = proxy.switchboard.fail(faults.answer(code, retry_after=retry_after), nth=2)
    assert (await client.apply("one"))[0] == 200
    url = f"{client.base}/apis/apps/v1/namespaces/ns/deployments/two"
    async with client.session.patch(url, headers={"Content-Type": "application/apply-patch+yaml"}) as answer:
        status = await answer.json()
        assert (answer.status, status["code"], status["kind"]) == (code, code, "Status")
        assert answer.headers.get("Retry-After") == (None if retry_after is None else str(retry_after))
    assert (await client.apply("three"))[0] == 200
    assert [path for _, path, _ in upstream.received if "two" in path] == []
    assert (rule.seen, rule.fired) == (3, 1)
    assert proxy.switchboard.log.since()[1].fault.startswith(f"answer {code}")


@pytest.mark.parametrize(
    ("fault", "arrivals"),
    [
        pytest.param(faults.drop_reply(), 1, id="reply lost"),
        pytest.param(faults.refuse_connection(), 0, id="never arrives"),
    ],
)
async def test_drops_the_connection(
    client: Client, upstream: Upstream, proxy: Proxy, fault: Fault, arrivals: int
) -> None:
    proxy.switchboard.fail(fault)
    with pytest.raises(LOST):
        await client.apply("one")
    assert len(upstream.received) == arrivals
    assert proxy.switchboard.log.since()[0].code is None
    assert (await client.apply("one"))[0] == 200


async def test_delivers_twice(client: Client, upstream: Upstream, proxy: Proxy) -> None:
    proxy.switchboard.fail(faults.duplicate())
    assert await client.apply("one") == (200, {"count": 2})
    assert [path for _, path, _ in upstream.received] == [upstream.received[0][1]] * 2


@pytest.mark.parametrize(("when", "arrivals"), [("before", 0), ("after", 1)])
async def test_hangs_until_cleared(
    client: Client,
    upstream: Upstream,
    proxy: Proxy,
    when: Any,
    arrivals: int,
    soon: Callable[..., Any],
) -> None:
    rule = proxy.switchboard.fail(faults.hang(when))
    call = asyncio.ensure_future(client.apply("one"))
    await soon(lambda: rule.fired == 1 and len(upstream.received) == arrivals)
    await asyncio.sleep(0.1)
    assert not call.done()
    assert len(upstream.received) == arrivals
    proxy.switchboard.clear()
    with pytest.raises(LOST):
        await call


async def test_delays(client: Client, upstream: Upstream, proxy: Proxy) -> None:
    proxy.switchboard.fail(faults.delay(0.2))
    call = asyncio.ensure_future(client.apply("one"))
    await asyncio.sleep(0.1)
    assert upstream.received == []
    assert (await call)[0] == 200


@contextlib.contextmanager
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(("when", "arrivals"), [("before", 0), ("after", 1)])
async def test_kills_the_victim(client: Client, upstream: Upstream, proxy: Proxy, when: Any, arrivals: int) -> None:
    with sleeper() as victim:
        proxy.switchboard.victim_pid = victim.pid
        proxy.switchboard.fail(faults.kill(when), match=Match(resource="deployments"))
        with pytest.raises(LOST):
            await client.apply("one")
        assert await asyncio.to_thread(victim.wait, 5) == -9
        assert len(upstream.received) == arrivals


async def test_a_kill_rule_needs_a_victim(proxy: Proxy) -> None:
    with pytest.raises(ValueError, match="victim"):
        proxy.switchboard.fail(faults.kill("before"))


async def test_an_absent_upstream_is_a_dropped_connection(upstream: Upstream) -> None:
    async with (
        Proxy(ProxyOptions(upstream="http://127.0.0.1:9")) as proxy,
        aiohttp.ClientSession() as session,
    ):
        with pytest.raises(LOST):
            await session.post(f"{proxy.url}/api/v1/pods")
        assert proxy.switchboard.log.since()[0].fault.startswith("upstream:")


async def test_serves_https_with_its_own_certificate(upstream: Upstream) -> None:
    async with Proxy(ProxyOptions(upstream=upstream.url, tls=True)) as proxy:
        assert proxy.url.startswith("https://127.0.0.1:")
        trust = ssl.create_default_context(cadata=proxy.ca_pem)
        async with aiohttp.ClientSession() as session, session.get(f"{proxy.url}/x", ssl=trust) as answer:
            assert answer.status == 200


async def test_writes_the_log_to_a_file(upstream: Upstream, tmp_path: Any) -> None:
    file = tmp_path / "requests.jsonl"
    options = ProxyOptions(upstream=upstream.url, log_file=file)
    async with Proxy(options) as proxy, aiohttp.ClientSession() as session:
        await (await session.get(f"{proxy.url}/api/v1/pods")).read()
    (line,) = file.read_text().splitlines()
    assert json.loads(line)["target"]["resource"] == "pods"


async def test_a_list_is_answered_as_it_was(client: Client, upstream: Upstream, proxy: Proxy) -> None:
    board = proxy.switchboard
    board.record_lists()
    assert await client.send("GET", "/api/v1/pods?limit=5") == (200, {"count": 1})
    board.record_lists(False)
    assert await client.send("GET", "/api/v1/pods?limit=5") == (200, {"count": 2})
    rule = board.fail(faults.replay(), match=Match(verbs=frozenset({"list"})), times=None)
    assert await client.send("GET", "/api/v1/pods?limit=5") == (200, {"count": 1})
    assert await client.send("GET", "/api/v1/services") == (200, {"count": 3}), "what was not recorded is asked for"
    assert (rule.fired, len(upstream.received)) == (2, 3)
    assert [entry.fault for entry in board.log.since(2)] == ["replay", "replay"]
    board.clear()
    assert await client.send("GET", "/api/v1/pods?limit=5") == (200, {"count": 4})


async def test_a_status_that_was_sent_is_kept_and_no_other_body(client: Client, proxy: Proxy) -> None:
    proxy.switchboard.fail(faults.answer(503, retry_after="Wed, 21 Oct 2026 07:28:00 GMT"), nth=2)
    await client.send("POST", "/api/v1/namespaces/ns/secrets", body='{"data": "hidden"}')
    path = "/apis/ai.example.com/v1/namespaces/ns/gptservices/gpt/status"
    code, _ = await client.send("PATCH", path, body='{"status": {"phase": "Ready"}}')
    assert code == 503
    secret, status = proxy.switchboard.log.since()
    assert (secret.sent, secret.forwarded) == (None, True)
    assert (status.sent, status.forwarded) == ({"status": {"phase": "Ready"}}, False)
