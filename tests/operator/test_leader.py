"""Leader election, with hours in no time: never two at once, and never nobody for long."""

import asyncio
import copy
import datetime
from collections.abc import Mapping
from typing import Any, cast

import pytest

from gptservice_operator import errors, leader, lease
from gptservice_operator.api.kinds import Kind
from gptservice_operator.cluster import Cluster
from tests.operator import virtual_time

SECONDS = 15
NOW = datetime.datetime(2026, 1, 5, 12, 0, tzinfo=datetime.UTC)


class LeaseServer:
    """An API server that has one Lease, and faults."""

    def __init__(self) -> None:
        self.body: dict[str, Any] | None = None
        self.version = 0
        self.writes: list[tuple[float, str]] = []
        self.cut: set[str] = set()
        """Identities whose requests do not arrive."""
        self.lose_replies = 0
        self.slow = 0.0

    def connection(self, identity: str) -> Cluster:
        return cast("Cluster", _Connection(self, identity))

    def store(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        self.version += 1
        self.body = copy.deepcopy(dict(manifest))
        self.body["metadata"] = {**self.body["metadata"], "resourceVersion": str(self.version)}
        self.writes.append((virtual_time.now(), self.body["spec"]["holderIdentity"]))
        return copy.deepcopy(self.body)


class _Connection:
    def __init__(self, server: LeaseServer, identity: str) -> None:
        self._server, self._identity = server, identity

    async def _arrive(self) -> None:
        if self._identity in self._server.cut:
            await asyncio.sleep(leader.request_seconds(SECONDS))
            raise errors.Transient("the API server did not answer")
        await asyncio.sleep(self._server.slow)

    async def _reply(self) -> None:
        if self._server.lose_replies:
            self._server.lose_replies -= 1
            raise errors.Transient("the API server did not answer")

    async def get(self, kind: Kind, namespace: str, name: str) -> dict[str, Any] | None:
        await self._arrive()
        return copy.deepcopy(self._server.body)

    async def create(self, manifest: Mapping[str, Any], kind: Kind) -> bool:
        await self._arrive()
        if self._server.body is not None:
            return False
        self._server.store(manifest)
        await self._reply()
        return True

    async def replace(self, manifest: Mapping[str, Any], kind: Kind) -> dict[str, Any]:
        await self._arrive()
        if self._server.body is None:
            raise errors.Absent("update Lease: not found")
        if self._server.body["metadata"]["resourceVersion"] != manifest["metadata"].get("resourceVersion"):
            raise errors.Conflict("update Lease: the object has been modified")
        stored = self._server.store(manifest)
        await self._reply()
        return stored


class Replica:
    """One replica; `spans` are the times in which it led."""

    def __init__(self, server: LeaseServer, name: str) -> None:
        self.election = leader.Election(
            cluster=server.connection(name),
            namespace="system",
            identity=name,
            seconds=SECONDS,
            clock=virtual_time.now,
            now=lambda: NOW,
        )
        self.led_from: float | None = None
        self.lost: str = ""
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        try:
            await self.election.win()
            self.led_from = virtual_time.now()
            await self.election.hold()
        except leader.LostError as error:
            self.lost = str(error)


async def led(*replicas: Replica) -> Replica:
    """Return the one that leads, once one does."""
    while not (leading := [one for one in replicas if one.election.leads()]):  # noqa: ASYNC110 - whichever it is
        await asyncio.sleep(0.01)
    (only,) = leading
    return only


async def end(*replicas: Replica) -> None:
    for one in replicas:
        one.task.cancel()
    await asyncio.gather(*(one.task for one in replicas), return_exceptions=True)


async def never_two(seconds: float, *replicas: Replica) -> None:
    """Look all the time, for so long, whether more than one may write."""
    until = virtual_time.now() + seconds
    while virtual_time.now() < until:
        assert sum(one.election.leads() for one in replicas) <= 1
        await asyncio.sleep(0.05)


def test_one_leads_and_renews_and_the_other_waits() -> None:
    async def main() -> None:
        server = LeaseServer()
        one, two = Replica(server, "one"), Replica(server, "two")
        first = await led(one, two)
        await never_two(600, one, two)
        assert first.election.leads()
        assert {holder for _, holder in server.writes} == {first.election.identity}
        await end(one, two)

    virtual_time.run(main())


def test_the_lease_of_a_dead_leader_runs_out_and_no_sooner() -> None:
    async def main() -> None:
        server = LeaseServer()
        one = Replica(server, "one")
        await led(one)
        two = Replica(server, "two")
        await asyncio.sleep(20)
        await end(one)  # as kill -9: nothing is given back
        died, renewed = virtual_time.now(), server.writes[-1][0]
        await led(two)
        assert renewed + SECONDS <= virtual_time.now() <= died + SECONDS + 2
        assert one.election.leads() is False
        assert server.body is not None
        assert server.body["spec"]["leaseTransitions"] == 1
        await end(two)

    virtual_time.run(main())


def test_who_gives_it_back_need_not_be_waited_for() -> None:
    async def main() -> None:
        server = LeaseServer()
        one = Replica(server, "one")
        await led(one)
        two = Replica(server, "two")
        await asyncio.sleep(5)
        await end(one)
        await one.election.give_back()
        given_back = virtual_time.now()
        await led(two)
        assert virtual_time.now() <= given_back + leader.LOOK_SECONDS + 0.1
        await end(two)

    virtual_time.run(main())


def test_one_that_never_led_takes_nothing_with_it() -> None:
    async def main() -> None:
        server = LeaseServer()
        one = Replica(server, "one")
        await led(one)
        two = Replica(server, "two")
        await asyncio.sleep(5)
        await end(two)
        await two.election.give_back()
        assert {holder for _, holder in server.writes} == {"one"}
        await end(one)

    virtual_time.run(main())


def test_a_leader_that_is_cut_off_stops_before_its_lease_runs_out() -> None:
    async def main() -> None:
        server = LeaseServer()
        one = Replica(server, "one")
        await led(one)
        two = Replica(server, "two")
        await asyncio.sleep(20)
        server.cut = {"one"}
        await never_two(60, one, two)
        assert "could not be renewed" in one.lost
        assert two.election.leads()
        await end(one, two)

    virtual_time.run(main())


def test_a_leader_that_stood_still_may_not_write_when_it_wakes() -> None:
    """As SIGSTOP and SIGCONT: its clock has gone on, its tasks have not."""

    async def main() -> None:
        server = LeaseServer()
        one = Replica(server, "one")
        await led(one)
        await end(one)
        await asyncio.sleep(SECONDS * leader.DEADLINE)
        assert not one.election.leads()
        with pytest.raises(leader.LostError):
            await one.election.hold()

    virtual_time.run(main())


def test_a_container_that_was_started_again_takes_its_own_lease_back_at_once() -> None:
    async def main() -> None:
        server = LeaseServer()
        one = Replica(server, "one")
        await led(one)
        await end(one)
        began = virtual_time.now()
        again = Replica(server, "one")
        await led(again)
        assert virtual_time.now() - began < 0.1
        assert server.body is not None
        assert server.body["spec"]["leaseTransitions"] == 0
        await end(again)

    virtual_time.run(main())


@pytest.mark.parametrize("replies", [1, 2])
def test_a_renewal_whose_reply_is_lost_costs_nothing(replies: int) -> None:
    async def main() -> None:
        server = LeaseServer()
        one = Replica(server, "one")
        await led(one)
        for _ in range(5):
            server.lose_replies = replies
            await never_two(20, one)
            assert one.election.leads()
        await end(one)

    virtual_time.run(main())


def test_slow_answers_do_not_cost_the_lease() -> None:
    async def main() -> None:
        server = LeaseServer()
        one = Replica(server, "one")
        await led(one)
        server.slow = leader.request_seconds(SECONDS) - 0.1
        for _ in range(600):
            await asyncio.sleep(1)
            assert one.election.leads()
        await end(one)

    virtual_time.run(main())


def test_somebody_deletes_the_lease() -> None:
    async def main() -> None:
        server = LeaseServer()
        one = Replica(server, "one")
        await led(one)
        server.body = None
        await asyncio.sleep(SECONDS)
        assert one.election.leads()
        assert server.body is not None
        await end(one)

    virtual_time.run(main())


def test_somebody_takes_the_lease_away() -> None:
    async def main() -> None:
        server = LeaseServer()
        one = Replica(server, "one")
        await led(one)
        stolen = lease.manifest("system", "thief", SECONDS, lease.read(server.body), NOW)
        server.store(stolen)
        await asyncio.sleep(SECONDS / 2)
        assert "thief" in one.lost
        assert not one.election.leads()

    virtual_time.run(main())


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({}, id="empty"),
        pytest.param({"holderIdentity": None, "leaseDurationSeconds": None}, id="nulls"),
        pytest.param({"holderIdentity": "gone", "leaseDurationSeconds": 1, "leaseTransitions": 7}, id="run out"),
    ],
)
def test_a_lease_that_is_nobodys_is_taken(spec: dict[str, Any]) -> None:
    async def main() -> None:
        server = LeaseServer()
        server.body = {"metadata": {"name": lease.NAME, "namespace": "system", "resourceVersion": "0"}, "spec": spec}
        one = Replica(server, "one")
        await led(one)
        assert virtual_time.now() < 3
        await end(one)

    virtual_time.run(main())
