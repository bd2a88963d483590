"""An engine that hangs or dies after it has served: the real supervisor, and a stand-in with a core of its own."""

import asyncio
import json
import os
import signal
from typing import Any

import aiohttp
import pytest

from gptservice_runtime import contract, processes
from tests.runtime.harness import Runtime, state, until
from tests.runtime.test_scraping import IN_FLIGHT, scraped

pytestmark = [pytest.mark.wiring, pytest.mark.timeout(120)]


async def core(runtime: Runtime) -> int:
    """The engine core's process."""
    found = processes.of_group(await runtime.engine_pid())
    (pid,) = [one.pid for one in found if one.name.startswith("VLLM::EngineC")]
    return pid


async def not_ready(runtime: Runtime) -> dict[str, Any]:
    """What the first 503 says."""
    answer: dict[str, Any] = {}

    async def told() -> bool:
        status, body = await runtime.probe()
        answer.update(body)
        return status == 503

    await until(told, "a 503")
    return answer


async def ready_again(runtime: Runtime) -> None:
    async def is_ready() -> bool:
        return (await runtime.probe())[0] == 200

    await until(is_ready, "readiness")


async def read_stream(runtime: Runtime, on_event: Any, **told: Any) -> tuple[list[str], bool]:
    """The data of a stream's events, and whether the connection broke."""
    body = {"model": "main-name", "prompt": "hello", "stream": True, "standin": told}
    events: list[str] = []
    try:
        async with runtime.session.post(runtime.url("/v1/completions"), json=body) as response:
            async for line in response.content:
                if line.startswith(b"data: "):
                    events.append(line[6:].decode().strip())
                    await on_event(len(events))
    except aiohttp.ClientError:
        return events, True
    return events, False


async def test_a_stopped_core_is_told_and_a_restart_is_not_asked_for(runtime: Runtime) -> None:
    runtime.start()
    await runtime.ready()
    pid = await core(runtime)
    os.kill(pid, signal.SIGSTOP)
    answer = await not_ready(runtime)
    assert (answer["reason"], answer["phase"]) == (contract.REASON_ENGINE_UNRESPONSIVE, "Serving")
    assert f"process {pid}" in answer["message"]
    assert (await runtime.probe("/livez"))[0] == (await runtime.probe("/startupz"))[0] == 200
    async with runtime.session.get(runtime.url("/health")) as response:
        assert response.status == 200, "as vLLM's own: it knows nothing of its core"
    os.kill(pid, signal.SIGCONT)
    await ready_again(runtime)
    assert "ready again" in runtime.stderr


async def test_a_core_that_hangs_without_being_stopped_is_told_by_its_silence(runtime: Runtime) -> None:
    runtime.start()
    await runtime.ready()
    # The client gives up at once; the core is at a step that takes no notice of that.
    asked = asyncio.create_task(runtime.complete(standin={"prefill_milliseconds": 25000}))
    await scraped(runtime, lambda seen: seen[IN_FLIGHT] == 1, "the request")
    await asyncio.sleep(1)
    asked.cancel()
    answer = await not_ready(runtime)
    assert answer["reason"] == contract.REASON_ENGINE_UNRESPONSIVE
    assert "though no request is running" in answer["message"]
    await ready_again(runtime)


async def test_long_steps_of_a_prompt_are_no_hang(runtime: Runtime) -> None:
    """Longer than five probes take to fail, but the metrics move from step to step."""
    runtime.start()
    await runtime.ready()
    told = {"prefill_milliseconds": 8000, "prefill_steps": 3, "tokens": 2}
    asked = asyncio.create_task(runtime.complete(standin=told))
    while not asked.done():
        assert (await runtime.probe())[0] == 200
        await asyncio.sleep(0.2)
    assert (await asked)[0] == 200


async def test_an_engine_whose_core_dies_ends_the_container_and_streams_say_so(runtime: Runtime) -> None:
    runtime.start()
    await runtime.ready()
    pid = await core(runtime)

    async def kill(count: int) -> None:
        if count == 3:
            os.kill(pid, signal.SIGKILL)

    events, broken = await read_stream(runtime, kill, tokens=2000, token_milliseconds=20)
    assert broken or any("error" in json.loads(event) for event in events if event != "[DONE]")
    assert await runtime.ended() == contract.EXIT_FAILURE
    assert runtime.message()["reason"] == "CrashLoop"


async def test_a_server_that_outlives_its_core_is_not_ready_at_once_and_is_killed(runtime: Runtime) -> None:
    runtime.start(environment={"STANDIN_OUTLIVE_CORE": "1"})
    await runtime.ready()
    pid, engine = await core(runtime), await runtime.engine_pid()
    os.kill(pid, signal.SIGKILL)
    answer = await not_ready(runtime)
    assert answer["reason"] == contract.REASON_ENGINE_UNRESPONSIVE
    assert f"process {pid} of the engine has ended" in answer["message"]
    assert await runtime.ended() == contract.EXIT_FAILURE
    assert runtime.message()["reason"] == "CrashLoop"
    await until(lambda: state(engine) is None, "the engine's end")


async def test_a_server_that_is_killed_breaks_its_streams(runtime: Runtime) -> None:
    runtime.start()
    await runtime.ready()
    engine = await runtime.engine_pid()

    async def kill(count: int) -> None:
        if count == 3:
            os.kill(engine, signal.SIGKILL)

    events, broken = await read_stream(runtime, kill, tokens=2000, token_milliseconds=20)
    assert broken
    assert "[DONE]" not in events


async def test_an_error_in_a_stream_breaks_it(runtime: Runtime) -> None:
    runtime.start()
    await runtime.ready()

    async def look(_count: int) -> None: ...

    events, broken = await read_stream(runtime, look, tokens=20, break_after_tokens=3)
    assert (len(events), broken) == (3, True)


async def test_started_up_only_once_it_was_ready(runtime: Runtime) -> None:
    runtime.start(environment={"STANDIN_TOKEN_MILLISECONDS": "700"})

    async def warming_up() -> bool:
        return (await runtime.probe("/startupz"))[1].get("phase") == "WarmingUp"

    await until(warming_up, "the warm-up")
    await runtime.ready()
    assert (await runtime.probe("/startupz"))[0] == 200
