"""The probe server, plain HTTP on its own port: `/livez`, `/readyz`, `/startupz` with JSON bodies, and `/metrics`."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from gptservice_runtime import addresses, contract, metrics, readiness

STALE_SECONDS = 30
"""Age of the supervisor's last heartbeat from which `/livez` is 503."""


def application(
    state: Callable[[], readiness.Readiness],
    heartbeat_age: Callable[[], float],
    page: Callable[[], Awaitable[bytes]],
) -> web.Application:
    """The routes; `heartbeat_age` in seconds, `page` is what `/metrics` answers."""

    async def live(_request: web.Request) -> web.Response:
        age = heartbeat_age()
        if age < STALE_SECONDS:
            return web.json_response({"status": "alive"})
        message = f"the supervisor's loop has not run for {age:.0f} s"
        body = contract.NotReady(reason=contract.REASON_CRASH_LOOP, message=message, phase=state().phase)
        return web.json_response(body, status=503)

    async def ready(_request: web.Request) -> web.Response:
        current = state()
        if current.ready:
            return web.json_response({"status": "ready"})
        return web.json_response(current.not_ready(), status=503)

    async def started(_request: web.Request) -> web.Response:
        current = state()
        if current.started_up:
            return web.json_response({"status": "started"})
        return web.json_response(current.not_ready(), status=503)

    async def scrape(_request: web.Request) -> web.Response:
        return web.Response(body=await page(), headers={"Content-Type": metrics.CONTENT_TYPE})

    app = web.Application()
    app.add_routes(
        [
            web.get(contract.LIVE_PATH, live),
            web.get(contract.READY_PATH, ready),
            web.get(contract.STARTUP_PATH, started),
            web.get(contract.METRICS_PATH, scrape),
        ]
    )
    return app


@asynccontextmanager
async def serving(app: web.Application, port: int) -> AsyncIterator[None]:
    """Serve on every address while the context is open; OSError when the port is taken."""
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=0.5)
    await runner.setup()
    try:
        # The kubelet comes to the pod's address.
        await web.TCPSite(runner, addresses.EVERY, port).start()
        yield
    finally:
        await runner.cleanup()
