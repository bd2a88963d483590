"""The middleware that asks the engine core, with a server of the test's own below it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from gptservice_runtime import asgi, control, engine, health
from gptservice_runtime.probing import EngineProbe

SHORT = 0.02


class Server:
    """What vLLM's application is to the middleware."""

    def __init__(self) -> None:
        self.state = SimpleNamespace(engine_client=self)
        self.text = "vllm:a 1\nprocess_cpu_seconds_total 1\n"
        self.answers = asyncio.Event()
        self.answers.set()
        self.fails = False
        self.seen: list[str] = []

    async def is_sleeping(self) -> bool:
        await self.answers.wait()
        if self.fails:
            raise RuntimeError("the engine is dead")
        return False

    async def __call__(self, scope: asgi.Message, receive: asgi.Receive, send: asgi.Send) -> None:
        if scope["type"] == "lifespan":
            await asyncio.Event().wait()
        self.seen.append(scope["path"])
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": self.text.encode()})


@pytest.fixture
def block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> control.ControlBlock:
    monkeypatch.setenv(engine.CONTROL_FILE_ENV, str(tmp_path / "control"))
    monkeypatch.setattr(health, "PROBE_PERIOD_SECONDS", SHORT)
    monkeypatch.setattr(health, "PROBE_TIMEOUT_SECONDS", SHORT)
    return control.ControlBlock.create(tmp_path / "control")


@asynccontextmanager
async def probing(server: Server) -> AsyncIterator[EngineProbe]:
    async def nothing() -> asgi.Message:
        return await asyncio.Future()

    async def drop(_message: asgi.Message) -> None: ...

    probe = EngineProbe(server)
    life = asyncio.create_task(probe({"type": "lifespan", "app": server}, nothing, drop))
    try:
        yield probe
    finally:
        life.cancel()
        await asyncio.wait({life})


async def counted(block: control.ControlBlock, field: str, more_than: int) -> int:
    async with asyncio.timeout(20):
        while getattr(block, field) <= more_than:  # noqa: ASYNC110 - shared memory has no event
            await asyncio.sleep(0.001)
    return int(getattr(block, field))


async def test_answers_are_counted(block: control.ControlBlock) -> None:
    async with probing(Server()):
        await counted(block, "probes_answered", 3)
    assert block.probes_failed == 0


async def test_a_core_that_hangs_or_fails_is_counted_and_asked_again(block: control.ControlBlock) -> None:
    server = Server()
    async with probing(server):
        await counted(block, "probes_answered", 0)
        server.answers.clear()
        await counted(block, "probes_failed", 2)
        server.answers.set()
        answered = await counted(block, "probes_answered", block.probes_answered)
        server.fails = True
        await counted(block, "probes_failed", block.probes_failed)
        server.fails = False
        await counted(block, "probes_answered", answered)


async def test_metrics_are_read_only_while_requests_run_and_only_the_engines_count(
    block: control.ControlBlock,
) -> None:
    server = Server()
    async with probing(server):
        await counted(block, "probes_answered", 3)
        assert server.seen == []
        block.in_flight = 1
        moved = await counted(block, "movements", 0)
        server.text = "vllm:a 1\nprocess_cpu_seconds_total 2\nhttp_requests_total 9\n"
        await counted(block, "probes_answered", block.probes_answered + 3)
        assert block.movements == moved
        server.text = "vllm:a 2\nprocess_cpu_seconds_total 2\n"
        await counted(block, "movements", moved)
    assert set(server.seen) == {"/metrics"}


async def test_metrics_that_cannot_be_read_do_not_end_the_probe(block: control.ControlBlock) -> None:
    server = Server()
    server.text = None  # type: ignore[assignment]
    block.in_flight = 1
    async with probing(server):
        await counted(block, "probes_answered", 3)
    assert block.movements == 0


async def test_without_an_engine_client_nothing_is_claimed(
    block: control.ControlBlock, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server()
    del server.state.engine_client
    async with probing(server):
        await asyncio.sleep(3 * SHORT)
    assert (block.probes_answered, block.probes_failed) == (0, 0)
    assert "cannot be told" in caplog.text


async def test_requests_pass(block: control.ControlBlock) -> None:
    server = Server()
    sent: list[asgi.Message] = []

    async def receive() -> asgi.Message:
        return {"type": "http.request"}

    async def send(message: asgi.Message) -> None:
        sent.append(message)

    await EngineProbe(server)({"type": "http", "path": "/v1/models"}, receive, send)
    assert server.seen == ["/v1/models"]
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
