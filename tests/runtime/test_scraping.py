"""`/metrics` of the real supervisor: what a scraper gets while the engine starts, serves, hangs and ends."""

import asyncio
import itertools
import os
import signal
from collections.abc import Callable
from pathlib import Path

import aiohttp
import pytest
from yarl import URL

from gptservice_runtime import contract, guard, metrics
from tests.runtime.harness import Runtime, children, until
from tests.runtime.test_key_check import DEMANDED, KEY, NEW, put
from tests.runtime.test_limiting import set_limit
from tests.runtime.test_metrics import samples

pytestmark = pytest.mark.wiring
RUNNING = "vllm:num_requests_running/0/main-name"
WAITING = "vllm:num_requests_waiting/0/main-name"
IN_FLIGHT = "gptservice_requests_in_flight"


def refused(why: str) -> str:
    return f"gptservice_requests_refused_total/{why}"


async def scrape(runtime: Runtime) -> dict[str, float]:
    async with runtime.session.get(f"http://127.0.0.1:{runtime.probe_port}/metrics") as response:
        assert response.status == 200
        assert response.headers["Content-Type"] == metrics.CONTENT_TYPE
        return samples(await response.read())


async def scraped(runtime: Runtime, is_it: Callable[[dict[str, float]], bool], what: str) -> dict[str, float]:
    """The first scrape that shows it."""
    found: dict[str, float] = {}

    async def shows() -> bool:
        found.clear()
        found.update(await scrape(runtime))
        return is_it(found)

    await until(shows, what)
    return found


async def listening(runtime: Runtime) -> None:
    async def probed() -> bool:
        return (await runtime.probe("/livez"))[0] == 200

    await until(probed, "the probe server")


async def client_status(runtime: Runtime, path: str, headers: dict[str, str], method: str = "GET") -> tuple[int, str]:
    # Encoded: the client must not mend the path.
    url = URL(runtime.url(path), encoded=True)
    async with runtime.session.request(method, url, headers=headers) as response:
        return response.status, await response.text()


async def test_a_serving_pod_has_the_engines_and_ours(runtime: Runtime) -> None:
    runtime.start()
    await runtime.ready()
    found = await scrape(runtime)
    assert {name.partition("/")[0] for name in found} == {
        "vllm:num_requests_running",
        "vllm:num_requests_waiting",
        "vllm:kv_cache_usage_perc",
        "vllm:generation_tokens_total",
        "gptservice_ready",
        "gptservice_engine_up",
        "gptservice_requests_in_flight",
        "gptservice_requests_refused_total",
        "gptservice_start_seconds",
    }
    assert (found["gptservice_ready"], found["gptservice_engine_up"]) == (1, 1)
    assert found["gptservice_start_seconds"] > 0
    assert (found[IN_FLIGHT], found[refused("limit")], found[refused("key")]) == (0, 0, 0)


async def test_while_the_engine_starts_there_are_ours(runtime: Runtime) -> None:
    runtime.start(environment={"STANDIN_HANG_AT_START": "1"})
    await listening(runtime)
    found = await scrape(runtime)
    assert (found["gptservice_ready"], found["gptservice_engine_up"]) == (0, 0)
    assert "gptservice_start_seconds" not in found
    assert not [name for name in found if name.startswith("vllm:")]


async def test_requests_are_seen_where_they_are(runtime: Runtime) -> None:
    runtime.start()
    await runtime.ready()
    held = asyncio.create_task(runtime.complete(standin={"delay_milliseconds": 4000}))
    started = asyncio.Event()
    stream = asyncio.create_task(runtime.stream(tokens=10000, milliseconds=20, started=started))
    await started.wait()
    found = await scraped(runtime, lambda seen: seen[WAITING] == 1, "the request that waits")
    assert (found[RUNNING], found[IN_FLIGHT]) == (1, 2)
    stream.cancel()
    assert (await held)[0] == 200
    await scraped(runtime, lambda seen: seen[IN_FLIGHT] == 0, "both to be gone")


async def test_refusals_are_counted_by_their_reason(runtime: Runtime) -> None:
    set_limit(runtime.limits_file, '{"maxInflightRequests": 1}')
    put(runtime.keys_directory, KEY)
    runtime.start(options=DEMANDED)
    await runtime.ready()
    before = await scrape(runtime)
    with_key = {"Authorization": f"Bearer {KEY}"}
    for headers in ({}, {"Authorization": f"Bearer {NEW}"}, {}):
        assert (await client_status(runtime, "/v1/models", headers))[0] == 401
    body = {"model": "main-name", "prompt": "hello", "standin": {"delay_milliseconds": 60000}}
    post = runtime.session.post(runtime.url("/v1/completions"), json=body, headers=with_key)
    held = asyncio.create_task(post.__aenter__())
    await scraped(runtime, lambda seen: seen[IN_FLIGHT] == 1, "the request in flight")
    for _ in range(2):
        async with runtime.session.post(runtime.url("/v1/completions"), json=body, headers=with_key) as response:
            assert response.status == 429
    after = await scrape(runtime)
    held.cancel()
    counted = {why: after[refused(why)] - before[refused(why)] for why in ("limit", "key", "draining")}
    assert counted == {"limit": 2, "key": 3, "draining": 0}


