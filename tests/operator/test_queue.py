"""The keyed queue, in virtual time: what is woken runs, when it should, and one pass at a time."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gptservice_operator.errors import Transient
from gptservice_operator.extract import Key
from gptservice_operator.queue import EDITS_AT_ONCE, SETTLE_SECONDS, Queue
from tests.operator import virtual_time
from tests.operator.virtual_time import now

A: Key = ("team-a", "chat")
B: Key = ("team-a", "other")

INTERVAL = 1.0
BASE, MAX = 0.5, 60.0

Outcome = float | Exception | None


def seconds_now() -> float:
    """Return the virtual time without the ticks by which the clock never stands still."""
    return round(now(), 5)


@dataclass
class Passes:
    """Stands for the reconciler: records what runs when, and does as it is told."""

    seconds: Callable[[Key], float] = lambda _: 0.0
    """How long a pass takes."""
    outcome: Callable[[Key, int], Outcome] = lambda key, number: None
    """What the n-th pass of a key (from 1) comes to: seconds to look again after, an error, or neither."""
    starts: list[tuple[float, Key]] = field(default_factory=list[tuple[float, Key]])
    ends: list[tuple[float, Key]] = field(default_factory=list[tuple[float, Key]])
    running: Counter[Key] = field(default_factory=Counter[Key])
    most_at_a_time: int = 0

    async def __call__(self, key: Key) -> float | None:
        self.starts.append((seconds_now(), key))
        self.running[key] += 1
        assert self.running[key] == 1, f"two passes of {key} at a time"
        self.most_at_a_time = max(self.most_at_a_time, self.running.total())
        try:
            await asyncio.sleep(self.seconds(key))
        finally:
            self.running[key] -= 1
            self.ends.append((seconds_now(), key))
        outcome = self.outcome(key, len(self.times(key)))
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def times(self, key: Key = A) -> list[float]:
        """Return when the passes of a key began."""
        return [at for at, started in self.starts if started == key]


def simulate(script: Callable[[Queue], Awaitable[Any]], passes: Passes | None = None, **settings: Any) -> Passes:
    """Run the queue beside a script, and for a day of virtual time after it unless the script takes longer."""
    passes = passes or Passes()

    async def main() -> None:
        usual: dict[str, Any] = {"workers": 4, "backoff_base": BASE, "backoff_max": MAX, "interval": INTERVAL}
        queue = Queue(run_pass=passes, clock=now, **usual | settings)
        runner = asyncio.create_task(queue.run())
        await script(queue)
        runner.cancel()
        await asyncio.gather(runner, return_exceptions=True)

    virtual_time.run(main())
    return passes


def failing_first(times: int) -> Callable[[Key, int], Outcome]:
    return lambda key, number: RuntimeError("no luck") if number <= times else None


def waits(times: list[float]) -> list[float]:
    return [later - earlier for earlier, later in pairwise(times)]


class TestTryingAgain:
    """What has failed may succeed now: something says that the API server answers."""

    def test_a_back_off_ends_soon(self) -> None:
        async def script(queue: Queue) -> None:
            queue.wake(A)
            await asyncio.sleep(70)
            queue.try_again()
            await asyncio.sleep(1)

        passes = simulate(script, Passes(outcome=failing_first(8)))
        assert passes.times()[-1] < 70 + BASE + 0.01
        assert passes.times()[-2] < 70, "nothing else was due"

    def test_another_failure_is_waited_for_as_long_as_before(self) -> None:
        async def script(queue: Queue) -> None:
            queue.wake(A)
            await asyncio.sleep(70)
            queue.try_again()
            await asyncio.sleep(120)

        times = simulate(script, Passes(outcome=failing_first(1000))).times()
        tried = next(number for number, at in enumerate(times) if at >= 70)
        assert times[tried + 1] - times[tried] > MAX / 2 - 0.01

    def test_what_has_not_failed_is_left_alone(self) -> None:
        async def script(queue: Queue) -> None:
            queue.wake(A)
            queue.wake(B, after=30)
            await asyncio.sleep(5)
            queue.try_again()
            await asyncio.sleep(10)

        passes = simulate(script, Passes(outcome=lambda key, _: 60.0))
        assert (passes.times(A), passes.times(B)) == ([0], [])

    def test_services_do_not_come_all_at_once(self) -> None:
        async def script(queue: Queue) -> None:
            for number in range(50):
                queue.wake(("team", str(number)))
            await asyncio.sleep(70)
            queue.try_again()
            await asyncio.sleep(1)

        passes = simulate(script, Passes(outcome=failing_first(8)), workers=100)
        again = {at for at, _ in passes.starts if 70 <= at < 70 + BASE}
        assert len(again) > 25


class TestWakes:
    def test_a_wake_is_one_pass_at_once(self) -> None:
        async def script(queue: Queue) -> None:
            await asyncio.sleep(5)
            queue.wake(A)
            await asyncio.sleep(100)

        assert simulate(script).times() == [5]

    def test_a_wake_before_the_queue_runs_is_kept(self) -> None:
        async def script(queue: Queue) -> None:
            queue.wake(A)
            await asyncio.sleep(100)

        assert len(simulate(script).times()) == 1

    def test_many_wakes_before_a_pass_are_one(self) -> None:
        async def script(queue: Queue) -> None:
            for _ in range(50):
                queue.wake(A)
                queue.wake(A, urgent=True)
            assert queue.length() == 1
            await asyncio.sleep(100)
            assert queue.length() == 0

        assert len(simulate(script).times()) == 1

    def test_many_wakes_during_a_pass_are_one_more(self) -> None:
        async def script(queue: Queue) -> None:
            queue.wake(A)
            for _ in range(5):
                await asyncio.sleep(2)
                queue.wake(A)
            await asyncio.sleep(100)

        passes = simulate(script, Passes(seconds=lambda _: 11))
        assert passes.times() == [0, 11]

    def test_a_delayed_wake_waits(self) -> None:
        async def script(queue: Queue) -> None:
            queue.wake(A, after=30)
            await asyncio.sleep(100)

        assert simulate(script).times() == [30]

    def test_an_earlier_wake_takes_the_place_of_a_delayed_one(self) -> None:
        async def script(queue: Queue) -> None:
            queue.wake(A, after=30)
            queue.wake(A, after=60)
            await asyncio.sleep(10)
            queue.wake(A)
            await asyncio.sleep(100)

        assert simulate(script).times() == [10]

    def test_a_pass_may_ask_to_look_again(self) -> None:
        async def script(queue: Queue) -> None:
            queue.wake(A)
            await asyncio.sleep(1000)

        passes = simulate(script, Passes(outcome=lambda _, number: 60.0 if number < 3 else None))
        assert passes.times() == [0, 60, 120]

    def test_a_wake_comes_before_what_a_pass_asked_for(self) -> None:
        async def script(queue: Queue) -> None:
            queue.wake(A)
            await asyncio.sleep(10)
            queue.wake(A)
            await asyncio.sleep(1000)

        passes = simulate(script, Passes(outcome=lambda _, number: 60.0 if number == 1 else None))
        assert passes.times() == [0, 10]


class TestInterval:
    def test_a_burst_of_events_is_one_pass_per_interval(self) -> None:
        async def script(queue: Queue) -> None:
            for _ in range(100):
                queue.wake(A)
                await asyncio.sleep(0.05)
            await asyncio.sleep(100)

        passes = simulate(script)
        assert len(passes.times()) == 6
        assert min(waits(passes.times())) >= INTERVAL - 1e-4

    def test_a_wake_within_the_interval_runs_at_its_end(self) -> None:
        async def script(queue: Queue) -> None:
            queue.wake(A)
            await asyncio.sleep(0.3)
            queue.wake(A)
            await asyncio.sleep(100)

        assert simulate(script).times() == [0, INTERVAL]

    def test_an_urgent_wake_does_not_wait_for_it(self) -> None:
        async def script(queue: Queue) -> None:
            queue.wake(A)
            await asyncio.sleep(0.3)
            queue.wake(A)
            queue.wake(A, urgent=True)
            await asyncio.sleep(100)

        assert simulate(script).times() == [0, 0.3]

    def test_what_follows_on_a_pass_that_tried_again_is_told_soon(self) -> None:
        """The controllers' first answers to what it made; what comes after them has the interval again."""

        async def script(queue: Queue) -> None:
            queue.wake(A)
            for _ in range(100):
                await asyncio.sleep(0.01)
                if len(passes.times()) > 1:
                    queue.wake(A)
            await asyncio.sleep(100)

        passes = Passes(outcome=failing_first(1))
        simulate(script, passes)
        assert waits(passes.times())[1:] == pytest.approx([SETTLE_SECONDS, INTERVAL], abs=1e-4)

    def test_a_service_that_fails_now_and_then_takes_no_more_of_the_time(self) -> None:
        async def script(queue: Queue) -> None:
            for _ in range(2000):
                queue.wake(A)
                await asyncio.sleep(0.01)
            await asyncio.sleep(100)

        every_other = Passes(outcome=lambda _, number: RuntimeError("no luck") if number % 2 else None)
        simulate(script, every_other)
        assert len([at for at in every_other.times() if at < 20]) <= 3 * 20 / INTERVAL

    def test_without_an_interval_nothing_waits(self) -> None:
        async def script(queue: Queue) -> None:
            queue.wake(A)
            for _ in range(200):
                await asyncio.sleep(0.01)
                if len(passes.times()) in {2, 3}:
                    queue.wake(A)
            await asyncio.sleep(100)

        passes = Passes(outcome=failing_first(1))
        simulate(script, passes, interval=0.0)
        assert waits(passes.times())[1:3] == pytest.approx([0.01, 0.01], abs=0.011)

    @pytest.mark.parametrize("fails", [False, True], ids=["well", "in vain"])
    def test_edits_without_end_are_looked_at_once_per_interval(self, fails: bool) -> None:
        async def script(queue: Queue) -> None:
            for _ in range(200):
                queue.wake(A, urgent=True)
                await asyncio.sleep(0.05)
            await asyncio.sleep(100)

        passes = simulate(script, Passes(outcome=failing_first(200 if fails else 0)), backoff_max=1.0)
        made = [at for at in passes.times() if at < 10]
        assert made[:EDITS_AT_ONCE] == [round(0.05 * number, 5) for number in range(EDITS_AT_ONCE)]
        assert len(made) <= EDITS_AT_ONCE + 10
        assert any(9.95 <= at <= 9.95 + INTERVAL for at in passes.times())

    def test_some_edits_in_a_row_may_come_again_after_a_while(self) -> None:
        async def script(queue: Queue) -> None:
            for _ in range(2):
                for _ in range(EDITS_AT_ONCE):
                    queue.wake(A, urgent=True)
                    await asyncio.sleep(0.1)
                await asyncio.sleep(EDITS_AT_ONCE * INTERVAL)

        begin = EDITS_AT_ONCE * (0.1 + INTERVAL)
        times = [round(start + 0.1 * number, 5) for start in (0, begin) for number in range(EDITS_AT_ONCE)]
        assert simulate(script).times() == times

    def test_one_key_s_interval_is_not_another_s(self) -> None:
        async def script(queue: Queue) -> None:
            queue.wake(A)
            await asyncio.sleep(0.3)
            queue.wake(B)
            await asyncio.sleep(100)

        assert simulate(script).times(B) == [0.3]


