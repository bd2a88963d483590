"""What is gone on with, of a web server that has another file meanwhile: never are two files joined into one."""

import asyncio
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiohttp import web

from e2e.cluster import pki
from e2e.sources.registry import packed
from gptservice_runtime import models
from gptservice_runtime.sources import https
from gptservice_runtime.transfer import file as transfer
from gptservice_runtime.transfer import resuming
from gptservice_runtime.transfer.digests import Digest
from gptservice_runtime.transfer.download import Downloaded
from gptservice_runtime.transfer.source import RemoteFile
from tests.runtime.harness import until
from tests.runtime.sources.answering import answering, fetched, secret

SIZE = 2_000_000
FIRST = 1_000_000
"""Bytes of an answer that breaks off."""
TARS = {
    letter: packed({"config.json": b"{}", "model.safetensors": letter.encode() * SIZE}) for letter in ("A", "B")
} | {"longer": packed({"config.json": b"{}", "model.safetensors": b"C" * 2 * SIZE})}
LISTED = "A"
WEAK = {"ETag": 'W/"{}"'}
STRONG = {"ETag": '"{}"'}
DATED = {"Last-Modified": "{}"}


@dataclass
class Server:
    """A web server with one file, another one after each answer."""

    files: list[str]
    """One for each answer that brings bytes; the last one stays."""
    marks: Mapping[str, str]
    cuts: int = 1
    """How many of these answers break off."""
    marks_of_parts: bool = True
    knows_ranges: bool = True
    seen: list[tuple[str | None, str | None]] = field(default_factory=list[tuple[str | None, str | None]], init=False)
    """Range and If-Range of each request for bytes."""
    cache: Path = field(init=False)
    """Where they arrive."""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        there = LISTED if request.method == "HEAD" else self.files[0]
        body, marks = TARS[there], {name: mark.format(there) for name, mark in self.marks.items()}
        if request.method == "HEAD":
            return web.Response(headers={**marks, "Content-Length": str(len(body))})
        asked, condition = request.headers.get("Range"), request.headers.get("If-Range")
        self.seen.append((asked, condition))
        if len(self.files) > 1:
            self.files.pop(0)
        begin = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and self.knows_ranges else 0
        if begin and condition not in (None, *marks.values()):
            begin = 0
        response = web.StreamResponse(status=206 if begin else 200)
        if not begin or self.marks_of_parts:
            response.headers.update(marks)
        if begin:
            response.headers["Content-Range"] = f"bytes {begin}-{len(body) - 1}/{len(body)}"
        response.content_length = len(body) - begin
        await response.prepare(request)
        if not self.cuts:
            await response.write(body[begin:])
            return response
        self.cuts -= 1
        await response.write(body[begin : begin + FIRST])
        # What is still in the connection would be thrown away.
        await asyncio.sleep(0.2)
        await until(lambda: request.transport is None or self._arrived() >= begin + FIRST, "the first bytes to arrive")
        if request.transport is not None:
            request.transport.close()
        return response

    def _arrived(self) -> int:
        """How much of a file is there at most."""
        with suppress(FileNotFoundError):
            return max((part.stat().st_size for part in self.cache.rglob("*.part")), default=0)
        return 0


@dataclass
class Web:
    """What is needed to fetch by TLS."""

    folder: Path
    server_tls: ssl.SSLContext
    ca: str

    async def fetched(self, server: Server, *, tries: int = 6) -> Downloaded:
        given = secret(self.folder, ca__crt=self.ca)
        async with answering(server.handle, self.server_tls) as endpoint:
            source = https.WebServer(f"{endpoint}/m.tar", given)
            server.cache = self.folder / "cache"
            return await fetched(source, server.cache, tries=tries, stall=3)


@pytest.fixture
def at_web(tmp_path: Path) -> Web:
    authority = pki.Authority(tmp_path / "pki")
    pair = authority.issue("server", "localhost", hosts=["127.0.0.1"])
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair.certificate, pair.key)
    return Web(tmp_path, context, authority.certificate.read_text())


def weights(there: Downloaded) -> set[bytes]:
    """The bytes that there are in them."""
    return {bytes([byte]) for byte in (there.folder / "model.safetensors").read_bytes()}


