"""The state machine behind /readyz."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gptservice_runtime import readiness

STEPS: dict[str, Callable[[readiness.Readiness], readiness.Readiness]] = {
    "started": readiness.Readiness.started,
    "listed": readiness.Readiness.listed,
    "late": lambda state: state.answered_late("it took 412 ms"),
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
        pytest.param(["started", "listed", "late"], "WarmingUp", False, "ReadyLatencyExceeded", id="too slow"),
        pytest.param(["started", "late"], "Loading", False, "ModelLoading", id="an answer before the list"),
        pytest.param(["started", "listed", "late", "draining"], "Draining", False, "Draining", id="too slow, SIGTERM"),
        pytest.param(["started", "listed", "late", "warmed_up"], "Serving", True, None, id="too slow at first"),
        pytest.param(["started", "listed", "warmed_up", "late"], "Serving", True, None, id="slow once it serves"),
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
        pytest.param(["started", "listed", "late"], True, id="it answers, and the kubelet need not wait for the start"),
        pytest.param(["started", "listed", "warmed_up"], True, id="ready"),
        pytest.param(["started", "listed", "warmed_up", "draining"], True, id="not any more"),
    ],
)
def test_started_up_is_who_has_ever_answered(steps: list[str], expected: bool) -> None:
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
