"""The load against a small server: what was not answered whole never counts as such, and nothing is left out."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from e2e.kube import wait_until
from e2e.node.load import STREAM, Load
from e2e.node.plans import Plan
from tests.e2e.endpoint import PIECES, TOKENS, Endpoint, a_service, cluster_with, delta, serving

ASKED = {"max_tokens": TOKENS}
USAGE = json.dumps({"choices": [], "usage": {"completion_tokens": TOKENS}})
DIED = json.dumps({"error": {"message": "the engine died"}})
WHOLE = [*map(delta, PIECES), delta("", "length"), USAGE, "[DONE]"]
BOTH = Plan(streams=(ASKED,), per_second=50, short=ASKED, tokens_in=lambda text: len(text.split()))


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    async with serving() as served:
        served.events, served.finish_reason = WHOLE, "length"
        yield served


def load_on(endpoint: Endpoint, plan: Plan) -> Load:
    return Load(cluster_with(a_service()), endpoint, "default", "demo", plan)


def results(load: Load, kind: str) -> set[tuple[str, str]]:
    return {(one.result, one.error) for one in load.lost() if one.kind.startswith(kind)}


async def test_what_is_answered_whole_is_counted_and_nothing_else(endpoint: Endpoint) -> None:
    load = load_on(endpoint, BOTH)

    def run() -> None:
        with load:
            wait_until(lambda: len(load.outcomes), lambda count: count > 20, "requests")

    await asyncio.to_thread(run)
    assert not load.lost()
    # The models are asked for, too, but by GET.
    assert len(load.outcomes) == len(endpoint.asked)
    assert load.counts().startswith(f"all: {len(endpoint.asked)} sent, {len(endpoint.asked)} whole, 0 failed, 0 cut;")


@pytest.mark.parametrize(
    ("events", "result", "error"),
    [
        pytest.param([], "failed", "without [DONE]", id="nothing came"),
        pytest.param([delta(PIECES[0])], "cut", "without [DONE]", id="it ends without its end frame"),
        pytest.param(
            [delta(PIECES[0]), DIED, "[DONE]"],
            "cut",
            "HTTP 200",
            id="an error is in its middle",
        ),
        pytest.param([delta(PIECES[0]), USAGE, "[DONE]"], "cut", "4 of 6 tokens came", id="text is missing"),
        pytest.param([*map(delta, PIECES), USAGE, "[DONE]"], "cut", "ended as ''", id="no reason why it ended"),
        pytest.param([*map(delta, PIECES), delta("", "length"), "[DONE]"], "cut", "0 of 6 tokens", id="no usage"),
    ],
)
async def test_a_stream_is_whole_only_by_its_own_end_and_all_its_text(
    endpoint: Endpoint, events: list[str], result: str, error: str
) -> None:
    load = load_on(endpoint, BOTH)
    endpoint.events = events

    def run() -> None:
        with load:
            wait_until(lambda: dict(results(load, STREAM)), lambda found: set(found) - {"under way"}, "an end")

    await asyncio.to_thread(run)
    lost = results(load, STREAM)
    assert {one for one, _ in lost} == {result}
    assert all(error in said for _, said in lost)
    assert not results(load, "short")


async def test_a_refusal_is_counted_as_failed_and_the_gap_is_told(endpoint: Endpoint) -> None:
    load = load_on(endpoint, Plan(per_second=50, short=ASKED))

    def run() -> None:
        with load:
            endpoint.status = 503
            wait_until(lambda: len(load.lost()), lambda count: count > 5, "refusals")
            endpoint.status = 200
            refused = len(load.outcomes)
            wait_until(lambda: len(load.outcomes), lambda count: count > refused + 5, "answers")

    await asyncio.to_thread(run)
    lost = load.lost()
    assert {one.result for one in lost} == {"failed"}
    assert all("503" in one.error for one in lost)
    assert load.gap() >= lost[-1].ended - lost[0].ended
    assert str(lost[0]) in load.summary()


async def test_a_service_that_never_answers_is_an_error(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("e2e.node.load._FIRST_ANSWER_SECONDS", 0.2)
    endpoint.status = 503
    load = load_on(endpoint, Plan(per_second=50, short=ASKED))
    with pytest.raises(AssertionError, match="answered nothing"):
        await asyncio.to_thread(load.__enter__)
