"""Connections that nobody uses, over real ones to uvicorn with the parser that vLLM's image has."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import uvicorn

from gptservice_runtime import connections, control
from gptservice_runtime.limits import InFlightLimit
from tests.runtime.harness import until

pytestmark = pytest.mark.wiring

REQUEST = b"GET /v1/models HTTP/1.1\r\nHost: engine\r\n\r\n"


@dataclass
class Engine:
    """An application of the engine's kind, whose answers a test lets go."""

    port: int = 0
    block: control.ControlBlock = field(default_factory=control.ControlBlock.private)
    go: asyncio.Event = field(default_factory=asyncio.Event)
    asked: int = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        self.asked += 1
        await self.go.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection with one request sent."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(REQUEST)
        return reader, writer


class State:
    """Where vLLM's application has its server."""

    server: Any = None


@asynccontextmanager
async def serving(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[uvicorn.Server]:
    monkeypatch.setattr(control.ControlBlock, "of_supervisor", lambda: engine.block)
    limited, state = InFlightLimit(engine), State()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await limited({**scope, "app": type("App", (), {"state": state})}, receive, send)

    server = uvicorn.Server(uvicorn.Config(app, port=0, http="httptools", lifespan="on", log_config=None))
    state.server = server
    running = asyncio.create_task(server._serve())
    await until(lambda: server.started, "the server")
    engine.port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        server.should_exit = True
        await running


async def test_they_are_kept_for_longer_than_proxies_keep_them(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine()
    engine.go.set()
    async with serving(engine, monkeypatch) as server:
        reader, writer = await engine.connect()
        assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200")
        (connection,) = server.server_state.connections
        assert connection.timeout_keep_alive == connections.KEEP_ALIVE_SECONDS > 60
        writer.close()


async def test_when_a_drain_begins_the_idle_ones_are_closed_and_the_others_answered_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = Engine()
    async with serving(engine, monkeypatch):
        engine.go.set()
        idle, idle_writer = await engine.connect()
        await idle.readuntil(b"ok")
        engine.go.clear()
        busy, busy_writer = await engine.connect()
        await until(lambda: engine.asked == 2, "the second request")
        engine.block.drain()
        assert await idle.read() == b""
        engine.go.set()
        assert (await busy.read()).endswith(b"ok")
        for writer in (idle_writer, busy_writer):
            writer.close()


async def test_a_websocket_is_not_closed_when_a_drain_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """uvicorn's own way for those is to cut them; here is no library for one, so that it is played."""
    closed: list[str] = []

    class WebSocket:
        def shutdown(self) -> None:
            closed.append("websocket")

    class Idle(WebSocket):
        timeout_keep_alive = 5

        def shutdown(self) -> None:
            closed.append("idle")

    engine = Engine()
    async with serving(engine, monkeypatch) as server:
        server.server_state.connections |= {WebSocket(), Idle()}  # type: ignore[arg-type]
        engine.block.drain()
        await until(lambda: closed, "the drain")
        server.server_state.connections.clear()
    assert closed == ["idle"]


async def test_an_engine_that_keeps_its_server_elsewhere_still_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    block = control.ControlBlock.private()
    async with connections.kept({"type": "lifespan"}, block):
        block.drain()
