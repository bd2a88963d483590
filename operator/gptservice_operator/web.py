"""The operator's own HTTP pages: probes for the kubelet, and on the loopback alone, what it is doing."""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import prometheus_client
from aiohttp import web

from .extract import Key

logger = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
EVERYWHERE: None = None
"""At addresses of every family: the kubelet asks from outside, in a cluster of IPv6 by that."""

Page = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """What is asked when a page is."""

    problems: Callable[[], list[str]]
    """Why the process has to be started again."""
    not_ready: Callable[[], str]
    """Why it is not ready; empty if it is."""
    refused: Callable[[], dict[str, list[str]]]
    """Which namespaces are left out, and why."""
    measure: Callable[[], None]
    """Called to set the metrics that are read at the moment."""
    overview: Callable[[], Page]
    """The queue and the last passes."""
    one: Callable[[Key], Page | None]
    """What is known of one service; None if there is none."""


def probes(pages: Pages) -> web.Application:
    """Return ``/healthz`` and ``/readyz``: 200, or 500 and 503 with the reasons."""

    async def healthz(_: web.Request) -> web.Response:
        found = pages.problems()
        for problem in found:
            logger.error("not healthy: %s", problem)
        return web.json_response({"problems": found}, status=500 if found else 200)

    async def readyz(_: web.Request) -> web.Response:
        why = pages.not_ready()
        return web.json_response({"waiting_for": why, "refused": pages.refused()}, status=503 if why else 200)

    application = web.Application()
    application.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz)])
    return application


def metrics(pages: Pages) -> web.Application:
    """Return ``/metrics`` in Prometheus' text format. In the loop of the passes: what it reads must not change then."""

    async def page(_: web.Request) -> web.Response:
        pages.measure()
        headers = {"Content-Type": prometheus_client.CONTENT_TYPE_LATEST}
        return web.Response(body=prometheus_client.generate_latest(), headers=headers)

    application = web.Application()
    application.add_routes([web.get("/metrics", page)])
    return application


def debug(pages: Pages) -> web.Application:
    """Return ``/debug`` and ``/debug/NAMESPACE/NAME``. Neither shows anything of a spec: people put secrets there."""

    async def overview(_: web.Request) -> web.Response:
        return web.json_response(pages.overview())

    async def one(request: web.Request) -> web.Response:
        key = request.match_info["namespace"], request.match_info["name"]
        page = pages.one(key)
        if page is None:
            return web.json_response({"error": f"there is no GPTService {'/'.join(key)}"}, status=404)
        return web.json_response(page)

    application = web.Application()
    application.add_routes([web.get("/debug", overview), web.get("/debug/{namespace}/{name}", one)])
    return application


@asynccontextmanager
async def serving(application: web.Application, host: str | None, port: int) -> AsyncIterator[None]:
    """Serve while the context lasts; not at all with port 0."""
    runner = web.AppRunner(application, handle_signals=False, shutdown_timeout=0.5, access_log=None)
    await runner.setup()
    try:
        if port:
            await web.TCPSite(runner, host, port).start()
        yield
    finally:
        await runner.cleanup()
