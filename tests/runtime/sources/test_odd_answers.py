"""What no server is made to do for a test: to compress unasked, to answer in drops, to redirect oddly."""

import asyncio
import gzip
import hashlib
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from e2e.sources.registry import packed
from gptservice_runtime import models
from gptservice_runtime.sources import gcs, oci
from gptservice_runtime.transfer import http, retrying
from gptservice_runtime.transfer.source import Request
from tests.runtime.sources.answering import FILES, STALL, Handler, answering, fetched, secret

ITEMS = [{"name": f"m/{name}", "size": str(len(content)), "generation": "1"} for name, content in FILES.items()]
SIGNED = "/signed%2Fp%3D1/a%2Bb%20c?X-Cred=AK%2F2026%2Fs3&sig=a%2Bb%2Fc%3D&d=in%3B%20f%3D%22x%22"


def bucket(folder: Path, endpoint: str) -> gcs.GoogleCloudStorage:
    return gcs.GoogleCloudStorage("gs://bucket/m", secret(folder, STORAGE_EMULATOR_HOST=endpoint))


def content_of(request: web.Request) -> bytes:
    return FILES[request.path.rpartition("/")[2]]


async def refused(handler: Handler, folder: Path) -> models.ModelError:
    async with answering(handler) as endpoint:
        with pytest.raises(models.ModelError) as raised:
            await fetched(bucket(folder, endpoint), folder / "cache", tries=2)
    return raised.value


async def test_everything_is_asked_for_as_it_is(tmp_path: Path) -> None:
    """Proxies, web servers and frameworks compress whatever is JSON for whoever lets them."""
    asked: list[str | None] = []

    def answer(request: web.Request, body: bytes) -> web.Response:
        asked.append(accepted := request.headers.get("Accept-Encoding"))
        if "gzip" in (accepted or ""):
            return web.Response(body=gzip.compress(body), headers={"Content-Encoding": "gzip"})
        return web.Response(body=body)

    async def handler(request: web.Request) -> web.StreamResponse:
        is_list = request.path.startswith("/storage")
        return answer(request, json.dumps({"items": ITEMS}).encode() if is_list else content_of(request))

    async with answering(handler) as endpoint:
        await fetched(bucket(tmp_path, endpoint), tmp_path / "cache")
    assert set(asked) == {"identity"}


async def test_a_list_that_is_compressed_all_the_same_is_told(tmp_path: Path) -> None:
    async def handler(_request: web.Request) -> web.StreamResponse:
        body = gzip.compress(json.dumps({"items": ITEMS}).encode())
        return web.Response(body=body, headers={"Content-Encoding": "gzip"})

    error = await refused(handler, tmp_path)
    assert error.reason == "ModelDownloadFailed"
    assert "Content-Encoding gzip, which nobody asked for" in str(error)


async def test_an_archive_that_is_stored_as_compressed_comes_as_it_is_stored(tmp_path: Path) -> None:
    """Tools mark a ``.tar.gz`` so by its name; Google's store unpacks it for whoever does not ask for gzip."""
    stored = packed(dict(FILES), "w:gz")
    item = {"name": "m.tar.gz", "size": str(len(stored)), "generation": "1", "contentEncoding": "gzip"}

    async def handler(request: web.Request) -> web.StreamResponse:
        if request.path.startswith("/storage"):
            return web.json_response(item)
        if request.headers["Accept-Encoding"] == "gzip":
            return web.Response(body=stored, headers={"Content-Encoding": "gzip"})
        return web.Response(body=gzip.decompress(stored))

    async with answering(handler) as endpoint:
        given = secret(tmp_path, STORAGE_EMULATOR_HOST=endpoint)
        there = await fetched(gcs.GoogleCloudStorage("gs://bucket/m.tar.gz", given), tmp_path / "cache")
    assert {file.path for file in there.files} == set(FILES)


