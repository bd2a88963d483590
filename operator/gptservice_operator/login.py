"""Logs kopf in with a session that tells what its watches bring, and when one begins."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import aiohttp
import kopf
from yarl import URL

from . import streams
from .api import kinds
from .scope import Collection, Scope

GONE_SECONDS = 10.0
"""How long the news that a kind is gone is kept from kopf. It ends the process by it, unless it has heard of the CRD's
deletion by then, upon which it drops the watch; the API server tells the two in any order."""

_SCAN_PATH = "/apis"
_REFUSED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracing:
    """What is told of the watches' own requests."""

    scope: Scope
    event: streams.Take
    """Called with each event."""
    listed: Callable[[Collection], None]
    """Called when kopf has listed a kind, so that its watch begins."""
    began: Callable[[Collection], None]
    """Called for a watch that the API server answers."""
    asked: Callable[[Collection], None]
    """Called for a watch that was asked for, also where nobody answers, but not where it is forbidden."""
    refused: Callable[[Collection], None]
    """Called for a watch that is forbidden, which kopf asks for again and again."""
    on_scan: Callable[[], Awaitable[None]]
    """Awaited before kopf looks which kinds there are: at the start, and when a CRD changes."""


def login_traced(tracing: Tracing, **kwargs: Any) -> kopf.AiohttpSession | None:
    """Log in as the pod's service account, or by KUBECONFIG.

    kopf lists a kind each time that a watch cannot be continued. Of what has gone in the meantime no list tells, so the
    lists themselves are watched for.

    Args:
        tracing: told of the requests.
        kwargs: what kopf passes to a login handler.
    """
    info = kopf.login_with_service_account(**kwargs) or kopf.login_with_kubeconfig(**kwargs)
    if info is None:
        return None
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=info.as_ssl_context()),
        headers=info.as_http_headers(),
        proxy=info.proxy_url,
        trust_env=info.trust_env,
        response_class=streams.response_class(tracing.scope.paths(), tracing.event),
        trace_configs=[_trace_lists(tracing), _trace_watches(tracing)],
    )
    return kopf.AiohttpSession(
        server=info.server,
        default_namespace=info.default_namespace,
        priority=info.priority,
        aiohttp_session=session,
    )


def _trace_lists(tracing: Tracing) -> aiohttp.TraceConfig:
    by_path = tracing.scope.paths()

    async def on_request_start(_session: Any, _context: Any, params: aiohttp.TraceRequestStartParams) -> None:
        if params.url.path == _SCAN_PATH:
            await tracing.on_scan()

    async def on_request_end(_session: Any, _context: Any, params: aiohttp.TraceRequestEndParams) -> None:
        query = params.url.query
        one = by_path.get(params.url.path)
        if one is None:
            return
        if one.kind in kinds.OPTIONAL and params.response.status == HTTPStatus.NOT_FOUND:
            await asyncio.sleep(GONE_SECONDS)
        elif params.method == "GET" and not {"watch", "continue"} & query.keys():
            tracing.listed(one)

    config = aiohttp.TraceConfig()
    config.on_request_start.append(on_request_start)
    config.on_request_end.append(on_request_end)
    return config


def _trace_watches(tracing: Tracing) -> aiohttp.TraceConfig:
    by_path = tracing.scope.paths()

    def watched(url: URL) -> Collection | None:
        return by_path.get(url.path) if "watch" in url.query else None

    async def on_request_end(_session: Any, _context: Any, params: aiohttp.TraceRequestEndParams) -> None:
        one, status = watched(params.url), params.response.status
        if one is not None and status == HTTPStatus.OK:
            tracing.began(one)
        if one is not None and status not in _REFUSED:
            tracing.asked(one)
        elif one is not None and status == HTTPStatus.FORBIDDEN:
            tracing.refused(one)

    async def on_request_exception(_session: Any, _context: Any, params: aiohttp.TraceRequestExceptionParams) -> None:
        if (one := watched(params.url)) is not None:
            tracing.asked(one)

    config = aiohttp.TraceConfig()
    config.on_request_end.append(on_request_end)
    config.on_request_exception.append(on_request_exception)
    return config
