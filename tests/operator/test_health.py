"""When the liveness probe fails, and only then."""

from dataclasses import replace

import pytest

from gptservice_operator import health

LIVING = health.Signs(now=10_000.0, asked={"/api/v1/pods": 9_990.0, "/api/v1/services": 9_990.0})


def silent(path: str, seconds: float) -> health.Signs:
    return replace(LIVING, asked={**LIVING.asked, path: LIVING.now - seconds})


@pytest.mark.parametrize("path", LIVING.asked)
def test_a_watch_that_nobody_asks_for_any_more_is_told(path: str) -> None:
    (problem,) = health.problems(silent(path, health.DEAF_SECONDS + 1))
    assert path in problem


@pytest.mark.parametrize(
    ("signs", "told"),
    [
        pytest.param({"overdue": 400.0, "since_progress": 400.0}, "due for 400 s", id="the queue stands still"),
        pytest.param({"longest_pass": 1000.0}, "run for 1000 s", id="a worker is stuck"),
        pytest.param({"behind": 400.0}, "was etcd restored?", id="versions have gone back"),
    ],
)
def test_what_does_not_move_is_told(signs: dict[str, float], told: str) -> None:
    (problem,) = health.problems(replace(LIVING, **signs))
    assert told in problem


@pytest.mark.parametrize(
    "signs",
    [
        pytest.param(LIVING, id="all well"),
        pytest.param(silent("/api/v1/pods", health.WATCH_SECONDS), id="a watch that is open"),
        pytest.param(replace(LIVING, since_progress=9e9), id="nothing to do"),
        pytest.param(replace(LIVING, overdue=9e9, since_progress=1.0), id="a long queue that moves"),
        pytest.param(replace(LIVING, longest_pass=600.0), id="a pass that waits for a slow API server"),
        pytest.param(replace(LIVING, behind=60.0), id="an API server that lags behind another"),
        pytest.param(health.Signs(now=9e9, asked={}), id="before anything has begun"),
    ],
)
def test_nothing_else_is(signs: health.Signs) -> None:
    assert health.problems(signs) == []
