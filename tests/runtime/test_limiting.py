"""maxInflightRequests over real connections, changed while serving."""

import asyncio
import os
from collections import Counter
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import pytest

from gptservice_runtime import contract, control
from tests.runtime.harness import Runtime, until

pytestmark = pytest.mark.wiring
CLIENTS = 50


def set_limit(file: Path, content: str) -> None:
    """As the kubelet does: the new file appears at once, by a rename."""
    file.parent.mkdir(exist_ok=True)
    new = file.with_suffix(".new")
    new.write_text(content)
    os.replace(new, file)


async def burst(runtime: Runtime, clients: int = CLIENTS) -> Counter[int]:
    """Statuses of so many requests of which none ends before all are answered."""
    told = {"tokens": 10_000, "token_milliseconds": 100}
    endless = {"model": "main-name", "prompt": "hello", "stream": True, "standin": told}
    async with AsyncExitStack() as open_responses:

        async def status() -> int:
            post = runtime.session.post(runtime.url("/v1/completions"), json=endless)
            return (await open_responses.enter_async_context(post)).status

        statuses = Counter(await asyncio.gather(*(status() for _ in range(clients))))
    await until_free(runtime)
    return statuses


async def until_free(runtime: Runtime) -> None:
    """Wait until the engine has noticed that its clients went away."""
    block = control.ControlBlock.open(runtime.run_directory / "control")
    await until(lambda: block.in_flight == 0, "free places")


async def test_exactly_the_bound_is_served_and_the_bound_changes_live(runtime: Runtime) -> None:
    set_limit(runtime.limits_file, '{"maxInflightRequests": 8}')
    runtime.start()
    await runtime.ready()
    engine = await runtime.engine_pid()
    assert await burst(runtime) == {200: 8, 429: CLIENTS - 8}
    set_limit(runtime.limits_file, '{"maxInflightRequests": 20}')
    await asyncio.sleep(contract.LIMITS_POLL_SECONDS)
    assert await burst(runtime) == {200: 20, 429: CLIENTS - 20}
    set_limit(runtime.limits_file, "{}")
    await asyncio.sleep(contract.LIMITS_POLL_SECONDS)
    assert await burst(runtime) == {200: CLIENTS}
    assert await runtime.engine_pid() == engine, "the engine was restarted"


async def test_a_refusal_is_an_openai_error_with_retry_after(runtime: Runtime) -> None:
    set_limit(runtime.limits_file, '{"maxInflightRequests": 1}')
    runtime.start()
    await runtime.ready()
    started = asyncio.Event()
    stream = asyncio.create_task(runtime.stream(tokens=40, milliseconds=50, started=started))
    await started.wait()
    request = {"model": "main-name", "prompt": "hello"}
    async with runtime.session.post(runtime.url("/v1/completions"), json=request) as response:
        assert (response.status, response.headers["Retry-After"]) == (429, "1")
        error = (await response.json())["error"]
    assert set(error) == {"message", "type", "param", "code"}
    async with runtime.session.get(runtime.url("/v1/models")) as response:
        assert response.status == 200, "only generation counts"
    assert (await stream)[-1] == "[DONE]"
    assert (await runtime.complete())[0] == 200, "the end of a stream frees its place"


async def test_a_client_that_goes_away_frees_its_place(runtime: Runtime) -> None:
    set_limit(runtime.limits_file, '{"maxInflightRequests": 4}')
    runtime.start()
    await runtime.ready()
    started = [asyncio.Event() for _ in range(4)]
    streams = [asyncio.create_task(runtime.stream(1000, 50, event)) for event in started]
    await asyncio.gather(*(event.wait() for event in started))
    assert (await runtime.complete())[0] == 429
    for stream in streams:
        stream.cancel()
        with suppress(asyncio.CancelledError):
            await stream

    await until_free(runtime)
    assert await burst(runtime, 10) == {200: 4, 429: 6}
