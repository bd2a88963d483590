"""uvicorn as vLLM has it, in the test's own loop."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn

from tests.runtime.harness import until


@asynccontextmanager
async def serving(app: Any, *, http: Any = "httptools", keep_alive: int = 5) -> AsyncIterator[int]:
    """Serve while the context is open; gives the port. `keep_alive`: seconds until uvicorn ends an idle connection."""
    config = uvicorn.Config(app, port=0, http=http, lifespan="off", log_config=None, timeout_keep_alive=keep_alive)
    server = uvicorn.Server(config)
    running = asyncio.create_task(server._serve())
    await until(lambda: server.started, "the server")
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        await running
