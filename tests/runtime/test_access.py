"""The access log: one line for each request, nothing in it that a user said, an identifier for both sides."""

import asyncio
import json
import logging
import re
from typing import Any

import pytest

from gptservice_runtime import access, asgi, engine, guard
from tests.runtime.harness import Runtime, until
from tests.runtime.test_key_check import DEMANDED, KEY, put
from tests.runtime.test_scraping import scrape

LINE = re.compile(r"gptservice-runtime access (\S+) (\S+) (\d{3}|-) \d+\.\d{3}s id=(\S+)( aborted)?")
MADE_UP = re.compile(r"[0-9a-f]{32}")


class Inner:
    """An application that keeps what it saw and answers, or does not."""

    def __init__(self, *messages: asgi.Message) -> None:
        self.messages = messages
        self.scope: asgi.Message = {}

    async def __call__(self, scope: asgi.Message, receive: asgi.Receive, send: asgi.Send) -> None:
        self.scope = scope
        for message in self.messages:
            await send(message)


START: asgi.Message = {"type": "http.response.start", "status": 200, "headers": [(b"a", b"b")]}
REST: asgi.Message = {"type": "http.response.body", "body": b"x"}
PIECE: asgi.Message = {**REST, "more_body": True}


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(record.getMessage())

    logger = logging.Logger("kept", logging.INFO)
    logger.addHandler(Kept())
    monkeypatch.setattr(access, "_logger", lambda: logger)
    return found


async def ask(inner: Inner, *headers: asgi.Header, **scope: Any) -> list[asgi.Message]:
    sent: list[asgi.Message] = []

    async def receive() -> asgi.Message:
        return await asyncio.Future()

    async def send(message: asgi.Message) -> None:
        sent.append(message)

    whole = {"type": "http", "method": "GET", "path": "/v1/models", "headers": list(headers), **scope}
    await access.AccessLog(inner)(whole, receive, send)
    return sent


def identifiers(headers: list[asgi.Header]) -> list[bytes]:
    return [value for name, value in headers if name.lower() == b"x-request-id"]


async def test_the_same_identifier_goes_to_all_three(lines: list[str]) -> None:
    inner = Inner(START, REST)
    sent = await ask(inner)
    (made_up,) = identifiers(sent[0]["headers"])
    assert MADE_UP.fullmatch(made_up.decode())
    assert identifiers(inner.scope["headers"]) == [made_up]
    assert LINE.fullmatch(lines[0]).groups() == ("GET", "/v1/models", "200", made_up.decode(), None)  # type: ignore[union-attr]
    assert (b"a", b"b") in sent[0]["headers"]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        pytest.param([b"of-the-client"], True, id="usable"),
        pytest.param([b"x" * 128], True, id="the longest"),
        pytest.param([b"x" * 129], False, id="too long"),
        pytest.param([b""], False, id="empty"),
        pytest.param([b"a b"], False, id="a space"),
        pytest.param([b"a\nb"], False, id="a line of its own"),
        pytest.param([b"\xc3\xa9"], False, id="not ASCII"),
        pytest.param([b"one", b"two"], False, id="two"),
    ],
)
async def test_a_clients_own_is_kept_where_it_can_be(lines: list[str], given: list[bytes], kept: bool) -> None:
    inner = Inner(START, REST)
    sent = await ask(inner, *((b"X-Request-ID", value) for value in given))
    (shown,) = identifiers(sent[0]["headers"])
    assert (shown == given[0]) is kept
    assert identifiers(inner.scope["headers"]) == [shown]


async def test_one_of_the_engines_own_gives_way(lines: list[str]) -> None:
    sent = await ask(Inner({**START, "headers": [(b"X-Request-Id", b"engines")]}, REST), (b"x-request-id", b"mine"))
    assert identifiers(sent[0]["headers"]) == [b"mine"]


@pytest.mark.parametrize(
    ("messages", "status", "end"),
    [
        pytest.param([START, PIECE, PIECE, REST], "200", None, id="a whole stream"),
        pytest.param([START, PIECE], "200", " aborted", id="a broken one"),
        pytest.param([], "-", " aborted", id="no answer"),
    ],
)
async def test_how_it_ended(lines: list[str], messages: list[asgi.Message], status: str, end: str | None) -> None:
    await ask(Inner(*messages))
    (line,) = lines
    found = LINE.fullmatch(line)
    assert found is not None
    assert (found[3], found[5]) == (status, end)


