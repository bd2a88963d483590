"""The middleware alone: what it counts, what it refuses, how it learns the bound."""

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gptservice_runtime import asgi, control, engine, limits

Message = asgi.Message


class Inner:
    """An application that answers when it is told to."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.running = 0
        self.most = 0
        self.fails = False
        self.headers: list[tuple[bytes, bytes]] = []

    async def __call__(self, scope: Message, receive: asgi.Receive, send: asgi.Send) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.headers})
            await self.go.wait()
            if self.fails:
                raise RuntimeError("as asked")
            await send({"type": "http.response.body", "body": b""})
        finally:
            self.running -= 1


async def request(app: limits.InFlightLimit, method: str = "POST", path: str = "/v1/completions") -> list[Message]:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)
        await asyncio.sleep(0)

    async def receive() -> Message:
        raise AssertionError("the middleware must not read the body")

    await app({"type": "http", "method": method, "path": path}, receive, send)
    return sent


def status(sent: list[Message]) -> int:
    return sent[0]["status"]


@pytest.fixture
def shared(tmp_path: Path) -> control.ControlBlock:
    """The supervisor's side."""
    return control.ControlBlock.create(tmp_path / "control")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared: control.ControlBlock) -> Path:
    monkeypatch.setenv(engine.LIMITS_FILE_ENV, str(tmp_path / "limits.json"))
    monkeypatch.setenv(engine.CONTROL_FILE_ENV, str(tmp_path / "control"))
    return tmp_path / "limits.json"


def bind(file: Path, bound: int) -> None:
    file.write_text(json.dumps({"maxInflightRequests": bound}))


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.parametrize("bound", [1, 7, 50])
async def test_the_bound_is_exact(file: Path, bound: int) -> None:
    bind(file, bound)
    inner = Inner()
    app = limits.InFlightLimit(inner)
    tasks = [asyncio.create_task(request(app)) for _ in range(60)]
    await settle()
    inner.go.set()
    answers = Counter(status(sent) for sent in await asyncio.gather(*tasks))
    assert answers == {200: bound, 429: 60 - bound}
    assert inner.most == bound


@pytest.mark.parametrize(
    ("method", "path"),
    [
        pytest.param("GET", "/v1/models", id="list"),
        pytest.param("GET", "/health", id="health"),
        pytest.param("POST", "/tokenize", id="tokenize"),
        pytest.param("OPTIONS", "/v1/completions", id="preflight"),
    ],
)
async def test_what_generates_nothing_is_neither_counted_nor_refused(file: Path, method: str, path: str) -> None:
    bind(file, 1)
    inner = Inner()
    app = limits.InFlightLimit(inner)
    cheap = [asyncio.create_task(request(app, method, path)) for _ in range(3)]
    await settle()
    generation = asyncio.create_task(request(app))
    await settle()
    cheap.append(asyncio.create_task(request(app, method, path)))
    await settle()
    inner.go.set()
    assert status(await generation) == 200
    assert [status(sent) for sent in await asyncio.gather(*cheap)] == [200] * 4


@pytest.mark.parametrize(
    "path", ["/v1/chat/completions", "/v1/embeddings", "/a/route/of/a/later/vllm", "//v1/completions"]
)
async def test_any_other_post_counts(file: Path, path: str) -> None:
    bind(file, 1)
    inner = Inner()
    app = limits.InFlightLimit(inner)
    first = asyncio.create_task(request(app))
    await settle()
    assert status(await request(app, path=path)) == 429
    inner.go.set()
    await first


async def test_a_failure_and_a_cancellation_free_the_place(file: Path) -> None:
    bind(file, 1)
    inner = Inner()
    app = limits.InFlightLimit(inner)
    gone = asyncio.create_task(request(app))
    await settle()
    gone.cancel()
    await settle()
    inner.fails = True
    inner.go.set()
    with pytest.raises(RuntimeError):
        await request(app)
    inner.fails = False
    assert status(await request(app)) == 200


async def test_other_protocols_pass_through(file: Path) -> None:
    seen: list[str] = []

    async def inner(scope: Message, receive: Any, send: Any) -> None:
        seen.append(scope["type"])

    app = limits.InFlightLimit(inner)
    for kind in ("lifespan", "websocket"):
        await app({"type": kind}, None, None)  # type: ignore[arg-type]
    assert seen == ["lifespan", "websocket"]


async def test_websockets_are_counted_for_the_drain_and_not_for_the_bound(
    file: Path, shared: control.ControlBlock
) -> None:
    bind(file, 1)
    go, sent = asyncio.Event(), list[Message]()

    async def inner(scope: Message, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":
            await go.wait()

    async def send(message: Message) -> None:
        sent.append(message)

    app = limits.InFlightLimit(inner)
    scope = {"type": "websocket", "path": "/v1/realtime", "headers": []}
    tasks = [asyncio.create_task(app(scope, None, send)) for _ in range(3)]  # type: ignore[arg-type]
    await settle()
    assert (shared.sessions, shared.in_flight) == (3, 0)
    await app({"type": "http", "method": "POST", "path": "/v1/completions"}, None, send)  # type: ignore[arg-type]
    assert sent == []
    shared.drain()
    await app(scope, None, send)  # type: ignore[arg-type]
    assert [message["type"] for message in sent] == ["websocket.close"]
    assert shared.refused("draining") == 1
    tasks.pop().cancel()
    go.set()
    await asyncio.gather(*tasks)
    await settle()
    assert shared.sessions == 0


async def test_the_supervisor_sees_what_is_in_flight(file: Path, shared: control.ControlBlock) -> None:
    inner = Inner()
    app = limits.InFlightLimit(inner)
    assert shared.in_flight == 0
    tasks = [asyncio.create_task(request(app)) for _ in range(3)]
    tasks.append(asyncio.create_task(request(app, "GET", "/v1/models")))
    await settle()
    assert shared.in_flight == 3
    inner.go.set()
    await asyncio.gather(*tasks)
    assert shared.in_flight == 0


@pytest.mark.parametrize(
    "left",
    [
        pytest.param(None, id="no file"),
        pytest.param(b"", id="an empty file"),
    ],
)
async def test_without_a_supervisor_it_still_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: bytes | None
) -> None:
    monkeypatch.setenv(engine.CONTROL_FILE_ENV, str(tmp_path / "other"))
    if left is not None:
        await asyncio.to_thread((tmp_path / "other").write_bytes, left)
    inner = Inner()
    inner.go.set()
    assert status(await request(limits.InFlightLimit(inner))) == 200