class TestOnePassAtATime:
    def test_an_urgent_wake_during_a_pass_waits_for_its_end(self) -> None:
        async def script(queue: Queue) -> None:
            queue.wake(A)
            await asyncio.sleep(2)
            queue.wake(A, urgent=True)
            await asyncio.sleep(100)

        assert simulate(script, Passes(seconds=lambda _: 10)).times() == [0, 10]

    def test_keys_run_beside_each_other_up_to_the_number_of_workers(self) -> None:
        async def script(queue: Queue) -> None:
            for number in range(10):
                queue.wake(("team-a", f"s{number}"))
            await asyncio.sleep(100)

        passes = simulate(script, Passes(seconds=lambda _: 10), workers=4)
        assert passes.most_at_a_time == 4
        assert sorted(at for at, _ in passes.starts) == [0] * 4 + [10] * 4 + [20] * 2

    def test_who_has_waited_longest_comes_first(self) -> None:
        async def script(queue: Queue) -> None:
            for number in range(5):
                queue.wake(("team-a", f"s{number}"))
                await asyncio.sleep(0.1)
            await asyncio.sleep(100)

        passes = simulate(script, Passes(seconds=lambda _: 10), workers=1)
        assert [name for _, (_, name) in passes.starts] == ["s0", "s1", "s2", "s3", "s4"]

    def test_a_slow_pass_delays_no_other_key(self) -> None:
        async def script(queue: Queue) -> None:
            queue.wake(B)
            await asyncio.sleep(5)
            queue.wake(A)
            await asyncio.sleep(2000)

        passes = simulate(script, Passes(seconds=lambda key: 1000 if key == B else 0))
        assert passes.times() == [5]


