"""How long the engine's API server keeps connections that nobody uses.

vLLM closes them after 5 s. Proxies and clients keep theirs for longer, and send a request into the one that is being
closed: it is lost. So they are kept for longer than proxies do; and since an idle one would outlive the gap before a
drain and then meet a refusal, all are closed when the drain begins.

Imports nothing but the standard library, so that it fits any version of the engine's libraries.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Any

from gptservice_runtime import asgi, control

_log = logging.getLogger(__name__)

KEEP_ALIVE_SECONDS = 75
"""nginx, and the load balancers of clouds, keep idle connections to a server for 60 s."""
_POLL_SECONDS = 0.1


@contextlib.asynccontextmanager
async def kept(lifespan: asgi.Message, block: control.ControlBlock) -> AsyncIterator[None]:
    """While the server lives: keep its connections, and close the idle ones when a drain begins.

    Args:
        lifespan: ASGI's scope of the server's life; the engine has its server in the application's state.
        block: says when the drain begins.
    """
    server = getattr(getattr(lifespan.get("app"), "state", None), "server", None)
    if server is None:
        _log.warning("the engine's server is not where it is looked for: connections are kept as the engine does")
        yield
        return
    server.config.timeout_keep_alive = KEEP_ALIVE_SECONDS
    closing = asyncio.create_task(_close_idle(server, block))
    try:
        yield
    finally:
        closing.cancel()


async def _close_idle(server: Any, block: control.ControlBlock) -> None:
    """uvicorn's own `shutdown` of a connection: an idle one is closed, another when its response is complete.

    It would cut a WebSocket short, which has neither: the drain waits for those.
    """
    while not block.draining:  # noqa: ASYNC110 - it is set by another process
        await asyncio.sleep(_POLL_SECONDS)
    for connection in list(server.server_state.connections):
        if hasattr(connection, "timeout_keep_alive"):
            connection.shutdown()
