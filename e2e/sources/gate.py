"""A gate before a server: passes requests on, sees them, asks for a password, and has the faults of networks."""

from __future__ import annotations

import asyncio
import base64
import re
import ssl
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field

import aiohttp
import yarl
from aiohttp import web

from e2e.hub.faults import Fault, Place

_PIECE = 1 << 16
_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "date", "server"})
TOKEN = "token-of-the-gate"  # noqa: S105 - of a server of this test


@dataclass(frozen=True)
class Seen:
    """A request as it came."""

    place: Place
    method: str
    path: str
    authorization: str | None
    range: str | None


@dataclass
class Gate:
    """One server behind it."""

    upstream: str
    files: re.Pattern[str]
    """What the path and query of a request for a file's bytes match."""
    host: str = "127.0.0.1"
    tls: ssl.SSLContext | None = None
    password: tuple[str, str] | None = None
    """User and password that are asked for, where any are."""
    bearer: bool = False
    """Whether they have to be turned into a token first, as registries want it; else the header must hold them."""
    token: str | None = None
    """A bearer token that is asked for, where one is."""
    faults: list[Fault] = field(default_factory=list[Fault])
    seen: list[Seen] = field(default_factory=list[Seen])
    port: int = 0
    sent: int = 0
    """Bytes of files."""

    @property
    def address(self) -> str:
        """Host and port."""
        return f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"{'http' if self.tls is None else 'https'}://{self.address}"

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Gate]:
        """Listen while the context is open."""
        app = web.Application(client_max_size=1 << 30)
        app.add_routes([web.route("*", "/{path:.*}", self._answer)])
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        try:
            await runner.setup()
            await web.TCPSite(runner, self.host, self.port, ssl_context=self.tls).start()
            self.port = runner.addresses[0][1]
            yield self
        finally:
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if self.bearer and request.path == "/token":
            return self._token(request)
        is_file = request.method == "GET" and self.files.search(request.path_qs) is not None
        place: Place = "cdn" if is_file else "api"
        name = request.path.rpartition("/")[2]
        headers = request.headers
        self.seen.append(
            Seen(place, request.method, request.path_qs, headers.get("Authorization"), headers.get("Range"))
        )
        if (refusal := self._refusal(request)) is not None:
            return refusal
        fault = next((fault for fault in self.faults if fault.hits(place, name)), None)
        if fault is not None:
            fault.times -= 1
        if fault is not None and fault.status is not None:
            return web.Response(status=fault.status, headers=fault.headers, body=fault.body)
        return await self._pass_on(request, fault or Fault(place), is_file)

    async def _pass_on(self, request: web.Request, fault: Fault, is_file: bool) -> web.StreamResponse:
        headers = {key: value for key, value in request.headers.items() if key.lower() not in _HOP}
        if self.password is not None or self.token is not None:
            headers.pop("Authorization", None)
        async with aiohttp.ClientSession(auto_decompress=False, skip_auto_headers=["User-Agent", "Accept"]) as session:
            url = f"{self.upstream}{request.path_qs}"
            async with session.request(
                request.method, _url(url), headers=headers, data=await request.read(), allow_redirects=False
            ) as found:
                kept = {key: value for key, value in found.headers.items() if key.lower() not in _HOP}
                response = web.StreamResponse(status=found.status, headers=kept)
                await response.prepare(request)
                if request.method != "HEAD":
                    await self._send(request, response, found, fault, is_file and found.ok)
                return response

    async def _send(
        self,
        request: web.Request,
        response: web.StreamResponse,
        found: aiohttp.ClientResponse,
        fault: Fault,
        counts: bool,
    ) -> None:
        left, first = fault.stop_after, True
        async for piece in found.content.iter_chunked(_PIECE):
            if fault.corrupt and first:
                piece = bytes([piece[0] ^ 0xFF]) + piece[1:]
            first = False
            if left is not None:
                piece, left = piece[:left], left - len(piece[:left])
            if piece:
                await response.write(piece)
                self.sent += len(piece) if counts else 0
            if left == 0:
                break
            await asyncio.sleep(fault.seconds_per_mebibyte * len(piece) / (1 << 20))
        if left == 0 and fault.then == "hang":
            await asyncio.Event().wait()
        if left == 0 and request.transport is not None:
            request.transport.close()

    def _refusal(self, request: web.Request) -> web.Response | None:
        shown = request.headers.get("Authorization")
        if self.token is not None and shown != f"Bearer {self.token}":
            return web.Response(status=401 if shown is None else 403)
        if self.password is None or shown == (f"Bearer {TOKEN}" if self.bearer else self._basic):
            return None
        challenge = f'Bearer realm="{self.url}/token",service="gate"' if self.bearer else 'Basic realm="gate"'
        return web.Response(status=401, headers={"WWW-Authenticate": challenge})

    def _token(self, request: web.Request) -> web.Response:
        self.seen.append(Seen("api", "GET", request.path_qs, request.headers.get("Authorization"), None))
        if request.headers.get("Authorization") != self._basic:
            return web.Response(status=401)
        return web.json_response({"token": TOKEN, "expires_in": 300})

    @property
    def _basic(self) -> str:
        return f"Basic {base64.b64encode(':'.join(self.password or ()).encode()).decode()}"


def _url(text: str) -> yarl.URL:
    return yarl.URL(text, encoded=True)


@contextmanager
def in_thread(gate: Gate) -> Iterator[Gate]:
    """Serve while the context is open, for tests that are not asynchronous; what could not listen raises here."""
    loop, stop, up = asyncio.new_event_loop(), asyncio.Event(), threading.Event()
    failures: list[OSError] = []

    async def serve() -> None:
        try:
            async with gate.serving():
                up.set()
                await stop.wait()
        except OSError as error:
            failures.append(error)
            up.set()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), name="gate")
    thread.start()
    up.wait()
    try:
        if failures:
            raise failures[0]
        yield gate
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()
