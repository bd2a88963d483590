"""Heads that never end, over real connections to uvicorn with the parser that vLLM's image has."""

import asyncio
from typing import Any

import pytest
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from gptservice_runtime import head_limit
from tests.runtime.uvicorn_server import serving

pytestmark = pytest.mark.wiring

MOST = 64 * 1024
LINE = b"X-Header: " + b"x" * 1000 + b"\r\n"


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The class is put back as it was: it is everybody's."""
    for name in ("data_received", "on_headers_complete", "on_body", "on_message_complete"):
        monkeypatch.setattr(HttpToolsProtocol, name, getattr(HttpToolsProtocol, name))
    monkeypatch.setattr(HttpToolsProtocol, "loose_bytes", 0, raising=False)
    monkeypatch.delattr(HttpToolsProtocol, "loose_bytes")
    head_limit.install(MOST)
    head_limit.install(MOST)


async def echo_size(scope: Any, receive: Any, send: Any) -> None:
    size, more = 0, True
    while more:
        message = await receive()
        size, more = size + len(message.get("body", b"")), message.get("more_body", False)
    body = str(size).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


async def send_until_closed(writer: asyncio.StreamWriter, reader: asyncio.StreamReader, piece: bytes) -> int:
    """Bytes that could be sent before the connection was closed, at most 50 MB."""
    sent = 0
    while sent < 50_000_000 and not reader.at_eof():
        try:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        except ConnectionError:
            break
        sent += len(piece)
    return sent


@pytest.mark.parametrize("piece", [LINE, b"x" * 1000], ids=["many headers", "one header's value"])
async def test_a_head_that_never_ends_is_cut(piece: bytes) -> None:
    async with serving(echo_size) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nX-Long: ")
        assert await send_until_closed(writer, reader, piece) < 20_000_000
        writer.close()


CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("begin", "piece"),
    [
        pytest.param(b"1\r\na\r\n0\r\n", LINE, id="many trailers"),
        pytest.param(b"1\r\na\r\n0\r\nX-Long: ", b"x" * 1000, id="one trailer's value"),
        pytest.param(b"1\r\na\r\n1;", b"x" * 1000, id="a chunk's extension"),
    ],
)
async def test_what_is_no_body_never_ends_and_is_cut(begin: bytes, piece: bytes) -> None:
    async with serving(echo_size) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(CHUNKED + begin)
        assert await send_until_closed(writer, reader, piece) < 20_000_000
        writer.close()


async def test_a_body_in_many_small_chunks_passes_with_its_trailers() -> None:
    """Their framing alone is more than a head may have."""
    async with serving(echo_size) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(CHUNKED)
        for _ in range(1000):
            writer.write(b"1\r\na\r\n" * 100)
            await writer.drain()
        writer.write(b"0\r\n" + LINE * 30 + b"\r\n")
        await reader.readuntil(b"\r\n\r\n")
        assert await reader.readexactly(6) == b"100000"
        writer.close()


async def test_heads_that_end_and_bodies_of_any_length_pass_on_one_connection() -> None:
    async with serving(echo_size) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for size in (0, 10, 3_000_000, 10):
            head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n" % size + LINE * 30 + b"\r\n"
            writer.write(head + b"x" * size)
            await reader.readuntil(b"\r\n\r\n")
            expected = str(size).encode()
            assert await reader.readexactly(len(expected)) == expected
        writer.close()