async def test_draining_refuses_whatever_the_bound(file: Path, shared: control.ControlBlock) -> None:
    inner = Inner()
    inner.go.set()
    app = limits.InFlightLimit(inner)
    assert status(await request(app)) == 200
    shared.drain()
    refused = await request(app)
    assert status(refused) == 503
    assert dict(refused[0]["headers"])[b"connection"] == b"close"
    assert status(await request(app, "GET", "/v1/models")) == 200


@pytest.mark.parametrize(
    ("content_type", "stopping", "closes"),
    [
        pytest.param(b"application/json", False, False, id="answer while serving"),
        pytest.param(b"application/json", True, True, id="answer after SIGTERM"),
        pytest.param(b"text/event-stream; charset=utf-8", False, True, id="stream, which may outlive SIGTERM"),
        pytest.param(b"text/event-stream; charset=utf-8", True, True, id="stream after SIGTERM"),
    ],
)
@pytest.mark.parametrize("method", ["POST", "GET"])
async def test_which_responses_end_their_connection(
    file: Path, shared: control.ControlBlock, content_type: bytes, stopping: bool, closes: bool, method: str
) -> None:
    inner = Inner()
    inner.headers = [(b"Content-Type", content_type)]
    inner.go.set()
    if stopping:
        shared.stop()
    sent = await request(limits.InFlightLimit(inner), method)
    assert status(sent) == 200
    assert sent[0]["headers"] == inner.headers + [(b"connection", b"close")] * closes


async def test_the_refusal_is_complete(file: Path) -> None:
    bind(file, 1)
    inner = Inner()
    app = limits.InFlightLimit(inner)
    first = asyncio.create_task(request(app))
    await settle()
    start, body = await request(app)
    headers = dict(start["headers"])
    assert headers[b"retry-after"] == b"1"
    assert headers[b"content-length"] == str(len(body["body"])).encode()
    error = json.loads(body["body"])["error"]
    assert (error["code"], error["type"]) == ("rate_limit_exceeded", "rate_limit_error")
    inner.go.set()
    await first


class Clock:
    """Seconds, moved by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_file_is_read_again_after_two_seconds_and_not_before(tmp_path: Path) -> None:
    clock = Clock()
    file = tmp_path / "limits.json"
    file.write_text('{"maxInflightRequests": 5}')
    limit = limits.LimitFile(file, clock)
    assert limit.current() == 5
    file.write_text('{"maxInflightRequests": 6}')
    clock.now += 1.9
    assert limit.current() == 5
    clock.now += 0.1
    assert limit.current() == 6


@pytest.mark.parametrize(
    ("content", "bound"),
    [
        pytest.param("{}", None, id="no key: no bound"),
        pytest.param('{"maxInflightRequests": null}', None, id="null: no bound"),
        pytest.param('{"maxInflightRequests": 9, "later": 1}', 9, id="keys of a later version"),
        pytest.param("{", 5, id="half a file keeps the bound"),
        pytest.param("[]", 5, id="no object"),
        pytest.param('{"maxInflightRequests": 0}', 5, id="zero"),
        pytest.param('{"maxInflightRequests": -3}', 5, id="negative"),
        pytest.param('{"maxInflightRequests": "7"}', 5, id="string"),
        pytest.param('{"maxInflightRequests": true}', 5, id="boolean"),
        pytest.param('{"maxInflightRequests": 1.5}', 5, id="fraction"),
        pytest.param("\x80", 5, id="not JSON at all"),
    ],
)
def test_what_a_changed_file_means(tmp_path: Path, content: str, bound: int | None) -> None:
    clock = Clock()
    file = tmp_path / "limits.json"
    file.write_text('{"maxInflightRequests": 5}')
    limit = limits.LimitFile(file, clock)
    assert limit.current() == 5
    file.write_text(content, encoding="latin-1")
    clock.now += 2
    assert limit.current() == bound


def test_without_a_file_there_is_no_bound(tmp_path: Path) -> None:
    clock = Clock()
    file = tmp_path / "limits.json"
    limit = limits.LimitFile(file, clock)
    assert limit.current() is None
    file.write_text('{"maxInflightRequests": 5}')
    clock.now += 2
    assert limit.current() == 5
    file.unlink()
    clock.now += 2
    assert limit.current() is None


def test_nonsense_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    file = tmp_path / "limits.json"
    file.write_text("nonsense")
    limit = limits.LimitFile(file, clock)
    for _ in range(5):
        limit.current()
        clock.now += 2
    assert [record.levelname for record in caplog.records] == ["WARNING"]
