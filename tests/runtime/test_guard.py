"""The guard alone: no spelling of a path leads a client to what is the engine's own business."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gptservice_runtime import asgi, engine, guard

TOKEN = "5f" * 32
METHODS = ["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"]
Headers = list[asgi.Header]
SHOWN: Headers = [(guard.TOKEN_HEADER.encode(), TOKEN.encode())]


class Inner:
    """An application that says which paths it has seen."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def __call__(self, scope: asgi.Message, receive: asgi.Receive, send: asgi.Send) -> None:
        self.seen.append(scope.get("path", scope["type"]))
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"inner"})


@pytest.fixture
def inner() -> Inner:
    return Inner()


@pytest.fixture
def guarded(inner: Inner, monkeypatch: pytest.MonkeyPatch) -> guard.RouteGuard:
    monkeypatch.setenv(engine.METRICS_TOKEN_ENV, TOKEN)
    return guard.RouteGuard(inner)


async def ask(
    app: asgi.Application, path: str, headers: Headers | None = None, *, method: str = "GET", **scope: Any
) -> list[asgi.Message]:
    sent: list[asgi.Message] = []

    async def send(message: asgi.Message) -> None:
        sent.append(message)

    async def receive() -> asgi.Message:
        raise AssertionError("the guard must not read the body")

    request = {"type": "http", "method": method, "path": path, "query_string": b"", "headers": headers or [], **scope}
    await app(request, receive, send)
    return sent


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("path", ["/metrics", "/metrics/", "/metrics/x", "/metricsx", "/metrics\n", "/metrics/../x"])
async def test_a_client_gets_a_404(guarded: guard.RouteGuard, inner: Inner, method: str, path: str) -> None:
    start, _ = await ask(guarded, path, method=method)
    assert start["status"] == 404
    assert inner.seen == []


@pytest.mark.parametrize(
    "path",
    [
        *("/scale_elastic_ep", "/inference/v1/abort_requests", "/sleep", "/collective_rpc", "/load", "/", "", "*"),
        *(
            "//v1/models",
            "/./v1/models",
            "/v1/../load",
            "/v1/.",
            "v1/models",
            "/V1/models",
            "/v1x/models",
            "/metric",
            "//metrics",
            "/Metrics",
        ),
    ],
)
async def test_what_is_not_known_is_shut(guarded: guard.RouteGuard, inner: Inner, path: str) -> None:
    assert (await ask(guarded, path, method="POST"))[0]["status"] == 404
    assert inner.seen == []


@pytest.mark.parametrize(
    "path", ["/v1/models", "/v1", "/v1/chat/completions", "/health", "/v1/metrics", "/openapi.json"]
)
async def test_what_is_served_passes(guarded: guard.RouteGuard, inner: Inner, path: str) -> None:
    assert (await ask(guarded, path))[0]["status"] == 200
    assert inner.seen == [path]


async def test_a_handshake_elsewhere_is_refused(guarded: guard.RouteGuard, inner: Inner) -> None:
    (closed,) = await ask(guarded, "/load", type="websocket")
    assert closed == {"type": "websocket.close", "code": 1008}
    start, _ = await ask(guarded, "/load", type="websocket", extensions={"websocket.http.response": {}})
    assert (start["type"], start["status"]) == ("websocket.http.response.start", 404)
    await ask(guarded, "/v1/realtime", type="websocket")
    assert inner.seen == ["/v1/realtime"]


async def test_the_supervisor_gets_them(guarded: guard.RouteGuard, inner: Inner) -> None:
    assert (await ask(guarded, "/metrics", SHOWN))[0]["status"] == 200
    assert inner.seen == ["/metrics"]


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param([(guard.TOKEN_HEADER.encode(), b"")], id="empty"),
        pytest.param([(guard.TOKEN_HEADER.encode(), b"wrong")], id="wrong"),
        pytest.param([(guard.TOKEN_HEADER.encode(), TOKEN[:-1].encode())], id="without its end"),
        pytest.param([(guard.TOKEN_HEADER.encode(), TOKEN.upper().encode())], id="in other letters"),
        pytest.param([(guard.TOKEN_HEADER.encode(), b"\xff\xfe")], id="no text"),
        pytest.param([*SHOWN, *SHOWN], id="twice"),
        pytest.param([(b"authorization", b"Bearer " + TOKEN.encode())], id="elsewhere"),
        pytest.param([(b"x-forwarded-for", b"127.0.0.1"), (b"host", b"localhost")], id="only a claim"),
    ],
)
async def test_anything_else_is_no_token(guarded: guard.RouteGuard, inner: Inner, headers: Headers) -> None:
    assert (await ask(guarded, "/metrics", headers, client=("127.0.0.1", 5)))[0]["status"] == 404
    assert inner.seen == []


@pytest.mark.parametrize("token", [pytest.param(None, id="unset"), pytest.param("", id="empty")])
async def test_without_a_supervisor_nobody_gets_them(
    inner: Inner, monkeypatch: pytest.MonkeyPatch, token: str | None
) -> None:
    monkeypatch.delenv(engine.METRICS_TOKEN_ENV, raising=False)
    if token is not None:
        monkeypatch.setenv(engine.METRICS_TOKEN_ENV, token)
    alone = guard.RouteGuard(inner)
    for headers in ([], [(guard.TOKEN_HEADER.encode(), b"")], SHOWN):
        assert (await ask(alone, "/metrics", headers))[0]["status"] == 404


async def test_the_server_s_own_messages_pass(guarded: guard.RouteGuard, inner: Inner) -> None:
    await guarded({"type": "lifespan"}, None, None)  # type: ignore[arg-type]
    assert inner.seen == ["lifespan"]


async def test_the_refusal_is_an_openai_error_and_ends_the_connection(guarded: guard.RouteGuard) -> None:
    start, body = await ask(guarded, "/metrics", method="POST")
    headers = dict(start["headers"])
    assert headers[b"connection"] == b"close", "a body that nobody reads must not be taken for the next request"
    assert int(headers[b"content-length"]) == len(body["body"])
    error = json.loads(body["body"])["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["code"] == "not_found"


async def _metrics(_request: Request) -> Response:
    return Response("vllm:secret 1")


# As vLLM mounts its own: whatever follows, and for every method.
ROUTED = guard.RouteGuard(Starlette(routes=[Route("/metrics{rest:path}", _metrics, methods=METHODS)]))
PIECES = ["/", "//", "metrics", "/metrics", "/metrics/", "a", "/a", "\n", "..", "%2f", "\x00", "?"]


@given(
    path=st.lists(st.sampled_from(PIECES), max_size=5).map("".join),
    root=st.lists(st.sampled_from(["/", "a", "/a", "/metrics", "metrics"]), max_size=3).map("".join),
    below=st.booleans(),
    method=st.sampled_from(METHODS),
)
async def test_no_path_and_no_root_path_lead_the_router_to_them(path: str, root: str, below: bool, method: str) -> None:
    asked = root + path if below else path
    sent = await ask(ROUTED, asked, method=method, root_path=root)
    assert all(b"secret" not in message.get("body", b"") for message in sent)
    assert sent[0]["status"] in (404, 307)
