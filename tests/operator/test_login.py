"""The session that tells when one of kopf's watches begins."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import aiohttp
import kopf
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from gptservice_operator import login, streams
from gptservice_operator.api import kinds
from gptservice_operator.login import Tracing, login_traced
from gptservice_operator.scope import Collection, Scope
from tests.operator.conftest import TOKEN, Kubeconfig

LOGIN: dict[str, Any] = {"logger": logging.getLogger("test"), "settings": kopf.OperatorSettings()}
"""What kopf passes to a login handler."""


async def answer(request: web.Request) -> web.Response:
    if request.query.get("answer") == "hang-up" and request.transport is not None:
        request.transport.abort()
    if line := request.query.get("line"):
        return web.Response(text=f"{line}\n")
    status = int(request.query.get("answer", "200").replace("hang-up", "200"))
    return web.json_response({"authorization": request.headers.get("Authorization")}, status=status)


@pytest.fixture
async def url() -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    async with TestServer(app, host="127.0.0.1") as server:
        yield str(server.make_url("")).rstrip("/")


class Session:
    """What kopf gets by logging in, and the kinds that were told."""

    def __init__(self) -> None:
        self.events: list[tuple[Collection, streams.Event]] = []
        self.told: list[Collection] = []
        self.asked: list[Collection] = []
        self.began: list[Collection] = []
        self.refused: list[Collection] = []
        self.scans = 0
        tracing = Tracing(
            scope=Scope(),
            event=lambda one, event: self.events.append((one, event)),
            listed=self.told.append,
            began=self.began.append,
            asked=self.asked.append,
            refused=self.refused.append,
            on_scan=self.scan,
        )
        info = login_traced(tracing, **LOGIN)
        assert info is not None
        self.info = info

    async def scan(self) -> None:
        self.scans += 1

    @property
    def http(self) -> aiohttp.ClientSession:
        assert self.info.aiohttp_session is not None
        return self.info.aiohttp_session

    async def ask(self, method: str, path: str) -> Any:
        async with self.http.request(method, f"{self.info.server}{path}") as response:
            return await response.json()


@pytest.fixture
async def session(url: str, kubeconfig: Kubeconfig) -> AsyncIterator[Session]:
    kubeconfig(url)
    made = Session()
    yield made
    await made.http.close()


async def test_it_is_logged_in(session: Session) -> None:
    assert await session.ask("GET", "/x") == {"authorization": f"Bearer {TOKEN}"}


@pytest.mark.parametrize("kind", kinds.WATCHED, ids=lambda kind: kind.name)
async def test_a_list_of_a_kind_is_told(session: Session, kind: kinds.Kind) -> None:
    await session.ask("GET", f"{kind.path()}?limit=500&labelSelector=a%3Db")
    assert session.told == [Collection(kind)]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        pytest.param("GET", "/api/v1/pods?watch=true&resourceVersion=1", id="the watch itself"),
        pytest.param("GET", "/api/v1/pods?limit=500&continue=x", id="a further page of the same list"),
        pytest.param("GET", "/api/v1/namespaces/a/pods/b", id="one object"),
        pytest.param("GET", "/api/v1/namespaces", id="a kind that is none of ours"),
        pytest.param("GET", "/apis/apps/v1", id="discovery"),
        pytest.param("POST", "/api/v1/pods", id="something else than a list"),
    ],
)
async def test_nothing_else_is_told(session: Session, method: str, path: str) -> None:
    await session.ask(method, path)
    assert session.told == []


@pytest.mark.parametrize(
    ("status", "told"), [(200, True), (500, True), (429, True), (410, True), (403, False), (401, False)]
)
async def test_a_watch_that_was_asked_for_is_told_unless_it_may_not_be(
    session: Session, status: int, told: bool
) -> None:
    """An outage of the API server is no reason to start the process again; a missing right is one to look."""
    await session.ask("GET", f"/api/v1/pods?watch=true&answer={status}")
    await session.ask("GET", f"/api/v1/pods?limit=500&answer={status}")
    assert session.asked == ([Collection(kinds.POD)] if told else [])
    assert session.began == ([Collection(kinds.POD)] if status == 200 else [])
    assert session.refused == ([Collection(kinds.POD)] if status == 403 else [])


async def test_what_a_watch_brings_is_told(session: Session) -> None:
    event = {"type": "ADDED", "object": {"metadata": {"name": "a", "resourceVersion": "7"}}}
    path = f"{kinds.POD.path()}?watch=true&line={quote(json.dumps(event))}"
    async with session.http.get(f"{session.info.server}{path}") as response:
        passed_on = b"".join([part async for part in response.content.iter_chunked(100)])
    assert session.events == [(Collection(kinds.POD), event)]
    assert json.loads(passed_on) == {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "7"}}}


async def test_a_watch_that_nobody_answers_is_told(session: Session) -> None:
    with pytest.raises(aiohttp.ClientError):
        await session.ask("GET", "/api/v1/pods?watch=true&answer=hang-up")
    assert session.asked == [Collection(kinds.POD)]
    assert session.refused == []


@pytest.mark.parametrize(
    ("path", "scans"), [("/apis", 1), ("/apis/apps/v1", 0), ("/api", 0)], ids=["a scan", "a part of one", "old kinds"]
)
async def test_a_look_at_which_kinds_there_are_is_told_before(session: Session, path: str, scans: int) -> None:
    await session.ask("GET", path)
    assert session.scans == scans


class TestAKindThatIsGone:
    """kopf ends the process by the news, unless it hears of the CRD's deletion first and drops the watch."""

    @pytest.mark.parametrize("kind", kinds.OPTIONAL, ids=lambda kind: kind.name)
    async def test_the_news_is_held_back_until_the_watch_is_dropped(self, session: Session, kind: kinds.Kind) -> None:
        asking = asyncio.create_task(session.ask("GET", f"{kind.path()}?watch=true&answer=404"))
        await asyncio.wait([asking], timeout=0.3)
        assert not asking.done()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    async def test_it_arrives_in_the_end_and_is_no_watch_that_begins(
        self, session: Session, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(login, "GONE_SECONDS", 0.01)
        assert await session.ask("GET", f"{kinds.CERTIFICATE.path()}?answer=404")
        assert session.told == []

    async def test_of_every_other_kind_it_arrives_at_once(self, session: Session) -> None:
        async with asyncio.timeout(login.GONE_SECONDS / 2):
            await session.ask("GET", f"{kinds.POD.path()}?watch=true&answer=404")


async def no_scan() -> None:
    pass


async def test_without_credentials_there_is_no_session(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """kopf then says so itself."""
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    nothing = Tracing(
        scope=Scope(),
        event=lambda *_: None,
        listed=lambda _: None,
        began=lambda _: None,
        asked=lambda _: None,
        refused=lambda _: None,
        on_scan=no_scan,
    )
    assert login_traced(nothing, **LOGIN) is None
