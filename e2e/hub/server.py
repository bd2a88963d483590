"""The two servers: the hub, and the host to which it redirects for the large files."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from e2e.hub.faults import Fault, Place
from e2e.hub.repository import Repository, StoredFile

_PIECE = 1 << 18
SIGNATURE = "Signature=secret-of-the-other-host"
"""In the addresses of the other host; nobody should log it."""


@dataclass(frozen=True)
class Seen:
    """A request as it came."""

    place: Place
    name: str
    authorization: str | None
    range: str | None


@dataclass
class Hub:
    """What is served, what goes wrong, and what was asked for."""

    repositories: Mapping[str, Repository]
    faults: list[Fault] = field(default_factory=list[Fault])
    with_blobs: bool = True
    """False: like mirrors that leave sizes and digests out of the list."""
    host: str = "127.0.0.1"
    port: int = 0
    cdn_port: int = 0
    tls: ssl.SSLContext | None = None
    """Of both hosts; None for plain HTTP."""
    seen: list[Seen] = field(default_factory=list[Seen])
    sent: int = 0
    """Bytes of files."""

    @property
    def endpoint(self) -> str:
        """The hub's URL."""
        return f"{self._scheme}://{self.host}:{self.port}"

    @property
    def _scheme(self) -> str:
        return "http" if self.tls is None else "https"

    def count(self, place: Place, name: str = "") -> int:
        """How many requests there were."""
        return sum(1 for one in self.seen if one.place == place and name in one.name)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Hub]:
        """Listen on both ports while the context is open."""
        hub, cdn = web.Application(), web.Application()
        hub.add_routes(
            [
                web.get("/api/models/{org}/{repo}", self._api),
                web.get("/api/models/{org}/{repo}/revision/{revision}", self._api),
                web.get("/{org}/{repo}/resolve/{revision}/{name:.+}", self._resolve),  # HEAD, too
            ]
        )
        cdn.add_routes([web.get("/{org}/{repo}/{name:.+}", self._cdn)])
        runners = [
            web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1) for app in (hub, cdn)
        ]
        ports: list[int] = []
        try:
            for runner, port in zip(runners, (self.port, self.cdn_port), strict=True):
                await runner.setup()
                site = web.TCPSite(runner, self.host, port, ssl_context=self.tls)
                await site.start()
                ports.append(runner.addresses[0][1])
            self.port, self.cdn_port = ports
            yield self
        finally:
            for runner in runners:
                await runner.cleanup()

    async def _api(self, request: web.Request) -> web.StreamResponse:
        repository = self._let_in(request, "api", "")
        if (fault := self._fault("api", "")) is not None and fault.status is not None:
            return web.Response(status=fault.status, headers=fault.headers)
        if fault is not None and fault.stop_after is not None:
            await asyncio.Event().wait()
        blobs = self.with_blobs and "blobs" in request.query
        name = f"{request.match_info['org']}/{request.match_info['repo']}"
        siblings = [file.sibling(blobs) for file in repository.files.values()]
        return web.json_response(
            {"_id": "1", "id": name, "modelId": name, "sha": repository.commit, "siblings": siblings}
        )

    async def _resolve(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        repository = self._let_in(request, "resolve", name)
        if name not in repository.files:
            raise web.HTTPNotFound(headers={"X-Error-Code": "EntryNotFound"})
        fault, file = self._fault("resolve", name), repository.files[name]
        if fault is not None and fault.status is not None:
            return web.Response(status=fault.status, headers=fault.headers)
        headers = {"X-Repo-Commit": repository.commit, "ETag": f'"{file.blob_id}"', "Accept-Ranges": "bytes"}
        if not file.is_lfs:
            return await self._bytes(request, file, fault, headers)
        path = f"{request.match_info['org']}/{request.match_info['repo']}/{name}"
        headers |= {"X-Linked-Size": str(file.size), "X-Linked-ETag": f'"{file.sha256}"'}
        location = f"{self._scheme}://{request.url.host}:{self.cdn_port}/{path}?{SIGNATURE}"
        return web.Response(status=302, headers={**headers, "Location": location})

    async def _cdn(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        self._saw(request, "cdn", name)
        file = self.repositories[f"{request.match_info['org']}/{request.match_info['repo']}"].files[name]
        fault = self._fault("cdn", name)
        if fault is not None and fault.status is not None:
            return web.Response(status=fault.status, headers=fault.headers)
        return await self._bytes(request, file, fault, {"ETag": f'"{file.sha256}"', "Accept-Ranges": "bytes"})

    def _let_in(self, request: web.Request, place: Place, name: str) -> Repository:
        """As Hugging Face does: who shows no token is not told whether a repository exists."""
        self._saw(request, place, name)
        repository = self.repositories.get(f"{request.match_info['org']}/{request.match_info['repo']}")
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if repository is None:
            code = {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"}
            raise web.HTTPNotFound(headers=code) if token else web.HTTPUnauthorized(headers=code)
        if repository.gated and token not in repository.readers:
            code = {"X-Error-Code": "GatedRepo", "X-Error-Message": f"Access to model is restricted {token}"}
            raise web.HTTPForbidden(headers=code) if token else web.HTTPUnauthorized(headers=code)
        if not repository.knows(request.match_info.get("revision", "main")):
            raise web.HTTPNotFound(headers={"X-Error-Code": "RevisionNotFound", "X-Error-Message": "Invalid rev id"})
        return repository

    def _saw(self, request: web.Request, place: Place, name: str) -> None:
        if request.method != "HEAD":
            self.seen.append(Seen(place, name, request.headers.get("Authorization"), request.headers.get("Range")))

    def _fault(self, place: Place, name: str) -> Fault | None:
        fault = next((fault for fault in self.faults if fault.hits(place, name)), None)
        if fault is not None:
            fault.times -= 1
        return fault

    async def _bytes(
        self, request: web.Request, file: StoredFile, fault: Fault | None, headers: Mapping[str, str]
    ) -> web.StreamResponse:
        begin = request.http_range.start or 0
        if begin >= file.size > 0:
            return web.Response(status=416)
        response = web.StreamResponse(status=206 if "Range" in request.headers else 200, headers=headers)
        if response.status == 206:
            response.headers["Content-Range"] = f"bytes {begin}-{file.size - 1}/{file.size}"
        response.content_length = file.size - begin
        await response.prepare(request)
        if request.method != "HEAD":
            await self._send(request, response, file, begin, fault or Fault("cdn"))
        return response

    async def _send(
        self, request: web.Request, response: web.StreamResponse, file: StoredFile, begin: int, fault: Fault
    ) -> None:
        end = file.size if fault.stop_after is None else min(file.size, begin + fault.stop_after)
        with file.path.open("rb") as stored:
            stored.seek(begin)
            at, first = begin, True
            while at < end:
                piece = stored.read(min(_PIECE, end - at))
                at += len(piece)
                if fault.corrupt and first:
                    piece = bytes([piece[0] ^ 0xFF]) + piece[1:]
                first = False
                await response.write(piece)
                self.sent += len(piece)
                await asyncio.sleep(fault.seconds_per_mebibyte * len(piece) / (1 << 20))
        if end < file.size and fault.then == "hang":
            await asyncio.Event().wait()
        if end < file.size and request.transport is not None:
            request.transport.close()
