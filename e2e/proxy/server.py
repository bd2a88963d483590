"""The HTTP server: takes a request, asks the switchboard, forwards, and answers."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import ssl
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, cast

import aiohttp
from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from e2e.proxy.faults import Action, Fault
from e2e.proxy.switchboard import KeptList, Switchboard
from e2e.proxy.target import Target, classify
from e2e.proxy.watch_stream import serve_watch

if TYPE_CHECKING:
    from e2e.proxy.log import Entry

_MAX_BODY = 16 * 1024 * 1024
_CONNECT_SECONDS = 10.0
_ERROR_LENGTH = 500
_TLS_FAREWELL_SECONDS = 0.25
# Hop-by-hop headers, and those that aiohttp computes for the message that it sends itself.
_DROPPED_HEADERS = frozenset(
    {
        "connection",
        "content-length",
        "date",
        "host",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)


class ConnectionDropped(Exception):
    """The client gets no answer: its connection is closed."""


@dataclass(eq=False)
class ProxyServer:
    """One proxy in front of one API server.

    `upstream` is the API server's base URL, `upstream_tls` how to verify it (None for plain HTTP).
    A client's credentials must be in its headers (a bearer token): a client certificate ends here.
    """

    upstream: URL
    upstream_tls: ssl.SSLContext | None
    switchboard: Switchboard
    _session: aiohttp.ClientSession | None = field(default=None, init=False)
    _runner: web.AppRunner | None = field(default=None, init=False)

    async def start(self, *, port: int = 0, tls: ssl.SSLContext | None = None) -> int:
        """Listen on loopback and return the port."""
        self.switchboard.loop = asyncio.get_running_loop()
        connector = aiohttp.TCPConnector(limit=0, ssl=self.upstream_tls or False)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS)
        self._session = aiohttp.ClientSession(
            connector=connector, timeout=timeout, auto_decompress=False, skip_auto_headers=("User-Agent",)
        )
        app = web.Application(client_max_size=_MAX_BODY)
        app.router.add_route("*", "/{path:.*}", self._serve)
        # Without handler_cancellation a watch whose client died would stay open until its next event.
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.5)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port, ssl_context=tls)
        await site.start()
        return int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        self.switchboard.clear()
        self.switchboard.cut_watches()
        if self._runner is not None:
            await self._runner.cleanup()
        if self._session is not None:
            await self._session.close()
            # aiohttp says farewell to a TLS peer in the background and offers nothing to wait for.
            await asyncio.sleep(_TLS_FAREWELL_SECONDS)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        target = classify(
            method=request.method,
            path=request.path,
            query=request.query,
            content_type=request.headers.get("Content-Type", ""),
        )
        agent = request.headers.get("User-Agent", "")
        entry = self.switchboard.log.open_entry(
            method=request.method,
            path=request.path,
            query=request.query_string,
            user_agent=agent,
            target=target,
        )
        try:
            return await self._answer(request, target, entry)
        except ConnectionDropped:
            return drop_connection(request)
        except aiohttp.ClientError as error:
            entry.fault = entry.fault or f"upstream: {error!r}"
            return drop_connection(request)
        finally:
            self.switchboard.log.close_entry(entry)

    async def _answer(self, request: web.Request, target: Target, entry: Entry) -> web.StreamResponse:
        body = await request.read()
        entry.sent = status_sent(target, body)
        fault = self.switchboard.pick_fault(target, entry.user_agent)
        if fault is not None:
            entry.fault = str(fault)
            if answered := self._in_place(request, fault):
                entry.code = answered.status
                return answered
            if fault.when == "before":
                await self._suffer(fault)
        entry.forwarded = True
        if target.verb == "watch":
            return await serve_watch(self.switchboard, request, entry, lambda: self._open(request, body))
        response = await self._forward(request, body)
        if fault is not None and fault.action is Action.DUPLICATE:
            response = await self._forward(request, body)
        if fault is not None and fault.when == "after":
            await self._suffer(fault)
        entry.code = response.status
        if response.status >= HTTPStatus.BAD_REQUEST and isinstance(response.body, bytes):
            entry.error = response.body[:_ERROR_LENGTH].decode(errors="replace")
        return response

    def _in_place(self, request: web.Request, fault: Fault) -> web.Response | None:
        """The answer that is given without asking the API server, if the fault is to give one."""
        if fault.action is Action.ANSWER:
            return status_response(fault)
        if fault.action is Action.REPLAY and (kept := self.switchboard.kept_list(request.raw_path)):
            return web.Response(headers=kept.headers, body=kept.body)
        return None

    def _open(self, request: web.Request, body: bytes) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        if self._session is None:
            raise RuntimeError("the proxy is not started")
        # The path is passed on as it came: aiohttp must neither decode nor normalise it.
        url = URL(str(self.upstream).rstrip("/") + request.raw_path, encoded=True)
        return self._session.request(
            request.method, url, headers=end_to_end(request.headers), data=body or None, allow_redirects=False
        )

    async def _forward(self, request: web.Request, body: bytes) -> web.Response:
        async with self._open(request, body) as upstream:
            content, headers = await upstream.read(), end_to_end(upstream.headers)
            if request.method == "GET" and upstream.status == HTTPStatus.OK:
                self.switchboard.keep_list(request.raw_path, KeptList(headers, content))
            return web.Response(status=upstream.status, headers=headers, body=content)

    async def _suffer(self, fault: Fault) -> None:
        """Do what a fault does on its side of the forwarding; ConnectionDropped where no answer follows."""
        if fault.action is Action.KILL:
            self._kill_victim()
            raise ConnectionDropped
        if fault.action is Action.DROP:
            raise ConnectionDropped
        if fault.action is Action.HANG:
            await self.switchboard.hang()
            raise ConnectionDropped
        if fault.action is Action.DELAY:
            await asyncio.sleep(fault.seconds)

    def _kill_victim(self) -> None:
        pid = self.switchboard.victim_pid
        if pid is not None:
            os.kill(pid, signal.SIGKILL)


def drop_connection(request: web.Request) -> web.StreamResponse:
    """Close the client's connection at once; the value returned can no longer reach it."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=HTTPStatus.BAD_GATEWAY)


def status_sent(target: Target, body: bytes) -> dict[str, Any] | None:
    """The body of a write to a status; None of any other."""
    if target.verb != "status":
        return None
    try:
        found = json.loads(body)
    except ValueError:
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


def end_to_end(headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    """The headers that are passed on."""
    return CIMultiDict(item for item in headers.items() if item[0].lower() not in _DROPPED_HEADERS)


def status_response(fault: Fault) -> web.Response:
    """What an API server says for `fault.code`: a Status object."""
    phrase = HTTPStatus(fault.code).phrase
    status: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": _REASONS.get(fault.code, phrase.replace(" ", "")),
        "message": f"the test proxy answers {fault.code} {phrase} in place of the API server",
        "code": fault.code,
    }
    headers = {} if fault.retry_after is None else {"Retry-After": str(fault.retry_after)}
    return web.Response(
        status=fault.code, headers=headers, body=json.dumps(status).encode(), content_type="application/json"
    )


_REASONS = {
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
}
