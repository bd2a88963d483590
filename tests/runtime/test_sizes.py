"""Requests that are too large, announced or not, and those that are not."""

import asyncio
from typing import Any

import pytest

from gptservice_runtime import asgi, sizes


class Reader:
    """An application that reads the whole body, and says how it ended."""

    def __init__(self, *, answers_a_broken_body: bool = False) -> None:
        self.read = 0
        self._answers = answers_a_broken_body

    async def __call__(self, scope: asgi.Message, receive: asgi.Receive, send: asgi.Send) -> None:
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                if not self._answers:
                    raise ConnectionError("the client has gone")
                break
            self.read += len(message.get("body", b""))
            more = message.get("more_body", False)
        await send({"type": "http.response.start", "status": 200 if not more else 400, "headers": []})
        await send({"type": "http.response.body", "body": b""})


async def ask(app: asgi.Application, chunks: list[int], **headers: str) -> int:
    """Send a body in chunks of these sizes; the status."""
    sent: list[asgi.Message] = []
    left = list(chunks)

    async def receive() -> asgi.Message:
        size = left.pop(0)
        return {"type": "http.request", "body": bytes(size), "more_body": bool(left)}

    async def send(message: asgi.Message) -> None:
        sent.append(message)

    listed = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    await app({"type": "http", "headers": listed}, receive, send)
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    status: int = sent[0]["status"]
    return status


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "MAX_BODY_BYTES", 10)


@pytest.mark.parametrize("chunks", [[0], [10], [4, 6], [1] * 10])
async def test_what_fits_is_read_whole(chunks: list[int]) -> None:
    inner = Reader()
    assert await ask(sizes.SizeLimit(inner), chunks, content_length=str(sum(chunks))) == 200
    assert inner.read == sum(chunks)


@pytest.mark.parametrize("lengths", ["11", "99999999999999999999"])
async def test_what_is_announced_as_too_large_is_not_read(lengths: str) -> None:
    inner = Reader()
    assert await ask(sizes.SizeLimit(inner), [11], content_length=lengths) == 413
    assert inner.read == 0


@pytest.mark.parametrize("answers", [False, True])
@pytest.mark.parametrize("headers", [{}, {"transfer_encoding": "chunked"}, {"content_length": "ten"}])
async def test_what_turns_out_too_large_is_cut(answers: bool, headers: dict[str, str]) -> None:
    inner = Reader(answers_a_broken_body=answers)
    assert await ask(sizes.SizeLimit(inner), [6, 6, 6], **headers) == 413
    assert inner.read == 6


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        pytest.param({"raw_path": b"/" * 20, "headers": [(b"a", b"b" * 19)]}, 200, id="just not too long"),
        pytest.param({"raw_path": b"/" * 41}, 431, id="the path"),
        pytest.param({"query_string": b"q" * 41}, 431, id="the query"),
        pytest.param({"headers": [(b"a", b"b" * 40)]}, 431, id="a header"),
        pytest.param({"headers": [(b"a", b"b")] * 21}, 431, id="many headers"),
    ],
)
async def test_a_long_head_is_refused(monkeypatch: pytest.MonkeyPatch, scope: dict[str, Any], expected: int) -> None:
    monkeypatch.setattr(sizes, "MAX_HEAD_BYTES", 40)
    sent: list[asgi.Message] = []

    async def send(message: asgi.Message) -> None:
        sent.append(message)

    async def receive() -> asgi.Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    await sizes.SizeLimit(Reader())({"type": "http", **scope}, receive, send)
    assert sent[0]["status"] == expected


async def test_a_body_that_does_not_come_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "BODY_SECONDS", 0.05)
    sent: list[asgi.Message] = []

    async def send(message: asgi.Message) -> None:
        sent.append(message)

    async def receive() -> asgi.Message:
        await asyncio.Event().wait()
        raise AssertionError

    await sizes.SizeLimit(Reader())({"type": "http"}, receive, send)
    assert [message.get("status") for message in sent] == [408, None]


async def test_after_the_body_a_client_may_take_any_time_to_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "BODY_SECONDS", 0.05)
    gone = asyncio.Event()
    messages = [{"type": "http.request", "body": b"1", "more_body": False}]

    async def receive() -> asgi.Message:
        if messages:
            return messages.pop()
        await gone.wait()
        return {"type": "http.disconnect", "by": "the client"}

    async def inner(scope: Any, receive: asgi.Receive, send: asgi.Send) -> None:
        await receive()
        asyncio.get_running_loop().call_later(0.2, gone.set)
        assert (await receive())["by"] == "the client"

    async def send(message: asgi.Message) -> None:
        assert message["type"] != "http.response.start" or message["status"] != 408

    await sizes.SizeLimit(inner)({"type": "http"}, receive, send)
    assert gone.is_set()


async def test_an_application_s_own_failure_is_not_hidden() -> None:
    async def fails(scope: Any, receive: Any, send: Any) -> None:
        raise RuntimeError("a fault of its own")

    with pytest.raises(RuntimeError, match="of its own"):
        await ask(sizes.SizeLimit(fails), [1])


async def test_other_protocols_pass() -> None:
    seen: list[str] = []

    async def inner(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["type"])

    await sizes.SizeLimit(inner)({"type": "lifespan"}, None, None)  # type: ignore[arg-type]
    assert seen == ["lifespan"]
