"""SIGTERM, at every moment."""

import asyncio
import os
import signal
import time

import aiohttp
import pytest

from tests.runtime.harness import Runtime, blocks, state, until

pytestmark = pytest.mark.wiring


async def test_sigterm_finishes_a_stream_and_exits_with_0(runtime: Runtime) -> None:
    runtime.start(drain_gap=0.5)
    await runtime.ready()
    started = asyncio.Event()
    stream = asyncio.create_task(runtime.stream(tokens=40, milliseconds=50, started=started))
    await started.wait()
    runtime.signal(signal.SIGTERM)
    events = await stream
    assert (len(events), events[-1]) == (41, "[DONE]")
    assert await runtime.ended() == 0
    assert not runtime.termination_log.exists()


async def test_not_ready_at_once_but_still_serving_during_the_gap(runtime: Runtime) -> None:
    runtime.start(drain_gap=3)
    await runtime.ready()
    runtime.signal(signal.SIGTERM)
    answer: list[tuple[int, str]] = []

    async def not_ready() -> bool:
        status, body = await runtime.probe()
        answer.append((status, body.get("reason", "")))
        return status != 200

    await until(not_ready, "readiness to end")
    assert answer[-1] == (503, "Draining")
    assert (await runtime.probe("/livez"))[0] == 200
    assert (await runtime.complete())[0] == 200, "endpoints are still being removed: clients still come"


async def test_after_the_gap_new_requests_are_refused_while_old_ones_finish(runtime: Runtime) -> None:
    runtime.start(drain_gap=0.2)
    await runtime.ready()
    started = asyncio.Event()
    stream = asyncio.create_task(runtime.stream(tokens=40, milliseconds=50, started=started))
    await started.wait()
    runtime.signal(signal.SIGTERM)
    await until(lambda: "draining" in runtime.stderr, "the end of the gap")

    async def refused() -> bool:
        request = {"model": "main-name", "prompt": "hello"}
        async with runtime.session.post(runtime.url("/v1/completions"), json=request) as response:
            if response.status == 200:
                return False
            assert response.status == 503
            assert response.headers["Connection"] == "close"
            assert (await response.json())["error"]["code"] == "draining"
            return True

    await until(refused, "a refusal")
    assert (await stream)[-1] == "[DONE]"


async def test_a_second_sigterm_changes_nothing(runtime: Runtime) -> None:
    runtime.start()
    await runtime.ready()
    started = asyncio.Event()
    stream = asyncio.create_task(runtime.stream(tokens=40, milliseconds=50, started=started))
    await started.wait()
    for _ in range(4):
        runtime.signal(signal.SIGTERM)
        await asyncio.sleep(0.2)
    assert (await stream)[-1] == "[DONE]"
    assert await runtime.ended() == 0


async def test_a_request_longer_than_the_drain_time_out_is_cut(runtime: Runtime) -> None:
    runtime.start(drain_timeout=1)
    await runtime.ready()
    started = asyncio.Event()
    stream = asyncio.create_task(runtime.stream(tokens=200, milliseconds=100, started=started))
    await started.wait()
    runtime.signal(signal.SIGTERM)
    assert await runtime.ended() == 1
    with pytest.raises(aiohttp.ClientError):
        await stream
    assert runtime.message()["reason"] == "DrainTimeout"
    assert "1 request(s) were still running and are cut" in runtime.message()["message"]


async def test_an_engine_that_does_not_end_is_killed_and_reported(runtime: Runtime) -> None:
    runtime.start(drain_timeout=1)
    await runtime.ready()
    engine = await runtime.engine_pid()
    os.kill(engine, signal.SIGSTOP)
    runtime.signal(signal.SIGTERM)
    assert await runtime.ended() == 1
    assert (runtime.message()["reason"], runtime.message()["phase"]) == ("DrainTimeout", "Draining")
    await until(lambda: state(engine) is None, "the engine's end")


@pytest.mark.parametrize(
    "behaviour",
    [
        pytest.param({"STANDIN_HANG_AT_START": "1"}, id="while the model loads"),
        pytest.param({"STANDIN_TOKEN_MILLISECONDS": "60000"}, id="during the warm-up"),
    ],
)
async def test_sigterm_before_ready_ends_it_without_a_gap(runtime: Runtime, behaviour: dict[str, str]) -> None:
    runtime.start(environment=behaviour, drain_gap=30)
    wanted = "WarmingUp" if "STANDIN_TOKEN_MILLISECONDS" in behaviour else "Loading"

    async def in_phase() -> bool:
        return (await runtime.probe())[1].get("phase") == wanted

    await until(in_phase, wanted)
    engine = await runtime.engine_pid()
    runtime.signal(signal.SIGTERM)
    assert await runtime.ended() == 0
    await until(lambda: state(engine) is None, "the engine's end")
    assert not runtime.termination_log.exists()


async def test_a_sigterm_in_the_first_moment_is_not_lost(runtime: Runtime) -> None:
    """PID 1 has no default action: what arrives before the handler is there must wait for it."""
    runtime.start()
    await until(lambda: blocks(runtime.pid, signal.SIGTERM), "SIGTERM to be blocked")
    runtime.signal(signal.SIGTERM)
    assert await runtime.ended() == 0


async def test_the_engine_does_not_inherit_blocked_signals(runtime: Runtime) -> None:
    runtime.start()
    await runtime.ready()
    assert not blocks(await runtime.engine_pid(), signal.SIGTERM)


async def test_sigint_drains_as_sigterm_does(runtime: Runtime) -> None:
    runtime.start()
    await runtime.ready()
    started = asyncio.Event()
    stream = asyncio.create_task(runtime.stream(tokens=10, milliseconds=50, started=started))
    await started.wait()
    runtime.signal(signal.SIGINT)
    assert (await stream)[-1] == "[DONE]"
    assert await runtime.ended() == 0


async def test_the_grace_period_is_kept_by_an_idle_engine(runtime: Runtime) -> None:
    runtime.start(drain_gap=0.2, drain_timeout=20)
    await runtime.ready()
    before = time.monotonic()
    runtime.signal(signal.SIGTERM)
    assert await runtime.ended() == 0
    assert time.monotonic() - before < 20, "an idle engine must not wait for its whole drain time-out"
