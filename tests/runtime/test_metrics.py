"""The text of `/metrics`, and how the engine is asked for its part: against an HTTP server of the test's own."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from gptservice_runtime import contract, control, guard, metrics, readiness
from gptservice_runtime.reach import Reach
from tests.runtime.harness import free_ports, until

THEIRS = b'# HELP vllm:x Something.\n# TYPE vllm:x gauge\nvllm:x{engine="0"} 3.0\n'
SERVING = readiness.Readiness().started().listed().warmed_up()
TOKEN = "5f" * 32


def families(page: bytes) -> dict[str, Metric]:
    """As Prometheus reads it; ValueError for what it would not take."""
    found = list(text_string_to_metric_families(page.decode()))
    assert len({family.name for family in found}) == len(found), "a family twice: the scrape would be dropped"
    return {family.name: family for family in found}


def samples(page: bytes) -> dict[str, float]:
    """Each sample by its name and the values of its labels."""
    return {
        "/".join([sample.name, *sample.labels.values()]): sample.value
        for family in families(page).values()
        for sample in family.samples
    }


def page(
    engine: bytes | None = None,
    state: readiness.Readiness = SERVING,
    block: control.ControlBlock | None = None,
    start_seconds: float | None = 12.3456,
) -> bytes:
    return metrics.page(engine, state, block or control.ControlBlock.private(), start_seconds)


class TestPage:
    def test_all_that_there_is(self) -> None:
        block = control.ControlBlock.private()
        block.in_flight = 4
        for why, times in (("limit", 3), ("key", 2), ("draining", 1)):
            for _ in range(times):
                block.count_refused(why)  # type: ignore[arg-type]
        assert samples(page(THEIRS, block=block)) == {
            "vllm:x/0": 3.0,
            "gptservice_ready": 1,
            "gptservice_engine_up": 1,
            "gptservice_requests_in_flight": 4,
            "gptservice_requests_refused_total/limit": 3,
            "gptservice_requests_refused_total/draining": 1,
            "gptservice_requests_refused_total/key": 2,
            "gptservice_start_seconds": 12.346,
        }

    def test_without_the_engine_there_are_ours_and_no_zeros_in_its_name(self) -> None:
        found = samples(page(None))
        assert found["gptservice_engine_up"] == 0
        assert not [name for name in found if not name.startswith(contract.METRICS_PREFIX)]

    def test_an_engine_that_has_none_is_up(self) -> None:
        assert samples(page(b""))["gptservice_engine_up"] == 1

    @pytest.mark.parametrize("ending", [b"", b"\n", b"\n\n"])
    def test_ours_begin_on_a_line_of_their_own(self, ending: bytes) -> None:
        found = samples(page(THEIRS.rstrip(b"\n") + ending))
        assert (found["vllm:x/0"], found["gptservice_ready"]) == (3.0, 1)

    @pytest.mark.parametrize(
        ("state", "expected"),
        [
            pytest.param(readiness.Readiness(), 0, id="before the start"),
            pytest.param(readiness.Readiness().started(), 0, id="loading"),
            pytest.param(SERVING, 1, id="serving"),
            pytest.param(SERVING.draining(), 0, id="draining"),
            pytest.param(SERVING.engine_died(), 0, id="the engine has died"),
        ],
    )
    def test_ready_is_what_readyz_says(self, state: readiness.Readiness, expected: int) -> None:
        assert samples(page(state=state))["gptservice_ready"] == expected

    def test_the_start_took_nothing_before_it_is_over(self) -> None:
        assert "gptservice_start_seconds" not in samples(page(start_seconds=None))

    def test_every_family_has_a_kind_and_a_meaning(self) -> None:
        found = families(page(None))
        assert {name: family.type for name, family in found.items()} == {
            "gptservice_ready": "gauge",
            "gptservice_engine_up": "gauge",
            "gptservice_requests_in_flight": "gauge",
            "gptservice_requests_refused": "counter",
            "gptservice_start_seconds": "gauge",
        }
        assert all(family.documentation for family in found.values())

    @given(
        count=st.integers(0, 2**64 - 1),
        refused=st.integers(0, 30),
        seconds=st.none() | st.floats(0, 1e7),
        theirs=st.sampled_from([None, b"", THEIRS]),
    )
    def test_prometheus_reads_it_whatever_the_figures(
        self, count: int, refused: int, seconds: float | None, theirs: bytes | None
    ) -> None:
        block = control.ControlBlock.private()
        block.in_flight = count
        for _ in range(refused):
            block.count_refused("limit")
        found = samples(page(theirs, block=block, start_seconds=seconds))
        assert float(found["gptservice_requests_in_flight"]) == float(count)
        assert found["gptservice_requests_refused_total/limit"] == refused


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class FakeEngine:
    """`/metrics` that answers as the test says, and remembers who asked."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.asked: list[Mapping[str, str]] = []
        self.answer: Callable[[], web.Response] = lambda: web.Response(body=THEIRS, content_type="text/plain")
        self.go = asyncio.Event()
        self.go.set()

    async def metrics(self, request: web.Request) -> web.Response:
        self.asked.append(request.headers)
        await self.go.wait()
        return self.answer()