@pytest.mark.parametrize(
    ("marks", "condition"),
    [
        pytest.param(STRONG, '"A"', id="strong tag"),
        pytest.param(WEAK, None, id="weak tag"),
        pytest.param(WEAK | DATED, "A", id="weak tag and a date"),
        pytest.param(DATED, "A", id="date"),
    ],
)
async def test_the_same_file_is_gone_on_with(at_web: Web, marks: Mapping[str, str], condition: str | None) -> None:
    server = Server(["A"], marks)
    assert weights(await at_web.fetched(server)) == {b"A"}
    assert server.seen == [(None, condition), (f"bytes={FIRST}-", condition)]


@pytest.mark.parametrize(
    ("marks", "marks_of_parts"),
    [
        pytest.param({}, True, id="nothing tells"),
        pytest.param(WEAK, True, id="weak tag"),
        pytest.param(STRONG, True, id="strong tag"),
        pytest.param(DATED, True, id="date"),
        pytest.param(WEAK, False, id="weak tag that is not told again"),
    ],
)
@pytest.mark.parametrize("files", ["AB", "ABA", "BA", "BAB"])
async def test_two_files_are_never_joined(
    at_web: Web, marks: Mapping[str, str], marks_of_parts: bool, files: str
) -> None:
    """Neither that which was listed and another one, nor another one and that which was listed."""
    server = Server([*files], marks, cuts=len(files) - 1, marks_of_parts=marks_of_parts)
    assert len(weights(await at_web.fetched(server))) == 1


async def test_where_nothing_tells_one_file_from_another_each_try_begins_anew(at_web: Web) -> None:
    server = Server(["A"], {}, cuts=2)
    assert weights(await at_web.fetched(server)) == {b"A"}
    assert server.seen == [(None, None)] * 3


async def test_a_file_of_another_size_is_told(at_web: Web) -> None:
    """The next start takes what is there then; it is no word about bytes that somebody has spoilt."""
    server = Server(["A", "longer"], STRONG)
    with pytest.raises(models.ModelError, match="it was replaced meanwhile; that was try 3 of 3") as refused:
        await at_web.fetched(server, tries=3)
    assert refused.value.reason == "ModelDownloadFailed"


@pytest.mark.parametrize(
    ("marks", "knows_ranges"), [pytest.param({}, True, id="nothing tells"), pytest.param(STRONG, False, id="no ranges")]
)
async def test_who_always_begins_anew_and_breaks_off_is_given_up(
    at_web: Web, monkeypatch: pytest.MonkeyPatch, marks: Mapping[str, str], knows_ranges: bool
) -> None:
    monkeypatch.setattr(transfer, "_WORTH_IT", 1000)
    server = Server(["A"], marks, cuts=1000, knows_ranges=knows_ranges)
    with pytest.raises(models.ModelError, match="that was try 3 of 3"):
        await at_web.fetched(server, tries=3)


REMOTE = RemoteFile(path="m.tar", size=10, digest=None, name="m", address="m", marks={"ETag": '"1"'})


@pytest.mark.parametrize(
    ("content_range", "etag", "is_rest"),
    [
        ("bytes 5-9/10", '"1"', True),
        ("bytes 5-9/*", '"1"', True),
        ("bytes 5-9/10", 'W/"1"', True),
        ("bytes 5-9/10", '"2"', False),
        ("bytes 5-10/11", '"1"', False),
        ("bytes 4-9/10", '"1"', False),
        ("bytes 50-99/100", '"1"', False),
        ("", '"1"', False),
        ("5-9/10", '"1"', False),
    ],
)
def test_the_rest_of_a_file(content_range: str, etag: str, is_rest: bool) -> None:
    assert resuming.is_rest(REMOTE, {"Content-Range": content_range, "ETag": etag}, 5) is is_rest


def test_a_digest_tells_two_files_apart_where_nothing_else_does() -> None:
    digest = Digest(algorithm="sha256", value="0" * 64)
    pinned = RemoteFile(path="m", size=10, digest=None, name="m", address="m")
    vouched = RemoteFile(path="m", size=10, digest=digest, name="m", address="m", marks={})
    for one in (pinned, vouched):
        assert resuming.is_rest(one, {"Content-Range": "bytes 5-9/10"}, 5)