async def test_a_file_that_is_stored_as_compressed_is_told(tmp_path: Path) -> None:
    async def handler(_request: web.Request) -> web.StreamResponse:
        return web.json_response({"items": [{**ITEMS[0], "contentEncoding": "gzip"}, ITEMS[1]]})

    error = await refused(handler, tmp_path)
    assert error.reason == "ModelDownloadFailed"
    assert "gs://bucket/m/config.json: it is stored with contentEncoding gzip" in str(error)


@pytest.mark.parametrize(
    ("sent", "found"),
    [("gzip", "gzip"), ("", ""), ("identity", ""), ("aws-chunked", ""), ("aws-chunked, GZIP", "gzip")],
)
def test_a_coding_is_what_changes_the_bytes(sent: str, found: str) -> None:
    assert http.coding_of({"Content-Encoding": sent}) == found
    assert http.coding_of({}) == ""


NO_SIZE = {"name": "m/config.json", "generation": "1"}
NO_GENERATION = {"name": "m/config.json", "size": "2"}


@pytest.mark.parametrize(
    ("listed", "reason", "words"),
    [
        pytest.param({"items": [NO_SIZE, ITEMS[1]]}, "ModelDownloadFailed", "m/config.json", id="no size"),
        pytest.param({"items": [NO_GENERATION, ITEMS[1]]}, "ModelDownloadFailed", "m/config.json", id="no generation"),
        pytest.param({"items": [{**ITEMS[0], "size": "9" * 5000}]}, "ModelDownloadFailed", "m/config.json", id="huge"),
        pytest.param({"items": [{"size": "2"}, ITEMS[1]]}, "ModelNotFound", "it has no config.json", id="no name"),
        pytest.param({"items": ["x"]}, "ModelDownloadFailed", "items are no objects", id="no objects"),
        pytest.param({"items": 5}, "ModelDownloadFailed", "items are no objects", id="no items"),
        pytest.param({"items": None}, "ModelNotFound", "it has no config.json", id="null"),
        pytest.param({}, "ModelNotFound", "it has no config.json", id="nothing"),
        pytest.param([], "ModelDownloadFailed", "the list is no JSON", id="another list"),
    ],
)
async def test_a_list_that_is_none_is_told(tmp_path: Path, listed: Any, reason: str, words: str) -> None:
    async def handler(_request: web.Request) -> web.StreamResponse:
        return web.json_response(listed)

    error = await refused(handler, tmp_path)
    assert error.reason == reason
    assert words in str(error)


async def dripping(request: web.Request, body: bytes) -> web.StreamResponse:
    begin = request.http_range.start or 0
    response = web.StreamResponse(status=206 if begin else 200)
    response.headers["Content-Range"] = f"bytes {begin}-{len(body) - 1}/{len(body)}"
    response.content_length = len(body) - begin
    await response.prepare(request)
    with suppress(ConnectionError):
        for at in range(begin, len(body)):
            await response.write(body[at : at + 1])
            await asyncio.sleep(STALL / 5)
    return response


@pytest.mark.parametrize("what", ["/storage", "/download"])
async def test_a_drip_ends_in_a_reason(tmp_path: Path, what: str) -> None:
    """Each byte comes before anybody would call it silence."""

    async def handler(request: web.Request) -> web.StreamResponse:
        is_list = request.path.startswith("/storage")
        body = json.dumps({"items": ITEMS}).encode() if is_list else content_of(request)
        if request.path.startswith(what) and len(body) > 2:
            return await dripping(request, body)
        return web.Response(body=body)

    error = await refused(handler, tmp_path)
    assert error.reason == "ModelDownloadStalled"
    assert "B came in 2 s; that was try 2 of 2" in str(error)


async def test_a_head_that_comes_in_drops_ends_in_a_reason() -> None:
    async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            for byte in b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 1000:
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(STALL / 5)
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        async with http.connected(oci.Registry("oci://localhost/a", Path("none")), STALL) as connection:
            with pytest.raises(retrying.PassingError, match="it: no answer in 2 s") as raised:
                await connection.read(Request(url=f"http://127.0.0.1:{port}/"), "it")
    assert raised.value.reason == "ModelDownloadStalled"


