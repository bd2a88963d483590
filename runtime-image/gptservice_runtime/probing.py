"""Inside vLLM's API server: asks the engine core whether it answers, and tells the supervisor by the control block.

No request of the supervisor's own does it, so that neither API keys nor certificates can make an engine look dead.
Imports nothing but the standard library, so that it fits any version of the engine's libraries.
"""

import asyncio
import logging
from typing import Any

from gptservice_runtime import asgi, contract, control, health

_log = logging.getLogger(__name__)

_ENGINES_OWN = b"vllm:"
"""Other metrics (processor time, requests to the API server) move while the engine hangs."""


class EngineProbe:
    """Every PROBE_PERIOD_SECONDS a call to the engine core, and while requests run a look at the engine's metrics.

    The innermost of our middleware, so that it reads the metrics as the server below has them. Requests pass.
    """

    def __init__(self, app: asgi.Application) -> None:
        self._app = app
        self._control = control.ControlBlock.of_supervisor()
        self._metrics: int | None = None

    async def __call__(self, scope: asgi.Message, receive: asgi.Receive, send: asgi.Send) -> None:
        """One request; or the server's whole life, during which the probe runs."""
        if scope["type"] != "lifespan":
            await self._app(scope, receive, send)
            return
        probing = asyncio.create_task(self._probe(scope["app"]))
        try:
            await self._app(scope, receive, send)
        finally:
            probing.cancel()

    async def _probe(self, server: Any) -> None:
        engine = getattr(server.state, "engine_client", None)
        if engine is None:
            _log.warning("no engine client in this API server: whether the engine hangs cannot be told")
            return
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            self._control.count_probe(answered=await _answers(engine))
            if self._control.in_flight:
                await self._look_at_metrics(server)
            await asyncio.sleep(began + health.PROBE_PERIOD_SECONDS - loop.time())

    async def _look_at_metrics(self, server: Any) -> None:
        try:
            async with asyncio.timeout(health.PROBE_TIMEOUT_SECONDS):
                seen = hash(await self._read_metrics(server))
        except Exception:
            _log.exception("the engine's metrics could not be read")
            return
        if seen != self._metrics:
            self._metrics = seen
            self._control.count_movement()

    async def _read_metrics(self, server: Any) -> bytes:
        body = bytearray()

        async def receive() -> asgi.Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: asgi.Message) -> None:
            body.extend(message.get("body", b""))

        await self._app(_scope(server), receive, send)
        return b"\n".join(line for line in body.splitlines() if line.startswith(_ENGINES_OWN))


async def _answers(engine: Any) -> bool:
    """Whether the core answers in time; any call would do, and this one changes nothing."""
    try:
        async with asyncio.timeout(health.PROBE_TIMEOUT_SECONDS):
            await engine.is_sleeping()
    except Exception:
        return False
    return True


def _scope(server: Any) -> asgi.Message:
    """A request for the metrics that never was on a wire."""
    return {
        "type": "http",
        "app": server,
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": contract.METRICS_PATH,
        "raw_path": contract.METRICS_PATH.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [],
        "client": None,
        "server": None,
        "state": {},
    }
