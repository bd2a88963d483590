"""`vllm serve` of the stand-in: start, serve, drain."""

import asyncio
import importlib
import inspect
import signal
import socket
import sys
import time
from collections.abc import Sequence
from types import FrameType
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.middleware.base import BaseHTTPMiddleware

from . import api, arguments, behaviour, core
from .engine import Engine


def main(argv: Sequence[str] | None = None) -> int:
    """Run until SIGTERM; the exit code."""
    parsed = arguments.parse(sys.argv[1:] if argv is None else argv)
    told = behaviour.from_environment()
    print(f"stand-in engine: {parsed}, {told}", flush=True)
    memory = _start(told)
    engine = Engine(parsed, told, core.Core())
    app = api.application(engine)
    app.state.engine_client = engine.core
    for path in parsed.middleware:
        _add_middleware(app, path)
    config = uvicorn.Config(app, host=parsed.host, port=parsed.port, log_level="info", access_log=False, **parsed.tls)
    config.load()
    app.state.server = server = _Server(config, engine)
    # One socket, as vLLM has it: at `::` it takes IPv4 too.
    server.run([config.bind_socket()])
    del memory
    return 0


def _start(told: behaviour.Behaviour) -> bytearray:
    """The delays and failures that were asked for; the memory to be held."""
    time.sleep(told.startup_milliseconds / 1000)
    if told.fail_at_start:
        if told.last_words:
            print(told.last_words, file=sys.stderr, flush=True)
        raise SystemExit(told.fail_at_start)
    while told.hang_at_start:
        signal.pause()
    memory = bytearray(told.allocate_mebibytes << 20)
    memory[::4096] = b"x" * len(memory[::4096])  # Untouched pages are not charged.
    return memory


def _add_middleware(app: Starlette, path: str) -> None:
    """As vLLM does: a class wraps the app, a coroutine function becomes HTTP middleware."""
    module, name = path.rsplit(".", 1)
    found: Any = getattr(importlib.import_module(module), name)
    if inspect.isclass(found):
        middleware: Any = found
        app.add_middleware(middleware)
    elif inspect.iscoroutinefunction(found):
        app.add_middleware(BaseHTTPMiddleware, dispatch=found)
    else:
        raise ValueError(f"Invalid middleware {path}. Must be a function or a class.")


class _Server(uvicorn.Server):
    """Drains as vLLM does: /health stays 200, new requests get 500, running ones have their time to end."""

    def __init__(self, config: uvicorn.Config, engine: Engine) -> None:
        super().__init__(config)
        self._engine = engine
        self._draining: asyncio.Task[None] | None = None
        self._following: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Before the first request the core has to be connected."""
        said = await self._engine.core.connect()
        self._following = asyncio.create_task(self._follow_core(said))
        await super().startup(sockets)

    async def _follow_core(self, said: asyncio.StreamReader) -> None:
        """As vLLM's watchdog: the API server is nothing without its core."""
        await self._engine.core.serve(said)
        if not self._engine.told.outlive_core:
            self.should_exit = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Called for SIGTERM and SIGINT in the main thread, between two steps of the loop."""
        if self._draining is None:
            loop = asyncio.get_running_loop()
            self._draining = loop.create_task(self._drain())

    async def _drain(self) -> None:
        timeout = self._engine.arguments.shutdown_timeout
        self._engine.draining = True
        try:
            await asyncio.wait_for(self._engine.idle.wait(), timeout)
        except TimeoutError:
            self.force_exit = True
        self.should_exit = True


if __name__ == "__main__":
    sys.exit(main())