class TestBackOff:
    def test_it_doubles_up_to_the_cap_with_jitter(self) -> None:
        async def script(queue: Queue) -> None:
            queue.wake(A)
            await asyncio.sleep(1000)

        passes = simulate(script, Passes(outcome=failing_first(14)), interval=0.0)
        observed = waits(passes.times())
        assert len(observed) == 14
        for number, wait in enumerate(observed):
            ceiling = min(MAX, BASE * 2**number)
            assert ceiling / 2 - 1e-4 <= wait <= ceiling + 1e-4, f"after failure {number + 1}"

    def test_jitter_spreads_keys_that_failed_together(self) -> None:
        async def script(queue: Queue) -> None:
            for number in range(20):
                queue.wake(("team-a", f"s{number}"))
            await asyncio.sleep(100)

        passes = simulate(script, Passes(outcome=failing_first(1)), interval=0.0, workers=20, backoff_base=10.0)
        seconds = {round(passes.times(("team-a", f"s{number}"))[1], 3) for number in range(20)}
        assert len(seconds) > 10

    def test_a_thousand_failures_do_not_overflow(self) -> None:
        async def script(queue: Queue) -> None:
            queue.wake(A)
            await asyncio.sleep(1100)

        passes = Passes(outcome=failing_first(10**9))
        simulate(script, passes, backoff_max=1.0, interval=0.0)
        assert len(passes.starts) > 1100
        assert max(waits(passes.times())) <= 1.0 + 1e-4

    def test_it_does_not_wait_for_the_interval(self) -> None:
        """What failed once is seldom to fail again, and nobody wakes the service a second time."""

        async def script(queue: Queue) -> None:
            queue.wake(A)
            await asyncio.sleep(100)

        passes = simulate(script, Passes(outcome=failing_first(1)), interval=5.0)
        assert len(passes.times()) == 2
        assert passes.times()[1] <= BASE

    def test_events_do_not_shorten_it(self) -> None:
        async def script(queue: Queue) -> None:
            queue.wake(A)
            for _ in range(200):
                await asyncio.sleep(0.1)
                queue.wake(A)
            await asyncio.sleep(100)

        passes = simulate(script, Passes(outcome=failing_first(1)), backoff_base=40.0)
        assert 20 - 1e-4 <= passes.times()[1] <= 40 + 1e-4
        assert len(passes.times()) == 2

    def test_an_edit_does_end_it_and_starts_it_anew(self) -> None:
        async def script(queue: Queue) -> None:
            queue.wake(A)
            await asyncio.sleep(100)
            queue.wake(A, urgent=True)
            await asyncio.sleep(1000)

        passes = simulate(script, Passes(outcome=failing_first(14)), interval=0.0, backoff_max=10_000.0)
        at_edit = next(index for index, at in enumerate(passes.times()) if at == 100)
        assert waits(passes.times())[at_edit] <= BASE + 1e-4

    def test_an_edit_during_a_pass_that_fails_is_looked_at_at_once(self) -> None:
        async def script(queue: Queue) -> None:
            queue.wake(A)
            await asyncio.sleep(2)
            queue.wake(A, urgent=True)
            await asyncio.sleep(100)

        passes = Passes(seconds=lambda _: 10, outcome=failing_first(1))
        assert simulate(script, passes, backoff_base=30.0).times() == [0, 10]

    def test_an_event_during_a_pass_that_fails_waits_for_it(self) -> None:
        async def script(queue: Queue) -> None:
            queue.wake(A)
            await asyncio.sleep(2)
            queue.wake(A)
            await asyncio.sleep(100)

        passes = simulate(script, Passes(seconds=lambda _: 10, outcome=failing_first(1)), backoff_base=30.0)
        assert len(passes.times()) == 2
        assert passes.times()[1] >= 10 + 15 - 1e-4

    def test_a_good_pass_resets_it(self) -> None:
        async def script(queue: Queue) -> None:
            queue.wake(A)
            await asyncio.sleep(500)
            queue.wake(A)
            await asyncio.sleep(500)

        outcomes: dict[int, Outcome] = dict.fromkeys((1, 2, 3, 4, 6), RuntimeError("no luck"))
        passes = simulate(script, Passes(outcome=lambda _, number: outcomes.get(number)), interval=0.0)
        assert len(passes.times()) == 7
        assert waits(passes.times())[5] <= BASE + 1e-4, "as after a first failure"

    def test_a_failing_key_delays_no_other(self) -> None:
        async def script(queue: Queue) -> None:
            queue.wake(B)
            for _ in range(50):
                await asyncio.sleep(2)
                queue.wake(A)
            await asyncio.sleep(100)

        def outcome(key: Key, number: int) -> Outcome:
            return RuntimeError("no luck") if key == B else None

        passes = simulate(script, Passes(outcome=outcome), workers=1)
        assert passes.times() == [2.0 * number for number in range(1, 51)]

    def test_the_server_s_wish_is_a_lower_bound(self) -> None:
        async def script(queue: Queue) -> None:
            queue.wake(A)
            await asyncio.sleep(500)

        def wish(error: Exception) -> float | None:
            return error.retry_after if isinstance(error, Transient) else None

        outcomes: dict[int, Outcome] = {
            1: Transient("429", retry_after=90.0),
            2: Transient("503"),
            3: ValueError("bug"),
        }
        passes = simulate(
            script, Passes(outcome=lambda _, number: outcomes.get(number)), interval=0.0, retry_after=wish
        )
        first, second, third = waits(passes.times())
        assert first == 90
        assert second <= 2 * BASE + 1e-4
        assert third <= 4 * BASE + 1e-4


