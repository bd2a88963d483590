"""The state machine behind /readyz, and the warm-up against an HTTP server of the test's own."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from gptservice_runtime import readiness
from gptservice_runtime.reach import NotDemandedError, Reach
from tests.runtime.harness import free_ports

STEPS: dict[str, Callable[[readiness.Readiness], readiness.Readiness]] = {
    "started": readiness.Readiness.started,
    "listed": readiness.Readiness.listed,
    "warmed_up": readiness.Readiness.warmed_up,
    "draining": readiness.Readiness.draining,
    "engine_died": readiness.Readiness.engine_died,
}


def after(*steps: str) -> readiness.Readiness:
    state = readiness.Readiness()
    for step in steps:
        state = STEPS[step](state)
    return state


@pytest.mark.parametrize(
    ("steps", "phase", "ready", "reason"),
    [
        pytest.param([], "Checking", False, "ModelLoading", id="before the start"),
        pytest.param(["started"], "Loading", False, "ModelLoading", id="loading"),
        pytest.param(["started", "listed"], "WarmingUp", False, "ModelLoading", id="warming up"),
        pytest.param(["started", "listed", "warmed_up"], "Serving", True, None, id="serving"),
        pytest.param(["started", "listed", "warmed_up", "listed"], "Serving", True, None, id="listed again"),
        pytest.param(["started", "warmed_up"], "Loading", False, "ModelLoading", id="warm-up before the list"),
        pytest.param(
            ["started", "listed", "warmed_up", "engine_died"], "Serving", False, "CrashLoop", id="dead engine"
        ),
        pytest.param(["started", "listed", "warmed_up", "draining"], "Draining", False, "Draining", id="draining"),
        pytest.param(
            ["started", "listed", "draining", "warmed_up"], "Draining", False, "Draining",
            id="warm-up answered after SIGTERM",
        ),
        pytest.param(["draining", "started", "listed"], "Draining", False, "Draining", id="SIGTERM before the start"),
        pytest.param(["started", "draining", "listed"], "Draining", False, "Draining", id="listed after SIGTERM"),
    ],
)  # fmt: skip
def test_what_readyz_says(steps: list[str], phase: str, ready: bool, reason: str | None) -> None:
    state = after(*steps)
    assert (state.phase, state.ready) == (phase, ready)
    if reason is not None:
        assert (state.not_ready()["reason"], state.not_ready()["phase"]) == (reason, phase)
        assert state.not_ready()["message"]


def test_a_missing_key_is_told_until_it_is_there_and_only_before_serving() -> None:
    state = after("started").with_keys_problem("there is no key")
    assert (state.not_ready()["reason"], state.not_ready()["message"]) == ("APIKeysUnusable", "there is no key")
    assert state.with_keys_problem("").not_ready()["reason"] == "ModelLoading"
    assert state.draining().not_ready()["reason"] == "Draining"
    assert state.listed().warmed_up().engine_died().not_ready()["reason"] == "CrashLoop"


def test_an_engine_that_does_not_answer_is_not_ready_until_it_does() -> None:
    hung = after("started", "listed", "warmed_up").with_health("it has not answered")
    assert (hung.ready, hung.not_ready()["reason"]) == (False, "EngineUnresponsive")
    assert hung.not_ready()["message"] == "it has not answered"
    assert hung.with_health("").ready
    assert hung.draining().not_ready()["reason"] == "Draining"
    assert hung.engine_died().not_ready()["reason"] == "CrashLoop"


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        pytest.param(["started", "listed"], False, id="never ready"),
        pytest.param(["started", "listed", "draining", "warmed_up"], False, id="SIGTERM came first"),
        pytest.param(["started", "listed", "warmed_up"], True, id="ready"),
        pytest.param(["started", "listed", "warmed_up", "draining"], True, id="not any more"),
    ],
)
def test_started_up_is_who_has_ever_been_ready(steps: list[str], expected: bool) -> None:
    assert after(*steps).started_up is expected
    assert after(*steps).with_health("it hangs").started_up is expected


@given(st.lists(st.sampled_from([name for name in STEPS if name != "started"]), max_size=12))
def test_never_ready_after_sigterm_or_death(steps: list[str]) -> None:
    state = after("started", *steps)
    order = ["listed", "warmed_up"]
    in_order = [step for step in steps if step in order]
    if state.ready:
        assert not {"draining", "engine_died"} & set(steps)
        assert "warmed_up" in in_order[in_order.index("listed") :]


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class FakeApi:
    """/v1/models and /v1/completions with answers given in advance; the last one repeats."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.names = [["a", "b"]]
        self.statuses = [200]
        self.asked: list[str] = []
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

    async def completions(self, request: web.Request) -> web.Response:
        if (refusal := self._refusal(request)) is not None:
            return refusal
        self.asked.append((await request.json())["model"])
        status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        return web.json_response({"error": {"message": "this is why"}}, status=status)


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    (port,) = free_ports(1)
    fake = FakeApi(port)
    app = web.Application()
    app.add_routes([web.get("/v1/models", fake.models), web.post("/v1/completions", fake.completions)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    yield fake
    await runner.cleanup()


async def warm_up(api: FakeApi, key: readiness.Key | None = None) -> list[int]:
    """Warm up for a and b; how many requests had been made when the names were listed."""
    listed: list[int] = []
    await asyncio.wait_for(
        readiness.warm_up(Reach(base_url=api.url, token="t"), ("a", "b"), lambda: listed.append(len(api.asked)), key),
        20,
    )
    return listed


@pytest.mark.wiring
async def test_the_first_name_is_asked_once_everything_is_listed(api: FakeApi) -> None:
    api.names = [[], ["a"], ["a", "b"]]
    assert await warm_up(api) == [0]
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
    await warm_up(api)
    assert len(api.asked) == len(statuses)


@pytest.mark.wiring
async def test_a_warm_up_that_is_refused_for_good_ends_with_the_answer(api: FakeApi) -> None:
    api.statuses = [404]
    with pytest.raises(readiness.WarmUpRefusedError, match=r"HTTP 404 .*this is why"):
        await warm_up(api)


@pytest.mark.wiring
async def test_it_waits_for_an_engine_that_does_not_listen_yet() -> None:
    (port,) = free_ports(1)
    nobody = Reach(base_url=f"http://127.0.0.1:{port}", token="t")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(readiness.warm_up(nobody, ("a",), lambda: None), 0.8)


@pytest.mark.wiring
class TestWithKeys:
    async def test_the_warm_up_shows_one(self, api: FakeApi) -> None:
        api.keys = {"right"}
        await warm_up(api, lambda: "right")
        assert api.asked == ["a"]

    async def test_a_request_without_one_must_have_been_refused(self, api: FakeApi) -> None:
        with pytest.raises(NotDemandedError, match=r"without an API key \(HTTP 200\)"):
            await warm_up(api, lambda: "right")
        assert api.asked == [], "the warm-up comes after the check"

    async def test_and_one_that_failed_says_nothing(self, api: FakeApi) -> None:
        api.keys, api.without_key = {"right"}, [500, 503]
        await warm_up(api, lambda: "right")
        assert api.without_key == []

    async def test_it_waits_until_there_is_one(self, api: FakeApi) -> None:
        api.keys = {"right"}
        given: list[str | None] = [None, None, "wrong", "right"]
        await warm_up(api, lambda: given.pop(0) if len(given) > 1 else given[0])
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

        await warm_up(api, key)
        assert len(asked) == 8
