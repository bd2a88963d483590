"""Every route of the bundled vLLM is for clients or shut, and none is open without a key: a new one fails here."""

from pathlib import Path

import pytest

from e2e.vllm import environment
from gptservice_runtime import asgi, engine, guard, keys

pytestmark = pytest.mark.vllm

SHUT = frozenset({"inference", "is_scaling_elastic_ep", "kv_event_sources", "load", "metrics", "scale_elastic_ep"})
"""First parts of the paths of routes for whoever runs vLLM."""
KEY = "sk-" + "k" * 43


@pytest.fixture(scope="module")
def paths() -> list[str]:
    return [path.replace("{", "").replace("}", "") for path in environment.routes()]


class Inner:
    """Where vLLM would be."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def __call__(self, scope: asgi.Message, receive: asgi.Receive, send: asgi.Send) -> None:
        self.seen.append(scope["path"])
        await send({"type": "http.response.start", "status": 200, "headers": []})


def test_each_is_known(paths: list[str]) -> None:
    assert "/v1/chat/completions" in paths
    assert {path.split("/")[1] for path in paths} <= guard.SERVED | SHUT, "decide for whom the new one is"
    assert {path.split("/")[1] for path in paths} >= SHUT, "what is gone need not be listed"


@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
async def test_each_needs_a_key_and_is_as_it_was_decided(
    paths: list[str], method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "api-key").write_text(KEY)
    monkeypatch.setenv(engine.KEYS_DIRECTORY_ENV, str(tmp_path))
    monkeypatch.setenv(engine.METRICS_TOKEN_ENV, "5f" * 32)
    inner = Inner()
    app = keys.KeyCheck(guard.RouteGuard(inner))
    for path in paths:
        assert await status(app, method, path) == 401
        expected = 404 if path.split("/")[1] in SHUT else 200
        assert await status(app, method, path, (b"authorization", b"Bearer " + KEY.encode())) == expected
    assert inner.seen == [path for path in paths if path.split("/")[1] not in SHUT]


async def status(app: asgi.Application, method: str, path: str, *headers: asgi.Header) -> int:
    sent: list[asgi.Message] = []

    async def send(message: asgi.Message) -> None:
        sent.append(message)

    async def receive() -> asgi.Message:
        raise AssertionError("nothing reads the body")

    await app({"type": "http", "method": method, "path": path, "headers": list(headers)}, receive, send)
    found: int = sent[0]["status"]
    return found
