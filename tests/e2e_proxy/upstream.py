"""A small stand-in for kube-apiserver: it records what arrives and streams what a test feeds it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web


@dataclass
class Upstream:
    url: str = ""
    received: list[tuple[str, str, bytes]] = field(default_factory=list[tuple[str, str, bytes]])
    headers: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    code: int = 200
    watches: list[asyncio.Queue[dict[str, Any] | None]] = field(
        default_factory=list[asyncio.Queue[dict[str, Any] | None]]
    )
    closed_watches: int = 0
    _runner: web.AppRunner | None = None

    async def start(self) -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        for queue in self.watches:
            queue.put_nowait(None)
        assert self._runner is not None
        await self._runner.cleanup()

    def feed(self, kind: str = "MODIFIED", *, name: str, size: int = 0, namespace: str = "ns") -> None:
        """Send one event to every open watch."""
        event = {
            "type": kind,
            "object": {"metadata": {"name": name, "namespace": namespace}, "data": "x" * size},
        }
        for queue in self.watches:
            queue.put_nowait(event)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.received.append((request.method, request.raw_path, await request.read()))
        self.headers.append(dict(request.headers))
        if "watch" in request.query:
            return await self._watch(request)
        return web.json_response({"count": len(self.received)}, status=self.code)

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        queue: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self.watches.append(queue)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        try:
            while (event := await queue.get()) is not None:
                await response.write(json.dumps(event).encode() + b"\n")
        finally:
            self.watches.remove(queue)
            self.closed_watches += 1
        return response
