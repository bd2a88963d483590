"""What is taken of kopf's requests, and what is left for kopf."""

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from gptservice_operator import streams
from gptservice_operator.api import kinds
from gptservice_operator.scope import Collection, Scope

PODS = Collection(kinds.POD)
WATCH = f"{PODS.path}?watch=true"


class Server:
    """An API server that answers everything with the same pieces, and a session as kopf has it."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.status = 200
        self.taken: list[tuple[Collection, streams.Event]] = []
        self.url = ""
        self.session: aiohttp.ClientSession

    async def answer(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=self.status, headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for piece in self.pieces:
            await response.write(piece)
        return response

    def take(self, one: Collection, event: streams.Event) -> None:
        self.taken.append((one, event))
        if event["object"].get("broken"):
            raise TypeError("a fault of our own")

    async def read(self, path: str) -> list[Any]:
        """Return what kopf reads of a stream: the lines that are not empty."""
        async with self.session.get(self.url + path) as response:
            read = b"".join([part async for part in response.content.iter_chunked(1024)])
        return [line if not line.startswith(b"{") else json.loads(line) for line in read.split(b"\n") if line]

    async def get(self, path: str) -> Any:
        async with self.session.get(self.url + path) as response:
            return await response.json()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = Server()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.answer)
    responses = streams.response_class(Scope().paths(), server.take)
    async with TestServer(app, host="127.0.0.1") as running, aiohttp.ClientSession(response_class=responses) as session:
        server.url, server.session = str(running.make_url("")).rstrip("/"), session
        yield server


def event(kind: str, version: int, **more: Any) -> dict[str, Any]:
    return {"type": kind, "object": {"metadata": {"name": "größer", "resourceVersion": str(version)}, **more}}


def line(event: Any) -> bytes:
    return json.dumps(event, ensure_ascii=False).encode() + b"\n"


def bookmark(version: int) -> dict[str, Any]:
    return {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(version)}}}


async def test_events_are_taken_and_kopf_has_their_versions(server: Server) -> None:
    events = [event(kind, number) for number, kind in enumerate(("ADDED", "MODIFIED", "DELETED"), start=5)]
    server.pieces = [line(one) for one in events]
    assert await server.read(WATCH) == [bookmark(5), bookmark(6), bookmark(7)]
    assert server.taken == [(PODS, one) for one in events]


@pytest.mark.parametrize("size", [1, 3, 70, 10_000])
async def test_pieces_need_not_be_lines(server: Server, size: int) -> None:
    events = [event("ADDED", number, padding="ü" * 50) for number in range(1, 6)]
    whole = b"".join(line(one) for one in events)
    server.pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
    assert await server.read(WATCH) == [bookmark(number) for number in range(1, 6)]
    assert [one for _, one in server.taken] == events


async def test_an_object_may_be_larger_than_any_buffer(server: Server) -> None:
    large = event("ADDED", 1, padding="x" * 3_000_000)
    server.pieces = [line(large)]
    assert await server.read(WATCH) == [bookmark(1)]
    assert [one for _, one in server.taken] == [large]


async def test_a_line_that_was_cut_is_no_event_and_no_end_of_the_process(server: Server) -> None:
    server.pieces = [line(event("ADDED", 1)), line(event("ADDED", 2))[:-9]]
    assert await server.read(WATCH) == [bookmark(1)]
    assert len(server.taken) == 1


async def test_a_last_event_needs_no_end_of_line(server: Server) -> None:
    server.pieces = [line(event("ADDED", 1)).strip()]
    assert await server.read(WATCH) == [bookmark(1)]
    assert len(server.taken) == 1


@pytest.mark.parametrize(
    "told",
    [
        pytest.param(bookmark(9), id="the server's own bookmark"),
        pytest.param({"type": "ERROR", "object": {"kind": "Status", "code": 410}}, id="an error"),
        pytest.param({"type": "FUTURE", "object": {}}, id="something new"),
        pytest.param({"type": []}, id="no type"),
        pytest.param(b"<html>", id="not JSON"),
        pytest.param(b"[1]", id="not an object"),
    ],
)
@pytest.mark.parametrize("end", [b"\n", b""], ids=["a line", "the end of the stream"])
async def test_what_is_no_event_of_an_object_is_kopf_s(server: Server, told: Any, end: bytes) -> None:
    """It would ask again at once and for ever if it were not told."""
    server.pieces = [(told if isinstance(told, bytes) else line(told).strip()) + end]
    assert await server.read(WATCH) == [told]
    assert server.taken == []


async def test_a_fault_of_our_own_ends_no_watch(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    server.pieces = [
        line(event("ADDED", 1, broken=True)),
        line({"type": "ADDED", "object": {}}),
        line(event("ADDED", 3)),
    ]
    assert await server.read(WATCH) == [bookmark(1), bookmark(3)]
    assert len(server.taken) == 3
    assert "please report it" in caplog.text


async def test_of_a_list_kopf_has_the_version_alone(server: Server) -> None:
    server.pieces = [line({"kind": "PodList", "metadata": {"resourceVersion": "7", "continue": "x"}, "items": [{}]})]
    page = await server.get(f"{PODS.path}?limit=250")
    assert page == {"kind": "PodList", "metadata": {"resourceVersion": "7", "continue": ""}, "items": []}


@pytest.mark.parametrize("text", [b"null", b"[]", b'"busy"'])
async def test_a_reply_that_is_no_list_is_left_as_it_is(server: Server, text: bytes) -> None:
    server.pieces = [text]
    assert await server.get(PODS.path) == json.loads(text)


@pytest.mark.parametrize(
    "path", ["/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "/api/v1/namespaces/a/pods"]
)
async def test_what_is_not_watched_here_is_kopf_s_own(server: Server, path: str) -> None:
    server.pieces = [line({"type": "ADDED", "items": [1]})]
    assert await server.read(f"{path}?watch=true") == [{"type": "ADDED", "items": [1]}]
    assert await server.get(path) == {"type": "ADDED", "items": [1]}
    assert server.taken == []


async def test_a_refusal_is_left_as_it_is(server: Server) -> None:
    server.status = 403
    server.pieces = [line({"kind": "Status", "items": [1], "type": "ADDED", "object": {}})]
    assert (await server.get(WATCH))["items"] == [1]
    assert (await server.get(PODS.path))["items"] == [1]
    assert server.taken == []