class TestWhatItTells:
    def test_overdue_counts_from_when_a_pass_was_due(self) -> None:
        async def script(queue: Queue) -> None:
            queue.wake(B)
            await asyncio.sleep(1)
            queue.wake(A)
            queue.wake(("team-a", "later"), after=1000)
            await asyncio.sleep(30)
            assert queue.overdue() == pytest.approx(30)
            assert queue.length() == 2
            await asyncio.sleep(100)
            assert queue.overdue() == 0

        simulate(script, Passes(seconds=lambda _: 50), workers=1)

    def test_last_progress_is_when_a_pass_ended_well_or_not(self) -> None:
        async def script(queue: Queue) -> None:
            queue.wake(A)
            await asyncio.sleep(10)
            assert queue.last_progress == pytest.approx(7)

        simulate(script, Passes(seconds=lambda _: 7, outcome=failing_first(1)), backoff_base=1000.0, backoff_max=1000.0)

    def test_a_failure_is_logged_with_key_cause_and_wait(self, caplog: pytest.LogCaptureFixture) -> None:
        async def script(queue: Queue) -> None:
            queue.wake(A)
            await asyncio.sleep(3)

        simulate(script, Passes(outcome=failing_first(1)), backoff_base=4.0)
        (record,) = caplog.records
        assert "team-a/chat: no luck; looking again in" in record.getMessage()