@pytest.mark.parametrize(
    ("location", "arrived"),
    [
        pytest.param(SIGNED, SIGNED, id="signed"),
        pytest.param("/with a space?and=a b", "/with%20a%20space?and=a%20b", id="unquoted"),
        pytest.param("/[a]?x={b}", "/[a]?x=%7Bb%7D", id="half quoted"),
    ],
)
async def test_a_redirect_is_followed_as_it_is_written(location: str, arrived: str) -> None:
    """A signature is of the address's very characters."""
    seen: list[str] = []

    async def handler(request: web.Request) -> web.StreamResponse:
        if request.path == "/begin":
            return web.Response(status=302, headers={"Location": location})
        seen.append(request.raw_path)
        return web.Response()

    async with (
        answering(handler) as endpoint,
        http.connected(oci.Registry("oci://localhost/a", Path("none")), STALL) as connection,
    ):
        await connection.read(Request(url=f"{endpoint}/begin"), "it")
    assert seen == [arrived]


def manifest() -> bytes:
    layers = [
        {"mediaType": "a/b", "digest": sha256(content), "size": len(content), "annotations": {TITLE: name}}
        for name, content in FILES.items()
    ]
    return json.dumps({"layers": layers}).encode()


TITLE = "org.opencontainers.image.title"


def sha256(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


class TokenRegistry:
    """A registry that forgets its token when somebody says so."""

    def __init__(self, *, forgets: int, expires_in: object = 300) -> None:
        self.forgets = forgets
        """How many layers' requests are refused with a token that did before."""
        self.expires_in = expires_in
        self.given: list[str] = []
        self.shown: list[str] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/token":
            self.given.append(f"token-{len(self.given)}")
            return web.json_response({"token": self.given[-1], "expires_in": self.expires_in})
        shown = request.headers.get("Authorization", "").removeprefix("Bearer ")
        self.shown.append(shown)
        is_layer = "/blobs/" in request.path
        if not shown or shown != self.given[-1] or (is_layer and self.forgets > 0):
            self.forgets -= is_layer
            challenge = f'Bearer realm="http://{request.host}/token",service="x"'
            return web.Response(status=401, headers={"WWW-Authenticate": challenge})
        if not is_layer:
            return web.Response(body=manifest())
        return web.Response(body=next(body for body in FILES.values() if request.path.endswith(sha256(body))))

    def source(self, endpoint: str) -> oci.Registry:
        return oci.Registry(f"oci://{endpoint.removeprefix('http://')}/a/b:v1", Path("none"))


@pytest.mark.parametrize("times", [1, 4])
async def test_a_token_that_is_refused_in_mid_model_is_replaced(tmp_path: Path, times: int) -> None:
    """As when a registry's replicas are replaced one after another, with a new key that signs."""
    registry = TokenRegistry(forgets=times)
    async with answering(registry.handle) as endpoint:
        await fetched(registry.source(endpoint), tmp_path / "cache")
    assert len(registry.given) > 1


async def test_who_refuses_every_token_has_the_last_word(tmp_path: Path) -> None:
    registry = TokenRegistry(forgets=100)
    async with answering(registry.handle) as endpoint:
        with pytest.raises(models.ModelError, match=r"answered 401.*that was try 3 of 3") as refused:
            await fetched(registry.source(endpoint), tmp_path / "cache", tries=3)
    assert refused.value.reason == "ModelAccessDenied"


@pytest.mark.parametrize(("expires_in", "is_one"), [(0.001, False), (300, True), (None, True), (0, True)])
async def test_a_token_is_used_as_long_as_it_lives(tmp_path: Path, expires_in: object, is_one: bool) -> None:
    """One lives for less than a minute where somebody says so; one of no time at all is of those who do not say."""
    registry = TokenRegistry(forgets=0, expires_in=expires_in)
    async with answering(registry.handle) as endpoint:
        await fetched(registry.source(endpoint), tmp_path / "cache")
    assert (len(registry.given) == 1) is is_one
