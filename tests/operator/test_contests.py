"""Two writers of one child: after some rounds ours is the one that waits, and says so; a person is no such writer."""

import datetime

import pytest

from gptservice_operator import contests
from gptservice_operator.contests import Contests
from tests.operator.test_reconcile import KEY, STATUS, World, settled

CHILD = ("Deployment", "chat")
START = datetime.datetime(2026, 1, 5, 12, 0, tzinfo=datetime.UTC)


def at(seconds: float) -> datetime.datetime:
    return START + datetime.timedelta(seconds=seconds)


def fought(*, every: float = 1.0, rounds: int = contests.MOST_REPAIRS) -> Contests:
    """Return what is known after so many repairs."""
    known = Contests()
    for number in range(rounds):
        known.repaired(KEY, CHILD, at(number * every))
    return known


def test_a_few_repairs_are_no_contest() -> None:
    known = fought(rounds=contests.MOST_REPAIRS - 1)
    assert known.may_repair(KEY, CHILD, at(10))
    assert list(known.warnings(KEY)) == []
    assert known.again(KEY, at(10)) is None


def test_many_that_are_far_apart_are_none_either() -> None:
    known = fought(every=5, rounds=100)
    assert known.may_repair(KEY, CHILD, at(500))


def test_in_a_contest_the_next_repair_waits_and_the_wait_doubles_to_its_bound() -> None:
    known, now, waits = fought(), at(9), list[float]()
    for _ in range(8):
        assert not known.may_repair(KEY, CHILD, now)
        left = known.again(KEY, now)
        assert left is not None
        waits.append(left)
        now += datetime.timedelta(seconds=left)
        assert known.may_repair(KEY, CHILD, now)
        known.repaired(KEY, CHILD, now)
    assert waits == [30, 60, 120, 240, 480, 600, 600, 600]


def test_it_is_said_of_which_child_and_how_to_find_the_other() -> None:
    (warning,) = fought().warnings(KEY)
    assert warning.startswith("Deployment chat is contested")
    assert "kubectl get deployment chat -o yaml --show-managed-fields" in warning


def test_it_ends_when_the_wait_is_over_and_nobody_has_changed_the_child() -> None:
    known = fought()
    known.settle(KEY, [], at(20))
    assert not known.may_repair(KEY, CHILD, at(20)), "it may be changed back any moment"
    known.settle(KEY, [CHILD], at(39))
    assert list(known.warnings(KEY)) != []
    known.settle(KEY, [], at(39))
    assert list(known.warnings(KEY)) == []
    assert known.may_repair(KEY, CHILD, at(39))


def test_another_child_and_another_service_are_not_concerned() -> None:
    known = fought()
    assert known.may_repair(KEY, ("Service", "chat"), at(9))
    assert known.may_repair(("other", "chat"), CHILD, at(9))


def test_a_service_that_is_gone_is_forgotten() -> None:
    known = fought()
    known.forget(KEY)
    assert known.may_repair(KEY, CHILD, at(9))


class TestPasses:
    @staticmethod
    async def rounds(world: World, count: int) -> int:
        """Have somebody scale the Deployment before each of so many passes; return how often it was set right."""
        repaired = 0
        for number in range(count):
            world.cluster.edit("Deployment", "chat")["spec"]["replicas"] = 5 + number % 2
            world.see()
            repaired += (await world.run_pass()).count("Deployment")
        return repaired

    async def test_the_other_writer_is_not_fought_for_ever_and_the_service_says_so(self) -> None:
        world = await settled()
        assert await self.rounds(world, 25) == contests.MOST_REPAIRS
        assert "Deployment chat is contested" in world.condition("Accepted")["message"]
        assert world.condition("Accepted")["reason"] == "AcceptedWithWarnings"

    async def test_an_edit_of_the_spec_is_written_at_once_all_the_same(self) -> None:
        world = await settled()
        await self.rounds(world, 15)
        world.edit_spec(replicas=2)
        assert "Deployment" in await world.run_pass()
        assert world.body("Deployment")["spec"]["replicas"] == 2

    async def test_the_pass_wants_to_come_back_and_it_heals(self) -> None:
        world = await settled()
        await self.rounds(world, 15)
        again = await world.reconciler().reconcile(KEY)
        assert again is not None
        assert 0 < again <= contests.FIRST_WAIT_SECONDS
        world.cluster.written()
        world.seconds += contests.FIRST_WAIT_SECONDS
        assert "Deployment" in await world.run_pass()
        world.see()
        world.seconds += 2 * contests.FIRST_WAIT_SECONDS
        assert await world.run_pass() == [STATUS]
        assert world.condition("Accepted")["reason"] == "Accepted"

    @pytest.mark.parametrize("kind", ["Service", "ConfigMap"])
    async def test_a_deleted_child_is_no_contest(self, kind: str) -> None:
        world = await settled()
        for _ in range(15):
            world.cluster.remove(kind, {"Service": "chat", "ConfigMap": "chat-limits"}[kind])
            world.see(lost=kind)
            assert kind in await world.run_pass()
        assert world.condition("Accepted")["reason"] == "Accepted"

    async def test_a_service_that_somebody_starts_again_and_again_is_stopped_now_and_then(self) -> None:
        world = await settled()
        world.edit_spec(replicas=0)
        await world.settle()
        stops = 0
        for _ in range(25):
            world.cluster.edit("Deployment", "chat")["spec"]["replicas"] = 1
            world.see()
            stops += any(kind.startswith("Deployment") for kind in await world.run_pass())
        assert stops <= contests.MOST_REPAIRS
        assert "Deployment chat is contested" in world.condition("Accepted")["message"]