def test_cancelling_the_queue_cancels_its_passes() -> None:
    async def script(queue: Queue) -> None:
        queue.wake(A)
        await asyncio.sleep(5)

    passes = simulate(script, Passes(seconds=lambda _: 1000))
    assert passes.ends == [(5, A)]


def test_what_is_forgotten_starts_afresh() -> None:
    async def script(queue: Queue) -> None:
        passes.outcome = lambda key, number: queue.forget(key)
        queue.wake(A)
        await asyncio.sleep(10)
        queue.wake(A)
        await asyncio.sleep(100)

    passes = Passes()
    assert simulate(script, passes, interval=60.0).times() == [0, 10]


def test_what_is_forgotten_while_idle_starts_afresh_too() -> None:
    async def script(queue: Queue) -> None:
        queue.wake(A)
        await asyncio.sleep(5)
        queue.forget(A)
        queue.forget(B)
        await asyncio.sleep(5)
        queue.wake(A)
        await asyncio.sleep(100)

    assert simulate(script, interval=60.0).times() == [0, 10]


def test_what_was_woken_after_it_was_forgotten_is_remembered() -> None:
    async def script(queue: Queue) -> None:
        queue.wake(A)
        await asyncio.sleep(1)
        queue.forget(A)
        queue.wake(A, urgent=True)
        await asyncio.sleep(20)
        queue.wake(A)
        await asyncio.sleep(100)

    assert simulate(script, Passes(seconds=lambda _: 10), interval=60.0).times() == [0, 10, 70]


