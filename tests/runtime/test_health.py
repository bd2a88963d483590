"""The rule by which an engine that has served counts as unresponsive: tables of looks."""

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gptservice_runtime.health import (
    IN_A_ROW,
    LEAST_WINDOW_SECONDS,
    MOST_WINDOW_SECONDS,
    PROBE_PERIOD_SECONDS,
    SILENCE_SECONDS,
    STEPS_IN_WINDOW,
    Health,
    Look,
)
from gptservice_runtime.processes import Process

API_SERVER = Process(pid=10, name="vllm", state="S")
CORE = Process(pid=11, name="VLLM::EngineCor", state="S")
WORKER = Process(pid=12, name="VLLM::Worker_TP", state="R")
COMPILER = Process(pid=13, name="cc1plus", state="R")
ALL = (API_SERVER, CORE, WORKER, COMPILER)


FIRST = Look(now=1000.0, answered=1, failed=0, movements=0, in_flight=0, processes=ALL)


@dataclass
class Story:
    """An engine's life, look by look, one second apart."""

    look: Look = FIRST
    health: Health = field(init=False)

    def __post_init__(self) -> None:
        self.health = Health.at(self.look)

    def see(self, seconds: float = 1.0, **changes: object) -> "Story":
        self.look = replace(self.look, now=self.look.now + seconds, **changes)  # type: ignore[arg-type]
        self.health = self.health.after(self.look)
        return self

    def answer(self, times: int = 1) -> "Story":
        for _ in range(times):
            self.see(PROBE_PERIOD_SECONDS, answered=self.look.answered + 1)
        return self

    def fail(self, times: int = 1, seconds: float = PROBE_PERIOD_SECONDS) -> "Story":
        for _ in range(times):
            self.see(seconds, failed=self.look.failed + 1)
        return self

    def move(self, seconds: float = 1.0) -> "Story":
        return self.see(seconds, movements=self.look.movements + 1)

    @property
    def well(self) -> bool:
        return not self.health.problem


def but(changed: Process, state: str) -> tuple[Process, ...]:
    """All processes, one of them in another state."""
    return tuple(replace(one, state=state) if one is changed else one for one in ALL)


def test_at_the_beginning_it_is_well() -> None:
    assert Story().well


class TestIdle:
    def test_it_takes_all_failures_in_a_row(self) -> None:
        story = Story().fail(IN_A_ROW - 1)
        assert story.well
        assert "though no request is running" in story.fail().health.problem

    def test_an_answer_begins_the_row_anew(self) -> None:
        story = Story().fail(IN_A_ROW - 1).answer().fail(IN_A_ROW - 1)
        assert story.well
        assert not story.fail().well

    def test_it_takes_all_answers_in_a_row_to_come_back(self) -> None:
        story = Story().fail(IN_A_ROW).answer(IN_A_ROW - 1)
        assert not story.well
        assert story.answer().well

    def test_a_failure_among_them_begins_that_row_anew(self) -> None:
        story = Story().fail(IN_A_ROW).answer(IN_A_ROW - 1).fail().answer(IN_A_ROW - 1)
        assert not story.well
        assert story.answer().well

    def test_looks_between_two_results_change_nothing(self) -> None:
        story = Story()
        for _ in range(IN_A_ROW - 1):
            story.fail()
            for _ in range(2):
                assert story.see().well

    def test_results_of_both_kinds_between_two_looks_make_no_row(self) -> None:
        story = Story().fail(IN_A_ROW - 1)
        story.see(7, failed=story.look.failed + 1, answered=story.look.answered + 1)
        assert story.fail(IN_A_ROW - 1).well

    def test_several_failures_between_two_looks_all_count(self) -> None:
        story = Story()
        assert not story.see(20, failed=story.look.failed + IN_A_ROW).well


class TestSilence:
    def test_no_result_at_all_is_as_failures_would_be(self) -> None:
        story = Story()
        seconds = SILENCE_SECONDS + (IN_A_ROW - 1) * PROBE_PERIOD_SECONDS
        while story.look.now < 1000 + seconds - 1:
            assert story.see().well, story.look.now
        assert not story.see().well

    def test_where_nobody_ever_asked_it_says_nothing(self) -> None:
        story = Story(replace(FIRST, answered=0))
        for _ in range(100):
            assert story.see().well

    def test_the_slowest_rhythm_of_results_is_no_silence(self) -> None:
        story = Story()
        for _ in range(20):
            assert story.see(PROBE_PERIOD_SECONDS * 2, answered=story.look.answered + 1).well
            assert story.health.failures_in_row == 0


