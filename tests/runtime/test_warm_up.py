"""The warm-up, against an HTTP server of the test's own."""

import asyncio
import io
import re
import wave
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import web

from gptservice_runtime import warm_up
from gptservice_runtime.reach import NotDemandedError, Reach
from tests.runtime.harness import free_ports

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class FakeApi:
    """/v1/models and what the model can do, with answers given in advance; the last one repeats."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.names = [["a", "b"]]
        self.can = {"/v1/completions"}
        self.statuses = [200]
        self.asked: list[str] = []
        self.heard = b""
        self.delays: list[float] = []
        """Seconds before each answer to a question; then none."""
        self.keys: set[str] | None = None
        """The keys that it takes; None if it asks for none."""
        self.without_key: list[int] = []
        """What it answers to requests without a key, one after the other; then 401."""

    def _refusal(self, request: web.Request) -> web.Response | None:
        shown = request.headers.get("Authorization")
        if shown is None and self.without_key:
            return web.json_response({}, status=self.without_key.pop(0))
        allowed = self.keys is None or (shown or "").removeprefix("Bearer ") in self.keys
        return None if allowed else web.json_response({"error": "no key"}, status=401)

    async def models(self, request: web.Request) -> web.Response:
        if (refusal := self._refusal(request)) is not None:
            return refusal
        names = self.names.pop(0) if len(self.names) > 1 else self.names[0]
        return web.json_response({"data": [{"id": name} for name in names]})

    async def question(self, request: web.Request) -> web.Response:
        if (refusal := self._refusal(request)) is not None:
            return refusal
        if request.path not in self.can:
            return web.json_response({"detail": "Not Found"}, status=404)
        if request.content_type == "multipart/form-data":
            form = await request.post()
            file = form["file"]
            assert isinstance(file, web.FileField)
            self.heard = file.file.read()
            self.asked.append(str(form["model"]))
        else:
            self.asked.append((await request.json())["model"])
        await asyncio.sleep(self.delays.pop(0) if self.delays else 0)
        status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        return web.json_response({"error": {"message": "this is why"}}, status=status)


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    (port,) = free_ports(1)
    fake = FakeApi(port)
    app = web.Application()
    app.add_routes([web.get("/v1/models", fake.models), web.post("/{path:.*}", fake.question)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    yield fake
    await runner.cleanup()


async def warmed(api: FakeApi, key: warm_up.Key | None = None, latency: warm_up.Latency | None = None) -> list[int]:
    """Warm up for a and b; how many requests had been made when the names were listed."""
    listed: list[int] = []
    await asyncio.wait_for(
        warm_up.warm_up(
            Reach(base_url=api.url, token="t"), ("a", "b"), lambda: listed.append(len(api.asked)), key, latency
        ),
        20,
    )
    return listed


@pytest.mark.wiring
async def test_the_first_name_is_asked_once_everything_is_listed(api: FakeApi) -> None:
    api.names = [[], ["a"], ["a", "b"]]
    assert await warmed(api) == [0]
    assert api.asked == ["a"]


@pytest.mark.wiring
@pytest.mark.parametrize(
    "statuses",
    [
        pytest.param([500, 503, 200], id="not up yet"),
        pytest.param([429] * 7 + [200], id="busy with other clients"),
        pytest.param([404, 404, 404, 404, 200], id="a few refusals"),
    ],
)
async def test_the_warm_up_is_tried_again(api: FakeApi, statuses: list[int]) -> None:
    api.statuses = list(statuses)
    await warmed(api)
    assert len(api.asked) == len(statuses)


@pytest.mark.wiring
async def test_a_warm_up_that_is_refused_for_good_ends_with_the_answer(api: FakeApi) -> None:
    api.statuses = [404]
    with pytest.raises(warm_up.WarmUpRefusedError, match=r"HTTP 404 .*this is why"):
        await warmed(api)


@pytest.mark.wiring
@pytest.mark.parametrize("can", ["/pooling", "/v1/audio/transcriptions"])
async def test_a_model_that_generates_no_text_is_asked_what_it_can_answer(api: FakeApi, can: str) -> None:
    api.can = {can}
    await warmed(api)
    assert api.asked == ["a"]


@pytest.mark.wiring
async def test_a_refusal_of_what_it_can_answer_is_told(api: FakeApi) -> None:
    api.can, api.statuses = {"/pooling"}, [400]
    with pytest.raises(warm_up.WarmUpRefusedError, match=r"/pooling: HTTP 400 .*this is why"):
        await warmed(api)


@pytest.mark.wiring
async def test_an_engine_that_can_answer_nothing_is_refused(api: FakeApi) -> None:
    api.can = set()
    with pytest.raises(warm_up.WarmUpRefusedError, match=r"/v1/completions: HTTP 404"):
        await warmed(api)


@pytest.mark.wiring
async def test_what_is_to_be_transcribed_is_a_second_of_sound(api: FakeApi) -> None:
    api.can = {"/v1/audio/transcriptions"}
    await warmed(api)
    with wave.open(io.BytesIO(api.heard), "rb") as sound:
        assert sound.getnframes() / sound.getframerate() == 1


@pytest.mark.wiring
async def test_it_waits_for_an_engine_that_does_not_listen_yet() -> None:
    (port,) = free_ports(1)
    nobody = Reach(base_url=f"http://127.0.0.1:{port}", token="t")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(warm_up.warm_up(nobody, ("a",), lambda: None), 0.8)


@pytest.mark.wiring
class TestWithKeys:
    async def test_the_warm_up_shows_one(self, api: FakeApi) -> None:
        api.keys = {"right"}
        await warmed(api, lambda: "right")
        assert api.asked == ["a"]

    async def test_a_request_without_one_must_have_been_refused(self, api: FakeApi) -> None:
        with pytest.raises(NotDemandedError, match=r"without an API key \(HTTP 200\)"):
            await warmed(api, lambda: "right")
        assert api.asked == [], "the warm-up comes after the check"

    async def test_and_one_that_failed_says_nothing(self, api: FakeApi) -> None:
        api.keys, api.without_key = {"right"}, [500, 503]
        await warmed(api, lambda: "right")
        assert api.without_key == []

    async def test_it_waits_until_there_is_one(self, api: FakeApi) -> None:
        api.keys = {"right"}
        given: list[str | None] = [None, None, "wrong", "right"]
        await warmed(api, lambda: given.pop(0) if len(given) > 1 else given[0])
        assert given == ["right"]

    async def test_a_key_that_changes_half_way_is_no_refusal_for_good(self, api: FakeApi) -> None:
        api.keys = {"old"}
        asked: list[str] = []

        def key() -> str:
            """Old for the list; then six that the engine does not know yet."""
            asked.append("old" if not asked else "new")
            if len(asked) == 8:
                api.keys = {"new"}
            return asked[-1]

        await warmed(api, key)
        assert len(asked) == 8


LATE = re.compile(r"a small request took (\d+) ms, asked: (\d+) ms \(rollout.readyLatencyMilliseconds\)")


@pytest.mark.wiring
class TestLatency:
    @pytest.fixture(autouse=True)
    def soon(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(warm_up, "_MEASURE_SECONDS", 0.01)

    async def test_the_warm_up_itself_may_take_its_time(self, api: FakeApi) -> None:
        api.delays, late = [0.3], list[str]()
        await warmed(api, latency=warm_up.Latency(milliseconds=600_000, on_late=late.append))
        assert (len(api.asked), late) == (2, [])

    async def test_it_is_measured_until_an_answer_is_in_time(self, api: FakeApi) -> None:
        api.delays, late = [0, 0.3, 0.4], list[str]()
        await warmed(api, latency=warm_up.Latency(milliseconds=250, on_late=late.append))
        assert api.delays == []
        told = [match for one in late if (match := LATE.fullmatch(one)) is not None]
        assert len(told) == len(late) >= 2
        assert [int(match[2]) for match in told] == [250] * len(told)
        assert all(int(match[1]) > 250 for match in told)

    async def test_a_request_that_fails_is_no_answer(self, api: FakeApi) -> None:
        api.statuses, late = [200, 500, 429, 200], list[str]()
        await warmed(api, latency=warm_up.Latency(milliseconds=600_000, on_late=late.append))
        assert (len(api.asked), late) == (4, [])