@pytest.fixture
async def fake() -> AsyncIterator[FakeEngine]:
    (port,) = free_ports(1)
    engine = FakeEngine(port)
    app = web.Application()
    app.add_routes([web.get("/metrics", engine.metrics)])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    yield engine
    engine.go.set()
    await runner.cleanup()


def asking(url: str, keys_directory: Path | None = None) -> metrics.EngineMetrics:
    return metrics.EngineMetrics(Reach(base_url=url, token=TOKEN), keys_directory)


@pytest.mark.wiring
class TestAskingTheEngine:
    async def test_its_text_comes_as_it_is(self, fake: FakeEngine) -> None:
        assert await asking(fake.url).fetch() == THEIRS

    async def test_the_guard_and_where_keys_are_demanded_their_check_are_shown_what_they_want(
        self, fake: FakeEngine, tmp_path: Path
    ) -> None:
        await asking(fake.url).fetch()
        (tmp_path / "api-key").write_text("sk-ours\n")
        await asking(fake.url, tmp_path).fetch()
        assert [asked[guard.TOKEN_HEADER] for asked in fake.asked] == [TOKEN, TOKEN]
        assert [asked.get("Authorization") for asked in fake.asked] == [None, "Bearer sk-ours"]

    async def test_the_key_is_the_one_that_counts_now(self, fake: FakeEngine, tmp_path: Path) -> None:
        engine = asking(fake.url, tmp_path)
        for key in ("sk-old", "sk-new"):
            (tmp_path / "api-key").write_text(key)
            await engine.fetch()
        assert [asked["Authorization"] for asked in fake.asked] == ["Bearer sk-old", "Bearer sk-new"]

    async def test_without_a_key_there_is_nothing_to_ask(self, fake: FakeEngine, tmp_path: Path) -> None:
        assert await asking(fake.url, tmp_path).fetch() is None
        assert await asking(fake.url, tmp_path / "nowhere").fetch() is None
        assert fake.asked == []

    @pytest.mark.parametrize(
        "answer",
        [
            pytest.param(lambda: web.Response(status=401, text="no"), id="refused"),
            pytest.param(lambda: web.Response(status=404, text="no"), id="an engine without"),
            pytest.param(lambda: web.Response(status=500, text="no"), id="broken"),
            pytest.param(lambda: web.Response(status=302, headers={"Location": "/metrics"}), id="elsewhere"),
            pytest.param(lambda: web.json_response({}), id="JSON"),
            pytest.param(
                lambda: web.Response(body=b"# EOF\n", headers={"Content-Type": "application/openmetrics-text"}),
                id="a format that ends",
            ),
            pytest.param(
                lambda: web.Response(
                    body=b"not gzip", headers={"Content-Type": "text/plain", "Content-Encoding": "gzip"}
                ),
                id="not what it says",
            ),
        ],
    )
    async def test_what_is_no_such_text_is_left_out(self, fake: FakeEngine, answer: Callable[[], web.Response]) -> None:
        fake.answer = answer
        assert await asking(fake.url).fetch() is None

    async def test_an_answer_that_is_compressed_unasked_is_read(self, fake: FakeEngine) -> None:
        fake.answer = lambda: web.Response(
            body=gzip.compress(THEIRS), headers={"Content-Type": "text/plain", "Content-Encoding": "gzip"}
        )
        assert await asking(fake.url).fetch() == THEIRS

    @pytest.mark.parametrize("spoken", [b"", b"\x00\xff" * 50, b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\ncut"])
    async def test_an_engine_that_speaks_nonsense_is_not_up(self, spoken: bytes) -> None:
        async def speak(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(spoken)
            writer.close()
            await writer.wait_closed()

        (port,) = free_ports(1)
        async with await asyncio.start_server(speak, "127.0.0.1", port):
            assert await asking(f"http://127.0.0.1:{port}").fetch() is None

    async def test_nobody_listens(self) -> None:
        (port,) = free_ports(1)
        assert await asking(f"http://127.0.0.1:{port}").fetch() is None

    async def test_one_that_does_not_answer_is_given_up(self, fake: FakeEngine) -> None:
        fake.go.clear()
        engine = asking(fake.url)
        assert await engine.fetch() is None
        fake.go.set()
        assert await engine.fetch() == THEIRS, "and asked anew the next time"

    async def test_scrapes_at_the_same_time_are_one_request(self, fake: FakeEngine) -> None:
        fake.go.clear()
        engine = asking(fake.url)
        scrapes = [asyncio.create_task(engine.fetch()) for _ in range(50)]
        await until(lambda: fake.asked, "the request")
        fake.go.set()
        assert await asyncio.gather(*scrapes) == [THEIRS] * 50
        assert len(fake.asked) == 1
        assert await engine.fetch() == THEIRS
        assert len(fake.asked) == 2, "nothing is kept: the next scrape has fresh figures"

    async def test_a_scraper_that_goes_away_takes_nothing_from_another(self, fake: FakeEngine) -> None:
        fake.go.clear()
        engine = asking(fake.url)
        first, second = (asyncio.create_task(engine.fetch()) for _ in range(2))
        await until(lambda: fake.asked, "the request")
        first.cancel()
        fake.go.set()
        assert await second == THEIRS
        assert first.cancelled()