class TestRunning:
    def test_failures_alone_do_not_count_while_a_metric_moves(self) -> None:
        story = Story().see(in_flight=1)
        for _ in range(20):
            assert story.fail().move().well

    def test_without_a_movement_they_count_after_the_least_window(self) -> None:
        story = Story().see(in_flight=1).move().fail(IN_A_ROW, seconds=1)
        assert story.see(LEAST_WINDOW_SECONDS - IN_A_ROW - 1).well
        assert "none of its metrics has moved for 15 s" in story.see().health.problem

    def test_a_quiet_engine_that_answers_is_well(self) -> None:
        story = Story().see(in_flight=1).move()
        assert story.answer(100).well

    def test_the_longest_step_seen_lengthens_the_window(self) -> None:
        step = LEAST_WINDOW_SECONDS - 1
        story = Story().see(in_flight=1).move(0).move(step).move(2)
        assert story.health.window == STEPS_IN_WINDOW * step
        story.fail(IN_A_ROW)
        assert story.see(STEPS_IN_WINDOW * step - IN_A_ROW * PROBE_PERIOD_SECONDS - 1).well
        assert not story.fail(1, seconds=1).well

    def test_the_first_step_is_counted_from_the_request(self) -> None:
        assert Story().see(100).see(in_flight=1).move(9).health.longest_step == 10

    def test_pauses_between_requests_are_no_steps(self) -> None:
        story = Story().see(in_flight=1).move().see(in_flight=0).see(500).see(in_flight=1).move()
        assert story.health.longest_step < 3

    def test_a_pause_that_was_taken_for_a_hang_is_not_the_next_time(self) -> None:
        story = Story().see(in_flight=1).move(0).fail(8)
        assert not story.well
        assert story.move(0).answer(IN_A_ROW).well
        assert story.health.longest_step == 24
        assert story.move(0).fail(8).well

    def test_how_long_a_process_was_stopped_is_no_step(self) -> None:
        story = Story().see(in_flight=1).move().see(processes=but(CORE, "T")).see(200).see(processes=ALL)
        assert story.move().health.longest_step < 5
        assert story.move(9).health.longest_step == 9

    def test_the_window_is_bounded(self) -> None:
        story = Story().see(in_flight=1).move(1000).fail(IN_A_ROW, seconds=1)
        assert story.see(MOST_WINDOW_SECONDS - IN_A_ROW - 1).well
        assert not story.fail(1, seconds=1).well

    def test_a_cpu_gets_longer(self) -> None:
        story = Story()
        story.health = Health.at(story.look, on_cpu=True)
        story.see(in_flight=1).fail(19)
        assert story.well
        assert not story.fail(1).well

    def test_once_unresponsive_new_requests_do_not_bring_it_back(self) -> None:
        story = Story().fail(IN_A_ROW)
        assert not story.see(in_flight=3).fail().move().well

    def test_when_the_clients_of_a_hung_engine_have_gone_it_is_told_at_once(self) -> None:
        story = Story().see(in_flight=1).move(50).fail(IN_A_ROW)
        assert story.well
        assert not story.see(in_flight=0).well


class TestProcesses:
    @pytest.mark.parametrize("stopped", ALL, ids=lambda one: one.name)
    def test_a_stopped_one_counts_at_once_and_answers_bring_it_back(self, stopped: Process) -> None:
        story = Story().see(processes=but(stopped, "T"))
        assert f"process {stopped.pid}" in story.health.problem
        assert story.health.dead_since is None
        story.see(processes=ALL).answer(IN_A_ROW - 1)
        assert not story.well
        assert story.answer().well

    def test_answers_while_one_is_stopped_do_not_count(self) -> None:
        story = Story().see(processes=but(WORKER, "T")).answer(IN_A_ROW).see(processes=ALL).answer(IN_A_ROW - 1)
        assert not story.well

    @pytest.mark.parametrize("state", ["Z", "X"])
    @pytest.mark.parametrize("dead", [CORE, WORKER], ids=lambda one: one.name)
    def test_a_dead_core_or_worker_counts_at_once_and_for_ever(self, dead: Process, state: str) -> None:
        story = Story().see(processes=but(dead, state))
        assert f"process {dead.pid} of the engine has ended" in story.health.problem
        assert story.health.dead_since == story.look.now
        since = story.look.now
        assert not story.answer(2 * IN_A_ROW).well
        assert story.health.dead_since == since

    def test_so_does_one_that_was_reaped(self) -> None:
        story = Story().see(processes=(API_SERVER, WORKER))
        assert story.health.dead_since == story.look.now

    def test_one_that_came_later_is_missed_too(self) -> None:
        late = Process(pid=20, name="VLLM::Worker_TP", state="S")
        story = Story().see(processes=(*ALL, late))
        assert story.well
        assert not story.see(processes=ALL).well

    @pytest.mark.parametrize("processes", [but(COMPILER, "Z"), ALL[:3]], ids=["zombie", "gone"])
    def test_others_come_and_go(self, processes: tuple[Process, ...]) -> None:
        assert Story().see(processes=processes).well

    @pytest.mark.parametrize("state", ["R", "S", "D", "I", "t"])
    def test_any_other_state_says_nothing(self, state: str) -> None:
        assert Story().see(processes=but(CORE, state)).well


@given(
    st.lists(
        st.tuples(st.sampled_from(["answer", "fail"]), st.integers(0, 3), st.booleans(), st.floats(0.5, 3.0)),
        max_size=60,
    )
)
def test_an_engine_that_answers_every_fifth_probe_is_never_unresponsive(
    steps: list[tuple[str, int, bool, float]],
) -> None:
    story, failures = Story(), 0
    for kind, in_flight, moves, seconds in steps:
        failures = failures + 1 if kind == "fail" and failures < IN_A_ROW - 1 else 0
        result = {"failed": story.look.failed + 1} if failures else {"answered": story.look.answered + 1}
        story.see(seconds, in_flight=in_flight, movements=story.look.movements + moves, **result)
        assert story.well
