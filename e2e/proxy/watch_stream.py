"""Passing a watch's events on, one line each, with whatever the switchboard does to them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from http import HTTPStatus
from typing import Any, Literal

import aiohttp
from aiohttp import web

from e2e.proxy.faults import EventAction, EventRule
from e2e.proxy.log import Entry
from e2e.proxy.switchboard import Switchboard, Watch

_EXPIRED: dict[str, Any] = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Failure",
    "message": "too old resource version: 1 (2), said by the test proxy",
    "reason": "Expired",
    "code": int(HTTPStatus.GONE),
}
GONE_EVENT = json.dumps({"type": "ERROR", "object": _EXPIRED}).encode() + b"\n"


class StreamOver(Exception):
    """This watch ends here, by closing the connection or by ending the answer."""

    def __init__(self, how: Literal["abort", "end"]) -> None:
        super().__init__(how)
        self.how: Literal["abort", "end"] = how


async def serve_watch(
    board: Switchboard,
    request: web.Request,
    entry: Entry,
    connect: Callable[[], AbstractAsyncContextManager[aiohttp.ClientResponse]],
) -> web.StreamResponse:
    """Answer one watch request until it is cut or either side ends it."""
    resource = entry.target.resource
    await board.admit_watch(resource)
    gone = board.take_gone(resource)
    if gone is not None:
        entry.fault = f"410 by {gone.how}"
        entry.code = int(HTTPStatus.GONE if gone.how == "http" else HTTPStatus.OK)
        content = json.dumps(_EXPIRED).encode() if gone.how == "http" else GONE_EVENT
        return web.Response(status=entry.code, body=content, content_type="application/json")
    watch = board.open_watch(resource, entry)
    try:
        async with connect() as upstream:
            return await _relay(board, request, watch, upstream)
    finally:
        board.close_watch(watch)


async def _relay(
    board: Switchboard, request: web.Request, watch: Watch, upstream: aiohttp.ClientResponse
) -> web.StreamResponse:
    watch.entry.code = upstream.status
    content_type = upstream.headers.get("Content-Type", "application/json")
    if upstream.status != HTTPStatus.OK:
        body = await upstream.read()
        return web.Response(status=upstream.status, body=body, headers={"Content-Type": content_type})
    response = web.StreamResponse(headers={"Content-Type": content_type})
    await response.prepare(request)
    pump = asyncio.ensure_future(_pump(board, watch, upstream, response))
    try:
        await asyncio.wait((pump, watch.cut), return_when=asyncio.FIRST_COMPLETED)
        how = watch.cut.result() if watch.cut.done() else pump.result()
    finally:
        pump.cancel()
    if watch.cut.done():
        watch.entry.fault = f"cut by {how}"
    return await _end(request, response, how)


async def _end(request: web.Request, response: web.StreamResponse, how: Literal["abort", "end"]) -> web.StreamResponse:
    if how == "end":
        await response.write_eof()
    elif request.transport is not None:
        request.transport.abort()
    return response


async def _pump(
    board: Switchboard, watch: Watch, upstream: aiohttp.ClientResponse, response: web.StreamResponse
) -> Literal["abort", "end"]:
    """Pass events on until the upstream or a rule ends them; returns how the client's answer ends then."""
    try:
        async for line in _lines(upstream):
            if watch.mute:
                continue
            await board.pass_gate(watch.resource)
            rule = board.pick_event_rule(watch.resource, json.loads(line)) if board.reads_events else None
            for part in await _treat(line, rule):
                await response.write(part)
                watch.entry.events += 1
    except StreamOver as over:
        if over.how == "end":
            await response.write(GONE_EVENT)
        return over.how
    except (aiohttp.ClientError, ConnectionError):
        return "abort"
    return "end"


async def _treat(line: bytes, rule: EventRule | None) -> list[bytes]:
    """What the client gets for one event; raises StreamOver where the watch ends instead."""
    if rule is None:
        return [line]
    match rule.action:
        case EventAction.DROP:
            return []
        case EventAction.DUPLICATE:
            return [line, line]
        case EventAction.DELAY:
            await asyncio.sleep(rule.seconds)
            return [line]
        case EventAction.CUT:
            raise StreamOver("abort")
        case EventAction.GONE:
            raise StreamOver("end")


async def _lines(upstream: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Whole lines; an event may be longer than aiohttp's own line limit."""
    rest = b""
    async for chunk in upstream.content.iter_any():
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line + b"\n"
    if rest:
        yield rest