class Failing(Inner):
    """An application that breaks after its messages."""

    async def __call__(self, scope: asgi.Message, receive: asgi.Receive, send: asgi.Send) -> None:
        await super().__call__(scope, receive, send)
        raise RuntimeError("a fault of the engine's server")


async def test_a_failure_is_answered_with_the_identifier_and_still_told_to_the_server(lines: list[str]) -> None:
    sent: list[asgi.Message] = []

    async def send(message: asgi.Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/v1/models", "headers": [(b"x-request-id", b"mine")]}
    with pytest.raises(RuntimeError):
        await access.AccessLog(Failing())(scope, asyncio.Future, send)
    assert sent[0]["status"] == 500
    assert identifiers(sent[0]["headers"]) == [b"mine"]
    assert json.loads(sent[1]["body"])["error"]["code"] == "internal_error"
    assert lines[0].endswith("id=mine")
    assert " 500 " in lines[0]


async def test_a_stream_that_breaks_is_not_answered_twice(lines: list[str]) -> None:
    sent: list[asgi.Message] = []

    async def send(message: asgi.Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/v1/models", "headers": []}
    with pytest.raises(RuntimeError):
        await access.AccessLog(Failing(START, PIECE))(scope, asyncio.Future, send)
    assert [message["type"] for message in sent] == [START["type"], PIECE["type"]]
    assert lines[0].endswith(" aborted")


async def test_nothing_of_the_query_and_no_line_of_the_paths_own(lines: list[str]) -> None:
    await ask(Inner(START, REST), path="/a\nb", raw_path=b"/a%0Ab\x1b[31m" + b"y" * 500, query_string=b"key=secret")
    (line,) = lines
    assert "secret" not in line
    assert "/a%0Ab?[31my" in line
    assert len(line) < 400
    assert line.isprintable()


@pytest.mark.parametrize("kind", ["lifespan", "websocket"])
async def test_other_protocols_pass_as_they_are(lines: list[str], kind: str) -> None:
    inner = Inner()
    await ask(inner, type=kind)
    assert inner.scope["headers"] == []
    assert lines == []


async def test_the_supervisor_is_not_logged(lines: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(engine.METRICS_TOKEN_ENV, "token")
    await ask(Inner(START, REST), (guard.TOKEN_HEADER.encode(), b"token"))
    assert lines == []
    await ask(Inner(START, REST), (guard.TOKEN_HEADER.encode(), b"guessed"))
    assert len(lines) == 1


@pytest.mark.wiring
async def test_in_the_containers_log(runtime: Runtime) -> None:
    put(runtime.keys_directory, KEY)
    runtime.start(options=DEMANDED)
    await runtime.ready()
    await scrape(runtime)
    before = runtime.stdout
    assert LINE.search(before) is None, "the supervisor's own requests"
    key = {"Authorization": f"Bearer {KEY}"}
    body = {"model": "main-name", "prompt": "a very secret prompt"}
    for headers in ({**key, "X-Request-Id": "mine"}, {}):
        async with runtime.session.post(runtime.url("/v1/completions?a=query"), json=body, headers=headers) as response:
            assert response.headers["X-Request-Id"]
    await until(lambda: len(LINE.findall(runtime.stdout)) == 2, "two lines")
    first, second = LINE.findall(runtime.stdout)
    assert first == ("POST", "/v1/completions", "200", "mine", "")
    assert second[:3] == ("POST", "/v1/completions", "401")
    for word in ("very secret", KEY, "a=query"):
        assert word not in runtime.stdout + runtime.stderr


@pytest.mark.wiring
@pytest.mark.parametrize("streamed", [True, False])
async def test_a_client_that_goes_is_logged_and_takes_its_work_with_it(runtime: Runtime, streamed: bool) -> None:
    runtime.start()
    await runtime.ready()
    told = {"tokens": 100000, "token_milliseconds": 20}

    async def ask_for_long() -> None:
        body = {"model": "main-name", "prompt": "hello", "stream": streamed, "standin": told}
        async with runtime.session.post(runtime.url("/v1/completions"), json=body) as response:
            await response.read()

    asked = asyncio.create_task(ask_for_long())

    async def running(count: int) -> bool:
        return (await scrape(runtime))["vllm:num_requests_running/0/main-name"] == count

    await until(lambda: running(1), "the request to run")
    asked.cancel()
    await until(lambda: running(0), "the engine to drop it")
    await until(lambda: " aborted" in runtime.stdout or "499" in runtime.stdout, "its line")