def test_forgetting_during_a_pass_allows_no_second_one_beside_it() -> None:
    async def script(queue: Queue) -> None:
        queue.wake(A)
        await asyncio.sleep(1)
        queue.forget(A)
        queue.wake(A)
        await asyncio.sleep(100)

    passes = simulate(script, Passes(seconds=lambda _: 10))
    assert passes.times() == [0, 10]


def test_forgetting_takes_no_wake_away() -> None:
    async def script(queue: Queue) -> None:
        queue.wake(A)
        await asyncio.sleep(1)
        queue.wake(A)
        queue.forget(A)
        await asyncio.sleep(100)
        queue.wake(A, after=5)
        queue.forget(A)
        await asyncio.sleep(100)

    assert len(simulate(script, Passes(seconds=lambda _: 10)).times()) == 3


@dataclass(frozen=True)
class Wake:
    """One wake of a random history; `pause` is the time in seconds since the one before."""

    pause: float
    key: Key
    urgent: bool
    after: float


KEYS = [("team-a", f"s{number}") for number in range(4)]
histories = st.lists(
    st.builds(
        Wake,
        pause=st.sampled_from([0.0, 0.1, 0.9, 1.0, 3.0]),
        key=st.sampled_from(KEYS),
        urgent=st.booleans(),
        after=st.sampled_from([0.0, 0.0, 0.5, 10.0]),
    ),
    min_size=1,
    max_size=25,
)
outcomes_of_passes = st.lists(st.sampled_from(["ok", "ok", "fails", "again"]), min_size=1, max_size=20)


@given(
    histories,
    outcomes_of_passes,
    st.sampled_from([0.0, 0.1, 1.0, 2.5]),
    st.sampled_from([1, 2, 4]),
    st.sampled_from([0.0, 1.0]),
)
def test_no_wake_is_ever_lost(
    history: list[Wake], outcomes: list[str], seconds: float, workers: int, interval: float
) -> None:
    """After each wake of a key a pass of it begins; and it neither begins early nor twice at a time."""
    due: list[tuple[float, Wake]] = []
    made: dict[str, Callable[[], Outcome]] = {
        "ok": lambda: None,
        "fails": lambda: RuntimeError("no luck"),
        "again": lambda: 2.0,
    }

    def outcome(key: Key, number: int) -> Outcome:
        total = len(passes.starts)
        return made[outcomes[total]]() if total < len(outcomes) else None

    async def script(queue: Queue) -> None:
        for wake in history:
            await asyncio.sleep(wake.pause)
            due.append((seconds_now(), wake))
            queue.wake(wake.key, urgent=wake.urgent, after=wake.after)
        await asyncio.sleep(10_000)
        assert queue.length() == 0
        assert queue.overdue() == 0

    passes = Passes(seconds=lambda _: seconds, outcome=outcome)
    simulate(script, passes, workers=workers, interval=interval)
    for at, wake in due:
        assert any(start >= at - 1e-4 for start in passes.times(wake.key)), f"nothing ran after {wake} at {at}"
    assert passes.most_at_a_time <= workers
