"""When the liveness probe fails, and only then."""

from dataclasses import replace

import pytest

from gptservice_operator import health
from gptservice_operator.api import kinds

ALL = set(kinds.WATCHED)
LIVING = health.Signs(now=10_000.0, asked=dict.fromkeys(kinds.WATCHED, 9_990.0))


def silent(kind: kinds.Kind, seconds: float) -> health.Signs:
    return replace(LIVING, asked={**LIVING.asked, kind: LIVING.now - seconds})


@pytest.mark.parametrize("kind", kinds.WATCHED, ids=lambda kind: kind.name)
def test_a_watch_that_nobody_asks_for_any_more_is_told(kind: kinds.Kind) -> None:
    (problem,) = health.problems(silent(kind, health.DEAF_SECONDS + 1), ALL)
    assert kind.plural in problem


@pytest.mark.parametrize(
    ("signs", "told"),
    [
        pytest.param({"overdue": 400.0, "since_progress": 400.0}, "due for 400 s", id="the queue stands still"),
        pytest.param({"longest_pass": 1000.0}, "run for 1000 s", id="a worker is stuck"),
    ],
)
def test_what_does_not_move_is_told(signs: dict[str, float], told: str) -> None:
    (problem,) = health.problems(replace(LIVING, **signs), ALL)
    assert told in problem


@pytest.mark.parametrize(
    ("signs", "watched"),
    [
        pytest.param(LIVING, ALL, id="all well"),
        pytest.param(silent(kinds.POD, health.WATCH_SECONDS), ALL, id="a watch that is open"),
        pytest.param(silent(kinds.POD_MONITOR, 9e9), ALL - {kinds.POD_MONITOR}, id="a kind that is not there"),
        pytest.param(replace(LIVING, since_progress=9e9), ALL, id="nothing to do"),
        pytest.param(replace(LIVING, overdue=9e9, since_progress=1.0), ALL, id="a long queue that moves"),
        pytest.param(replace(LIVING, longest_pass=600.0), ALL, id="a pass that waits for a slow API server"),
        pytest.param(health.Signs(now=9e9, asked={}), ALL, id="before anything has begun"),
    ],
)
def test_nothing_else_is(signs: health.Signs, watched: set[kinds.Kind]) -> None:
    assert health.problems(signs, watched) == []