PATHS = ["/metrics", "/metrics/", "/metrics/x", "/metricsx", "/%6detrics", "/metrics?x=1"]
CLAIMS = [{}, {guard.TOKEN_HEADER: ""}, {guard.TOKEN_HEADER: "guessed"}, {"X-Forwarded-For": "127.0.0.1"}]


async def test_port_8000_has_none(runtime: Runtime) -> None:
    runtime.start()
    await runtime.ready()
    for method, path, headers in itertools.product(["GET", "HEAD", "POST", "OPTIONS"], PATHS, CLAIMS):
        status, text = await client_status(runtime, path, headers, method)
        assert status == 404, (method, path, headers)
        assert "vllm:" not in text, (method, path, headers)


async def test_a_key_does_not_open_them_and_without_one_the_answer_tells_nothing(runtime: Runtime) -> None:
    put(runtime.keys_directory, KEY)
    runtime.start(options=DEMANDED)
    await runtime.ready()
    assert (await client_status(runtime, "/metrics", {}))[0] == 401
    assert (await client_status(runtime, "/metrics", {"Authorization": f"Bearer {KEY}"}))[0] == 404
    assert (await scrape(runtime))["gptservice_engine_up"] == 1, "though the scraper shows no key"


async def test_a_rotated_key_keeps_the_engines_metrics_coming(runtime: Runtime) -> None:
    put(runtime.keys_directory, KEY)
    runtime.start(options=DEMANDED)
    await runtime.ready()
    assert (await scrape(runtime))["gptservice_engine_up"] == 1
    put(runtime.keys_directory, NEW)
    await scraped(runtime, lambda seen: seen["gptservice_engine_up"] == 1, "the new key to count")
    put(runtime.keys_directory)
    assert (await scrape(runtime))["gptservice_engine_up"] == 0, "there is no key to ask with"
    assert (await runtime.probe())[0] == 200


async def test_an_engine_that_stands_still_takes_nothing_from_the_probes_or_from_ours(runtime: Runtime) -> None:
    runtime.start()
    await runtime.ready()
    engine = await runtime.engine_pid()
    os.kill(engine, signal.SIGSTOP)
    scrapes = [asyncio.create_task(scrape(runtime)) for _ in range(20)]
    assert (await runtime.probe("/livez"))[0] == 200
    for found in await asyncio.gather(*scrapes):
        assert (found["gptservice_engine_up"], found["gptservice_ready"]) == (0, 0)
        assert RUNNING not in found
    os.kill(engine, signal.SIGCONT)
    await scraped(runtime, lambda seen: seen["gptservice_engine_up"] == 1, "the engine's metrics")


async def test_the_end_is_not_held_up_by_a_scrape(runtime: Runtime) -> None:
    runtime.start()
    await runtime.ready()
    engine = await runtime.engine_pid()
    os.kill(engine, signal.SIGSTOP)
    scrapes = [asyncio.create_task(scrape(runtime)) for _ in range(5)]
    await asyncio.sleep(0.2)
    os.kill(engine, signal.SIGKILL)
    assert await runtime.ended() == contract.EXIT_FAILURE
    assert runtime.message()["reason"] == "CrashLoop"
    for answer in await asyncio.gather(*scrapes, return_exceptions=True):
        assert isinstance(answer, dict | aiohttp.ClientError)
    assert "Traceback" not in runtime.stderr


async def test_while_draining_it_goes_on_and_tells_so(runtime: Runtime) -> None:
    runtime.start(drain_gap=0.1)
    await runtime.ready()
    took = (await scrape(runtime))["gptservice_start_seconds"]
    started = asyncio.Event()
    stream = asyncio.create_task(runtime.stream(tokens=200, milliseconds=20, started=started))
    await started.wait()
    runtime.signal(signal.SIGTERM)

    async def is_refused() -> bool:
        return (await runtime.complete())[0] == 503

    await until(is_refused, "the refusals")
    found = await scrape(runtime)
    assert (found["gptservice_ready"], found[IN_FLIGHT]) == (0, 1)
    assert found[refused("draining")] >= 1
    assert found["gptservice_start_seconds"] == took
    assert (await stream)[-1] == "[DONE]"
    assert await runtime.ended() == 0


async def test_the_token_is_in_no_argument_and_no_log(runtime: Runtime) -> None:
    runtime.start()
    await runtime.ready()
    await scrape(runtime)
    (engine,) = children(runtime.pid)
    variables = dict(part.partition("=")[::2] for part in _read(engine, "environ").split("\0"))
    token = variables["GPTSERVICE_METRICS_TOKEN"]
    assert (await client_status(runtime, "/metrics", {guard.TOKEN_HEADER: token}))[0] == 200, "it is not the token"
    for text in (runtime.stdout, runtime.stderr, _read(engine, "cmdline"), _read(runtime.pid, "cmdline")):
        assert token not in text


async def test_each_start_has_another_token(runtime: Runtime) -> None:
    tokens: set[str] = set()
    for _ in range(2):
        runtime.start()
        await runtime.ready()
        environment = _read(await runtime.engine_pid(), "environ").split("\0")
        tokens |= {part for part in environment if part.startswith("GPTSERVICE_METRICS_TOKEN=")}
        runtime.signal(signal.SIGTERM)
        assert await runtime.ended() == 0
    assert len(tokens) == 2


def _read(pid: int, file: str) -> str:
    return Path(f"/proc/{pid}/{file}").read_text()
