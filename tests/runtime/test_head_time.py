"""Connections that send no head, over real ones to uvicorn with both parsers."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from gptservice_runtime import connections, head_time, sizes
from tests.runtime.uvicorn_server import serving

pytestmark = pytest.mark.wiring

IDLE, HEAD = 0.6, 0.3
REQUEST = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n"


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The classes are put back as they were: they are everybody's."""
    for protocol in (HttpToolsProtocol, H11Protocol):
        for name in ("connection_made", "data_received", "connection_lost", "handle_websocket_upgrade"):
            monkeypatch.setattr(protocol, name, getattr(protocol, name))
        for name in ("head_timer", "head_has_begun"):
            monkeypatch.setattr(protocol, name, None, raising=False)
            monkeypatch.delattr(protocol, name)
    head_time.install(IDLE, HEAD)
    head_time.install(IDLE, HEAD)


async def slow_answer(scope: Any, receive: Any, send: Any) -> None:
    while (await receive()).get("more_body", False):
        pass
    await asyncio.sleep(2 * IDLE)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


async def early_answer(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 429, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"no"})


def now() -> float:
    return asyncio.get_running_loop().time()


async def seconds_open(reader: asyncio.StreamReader, since: float) -> float:
    """Since a time before that from which the server counts."""
    async with asyncio.timeout(5):
        with suppress(ConnectionError):
            assert await reader.read() == b""
    return now() - since


@pytest.mark.parametrize("http", ["httptools", "h11"])
async def test_one_that_sends_nothing_is_closed(http: str) -> None:
    async with serving(slow_answer, http=http, keep_alive=30) as port:
        began = now()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert IDLE * 0.9 <= await seconds_open(reader, began) < 3
        writer.close()


@pytest.mark.parametrize("http", ["httptools", "h11"])
async def test_a_head_that_does_not_end_is_closed_however_it_drips(http: str) -> None:
    async with serving(slow_answer, http=http, keep_alive=30) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        began = now()
        writer.write(b"POST / HTTP/1.1\r\nX-Long: ")

        async def drip() -> None:
            while not writer.is_closing():
                writer.write(b"x")
                await asyncio.sleep(HEAD / 10)

        dripping = asyncio.create_task(drip())
        assert HEAD * 0.9 <= await seconds_open(reader, began) < 3
        dripping.cancel()
        writer.close()


@pytest.mark.parametrize("http", ["httptools", "h11"])
async def test_bodies_answers_and_pauses_have_their_own_times(http: str) -> None:
    """Each request takes longer than a head may, and so does the pause before the next one."""
    async with serving(slow_answer, http=http, keep_alive=30) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(2):
            await asyncio.sleep(IDLE / 2)
            writer.write(REQUEST[:20])
            await asyncio.sleep(HEAD / 10)
            writer.write(REQUEST[20:])
            await asyncio.sleep(2 * HEAD)
            writer.write(b"{}")
            assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200")
            await asyncio.sleep(2 * IDLE)
        began = now()
        writer.write(REQUEST[:20])
        assert HEAD * 0.9 <= await seconds_open(reader, began) < 3
        writer.close()


@pytest.mark.parametrize("http", ["httptools", "h11"])
async def test_the_rest_of_a_body_after_an_early_answer_is_no_head(http: str) -> None:
    """As a 429 is given: what follows is a pause between requests, which has its own time."""
    async with serving(early_answer, http=http, keep_alive=30) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(REQUEST)
        await reader.readuntil(b"no")
        writer.write(b"{}")
        await asyncio.sleep(2 * HEAD)
        writer.write(REQUEST)
        await reader.readuntil(b"no")
        writer.close()


def test_nothing_that_is_silent_is_closed_before_proxies_close_it() -> None:
    assert connections.KEEP_ALIVE_SECONDS > sizes.HEAD_SECONDS >= 60
