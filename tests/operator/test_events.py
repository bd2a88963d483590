"""Pods that cannot begin, most of them for a volume: which are looked at, how often, and what their Events mean."""

import datetime
from typing import Any, ClassVar

import pytest

from gptservice_operator import errors, events
from gptservice_operator.api import conditions
from gptservice_operator.api.conditions import Reason
from gptservice_operator.cause import Complaint
from gptservice_operator.events import Found, Mounts
from tests.operator.builders import NAMESPACE, Body, condition, container, pod
from tests.operator.fake_cluster import FakeCluster

KEY = (NAMESPACE, "chat")
START = datetime.datetime(2026, 1, 5, 10, 0, 0, tzinfo=datetime.UTC)
"""When the pods of these tests got their node."""
SCHEDULED = condition("PodScheduled", "True", lastTransitionTime="2026-01-05T10:00:00Z")
DEPLOYMENT: Body = {"metadata": {"name": "chat"}}
NO_KEY = 'MountVolume.SetUp failed for volume "client-ca" : references non-existent secret key: root.pem'
NOT_FOUND = 'MountVolume.SetUp failed for volume "keys" : secret "team-keys" not found'


def waiting(reason: str, name: str = "engine") -> Body:
    return container(name, waiting={"reason": reason})


def creating(name: str = "chat-6d4c-x1", **more: Any) -> Body:
    """Return a pod as the kubelet reports it while its volumes are not mounted."""
    given = {"init": [waiting("PodInitializing", "fetch")], "containers": [waiting("PodInitializing")], **more}
    return pod(name, conditions=[SCHEDULED], **given)


def event(reason: str = "FailedMount", message: str = NOT_FOUND, at: str = "10:00:10", **more: Any) -> Body:
    return {"reason": reason, "message": message, "lastTimestamp": f"2026-01-05T{at}Z", **more}


def after(seconds: float) -> datetime.datetime:
    return START + datetime.timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("body", "since"),
    [
        pytest.param(creating(), START, id="volumes are waited for"),
        pytest.param(creating(init=None, containers=[waiting("ContainerCreating")]), START, id="no init container"),
        pytest.param(creating(init=None, containers=None), START, id="the kubelet has not said anything yet"),
        pytest.param(pod(ready=True, conditions=[SCHEDULED]), None, id="it runs"),
        pytest.param(pod(conditions=[condition("PodScheduled", "False")]), None, id="it has no node"),
        pytest.param(pod(conditions=[]), None, id="the scheduler has not seen it yet"),
        pytest.param(creating(init=[container("fetch", running={})]), None, id="the model is being fetched"),
        pytest.param(creating(init=[container("fetch", terminated={"exitCode": 0})]), None, id="it has been"),
        pytest.param(creating(containers=[waiting("ImagePullBackOff")]), None, id="an image cannot be pulled"),
        pytest.param(
            creating(init=[container("fetch", waiting={"reason": "PodInitializing"}, last={"exitCode": 1})]),
            None,
            id="it has run before",
        ),
        pytest.param(creating(phase="Failed"), None, id="it has failed"),
        pytest.param(
            pod(conditions=[condition("PodScheduled", "True")]), after(60), id="nobody says since when: from now on"
        ),
        pytest.param(
            pod(conditions=[condition("PodScheduled", "True", lastTransitionTime="yesterday")]),
            after(60),
            id="nor does this",
        ),
    ],
)
def test_since_when_a_pod_is_being_created(body: Body, since: datetime.datetime | None) -> None:
    assert events.creating_since(body, after(60)) == since


@pytest.mark.parametrize(
    ("listed", "name"),
    [
        pytest.param([], None, id="no event"),
        pytest.param([event()], "team-keys", id="a Secret is missing"),
        pytest.param([event("Scheduled", "assigned", "10:00:00"), event()], "team-keys", id="after it got its node"),
        pytest.param([event("Pulling", "pulling", "10:00:20"), event()], None, id="it is there by now"),
        pytest.param([event(), event("Pulling", "pulling", "10:00:20")], None, id="in whatever order they are listed"),
        pytest.param([event("Pulled", "", "10:00:05"), event()], "team-keys", id="pulled before, by the last attempt"),
        pytest.param(
            [event(message='Unable to attach or mount volumes: unmounted volumes=[keys]', at="10:00:20"), event()],
            "team-keys",
            id="the kubelet's other words for it",
        ),
        pytest.param([event(message=NO_KEY)], "", id="a Secret lacks the key"),
        pytest.param([event("FailedScheduling", NOT_FOUND)], None, id="the words of somebody else"),
        pytest.param([event(message=None)], None, id="no words"),
        pytest.param(
            [event(message=NOT_FOUND.replace("team-keys", "old"), at="10:00:05"), event()],
            "team-keys",
            id="the newest counts",
        ),
        pytest.param(
            [
                {"reason": "Pulling", "eventTime": "2026-01-05T10:00:30.000000Z"},
                {**event(), "lastTimestamp": None, "eventTime": "2026-01-05T10:00:10.000000Z"},
            ],
            None,
            id="times in the newer form",
        ),
        pytest.param(
            [
                event("Pulling", "", "10:00:20"),
                event(lastTimestamp=None, series={"lastObservedTime": "2026-01-05T10:00:40.000000Z"}),
            ],
            "team-keys",
            id="a series that went on",
        ),
    ],
)  # fmt: skip
def test_which_secret_events_call_missing(listed: list[Body], name: str | None) -> None:
    found = events.complaint(listed)
    assert (found and found.secret) == name
    assert found is None or found.message == (NO_KEY if name == "" else NOT_FOUND)
    assert found is None or found.reason is conditions.SECRET_NOT_FOUND


MULTI_ATTACH = 'Multi-Attach error for volume "pvc-1" Volume is already used by pod(s) chat-6d4c-old'
ONE_POD = (
    "Unable to attach or mount volumes for pod; skipping pod: volume uses the ReadWriteOncePod access mode and is "
    "already in use by another pod"
)
UNMOUNTED = "Unable to attach or mount volumes: unmounted volumes=[cache]: timed out waiting for the condition"


@pytest.mark.parametrize(
    ("listed", "reason", "words"),
    [
        pytest.param(
            [event("FailedAttachVolume", "no such disk")],
            conditions.VOLUME_NOT_READY, "no such disk", id="not attached",
        ),
        pytest.param(
            [event("FailedAttachVolume", MULTI_ATTACH)], conditions.VOLUME_IN_USE, MULTI_ATTACH, id="the old pod has it"
        ),
        pytest.param(
            [event(message=ONE_POD)], conditions.VOLUME_IN_USE, ONE_POD, id="the old pod has it for itself",
        ),
        pytest.param(
            [event("FailedAttachVolume", MULTI_ATTACH), event(message=UNMOUNTED, at="10:02:00")],
            conditions.VOLUME_IN_USE, MULTI_ATTACH, id="the words that say why",
        ),
        pytest.param([event(message=UNMOUNTED)], conditions.VOLUME_NOT_READY, UNMOUNTED, id="nothing says why"),
        pytest.param(
            [event(message='configmap "chat-limits" not found')],
            conditions.VOLUME_NOT_READY, 'configmap "chat-limits" not found', id="something else is missing",
        ),
        pytest.param(
            [event("FailedAttachVolume", MULTI_ATTACH, at="10:02:00"), event()],
            conditions.SECRET_NOT_FOUND, NOT_FOUND, id="a missing Secret is what somebody has to make",
        ),
        pytest.param(
            [event("FailedCreatePodSandBox", "plugin cni failed")],
            conditions.PODS_STARTING, "plugin cni failed", id="no network",
        ),
    ],
)  # fmt: skip
def test_what_else_events_say(listed: list[Body], reason: Reason, words: str) -> None:
    found = events.complaint(listed)
    assert found is not None
    assert (found.reason, found.message) == (reason, words)


class World:
    """A cluster with stuck pods, and one memory of them."""

    def __init__(self, *pods: Body) -> None:
        self.cluster = FakeCluster()
        self.mounts = Mounts()
        self.pods = list(pods)
        for body in pods:
            self.cluster.pod_events[body["metadata"]["uid"]] = [event()]

    async def look(self, seconds: float) -> Found:
        return await self.mounts.look(self.cluster.as_cluster(), KEY, self.pods, DEPLOYMENT, after(seconds))


class TestLooks:
    async def test_in_steady_state_there_are_none(self) -> None:
        world = World(pod(ready=True))
        assert await world.look(100) == Found()
        assert world.cluster.looks == []

    async def test_a_young_pod_is_left_alone_until_it_is_time(self) -> None:
        world = World(creating())
        found = await world.look(5)
        assert (world.cluster.looks, found.complaints, found.again) == ([], {}, 10)

    async def test_a_stuck_one_is_looked_at(self) -> None:
        world = World(creating())
        found = await world.look(15)
        (uid,) = world.cluster.looks
        assert found.complaints == {uid: Complaint(conditions.SECRET_NOT_FOUND, NOT_FOUND, "team-keys")}
        assert found.fresh == {"team-keys"}
        assert found.again == 15

    async def test_passes_in_between_remember_what_was_seen_and_ask_nobody(self) -> None:
        world = World(creating())
        await world.look(15)
        found = await world.look(20)
        assert len(world.cluster.looks) == 1
        assert [said.secret for said in found.complaints.values()] == ["team-keys"]
        assert found.fresh == frozenset(), "it was acted on already"
        assert world.mounts.known(KEY) == found.complaints
        assert found.again == 10

    async def test_ever_more_seldom(self) -> None:
        world, now, waits = World(creating()), 15.0, list[float]()
        for _ in range(8):
            again = (await world.look(now)).again
            assert again is not None
            waits.append(again)
            now += again
        assert waits == [15, 30, 60, 120, 240, 300, 300, 300]
        assert len(world.cluster.looks) == 8

    async def test_a_pod_that_goes_on_is_forgotten(self) -> None:
        world = World(creating())
        await world.look(15)
        stuck, world.pods = world.pods, [pod(ready=True)]
        assert await world.look(20) == Found()
        world.pods = stuck
        await world.look(21)
        assert len(world.cluster.looks) == 2

    async def test_so_are_the_pods_of_a_service_that_is_gone(self) -> None:
        world = World(creating())
        await world.look(15)
        world.mounts.forget(KEY)
        await world.look(16)
        assert len(world.cluster.looks) == 2

    async def test_services_do_not_mix(self) -> None:
        world = World(creating())
        await world.look(15)
        other = await world.mounts.look(world.cluster.as_cluster(), (NAMESPACE, "other"), [], DEPLOYMENT, after(16))
        assert other == Found()
        await world.look(17)
        assert len(world.cluster.looks) == 1

    async def test_of_very_many_a_few_at_a_time(self) -> None:
        world = World(*(creating(f"chat-6d4c-{number}") for number in range(7)))
        counts = list[int]()
        for _ in range(3):
            found = await world.look(15)
            counts.append(len(world.cluster.looks))
        assert counts == [3, 6, 7]
        assert len(set(world.cluster.looks)) == 7
        assert found.again == 15

    async def test_one_that_is_leaving_is_not_looked_at(self) -> None:
        assert await World(creating(deletionTimestamp="2026-01-05T10:01:00Z")).look(100) == Found()

    async def test_a_stranger_with_our_labels_is_not_looked_at(self) -> None:
        reference = [{"kind": "ReplicaSet", "name": "theirs-1", "uid": "x", "controller": True}]
        world = World(creating(ownerReferences=reference), creating("bare", ownerReferences=[]))
        assert await world.look(100) == Found()

    @pytest.mark.parametrize("error", [errors.Waiting("forbidden"), errors.Transient("no answer"), errors.Absent("x")])
    async def test_an_api_server_that_does_not_answer_is_no_failure(
        self, error: errors.OperatorError, caplog: pytest.LogCaptureFixture
    ) -> None:
        world = World(creating())
        world.cluster.failures["events", "Event"] = error
        found = await world.look(15)
        assert (found.complaints, found.again) == ({}, 15)
        assert "cannot look at the events" in caplog.text
        world.cluster.failures.clear()
        assert (await world.look(30)).complaints

    async def test_a_secret_that_has_come_is_no_longer_missed_at_the_next_look(self) -> None:
        world = World(creating())
        await world.look(15)
        (uid,) = world.cluster.looks
        world.cluster.pod_events[uid].append(event("Pulling", "pulling", "10:00:20"))
        assert (await world.look(30)).complaints == {}


def test_one_secret_can_be_left_out() -> None:
    ours, theirs = (Complaint(conditions.SECRET_NOT_FOUND, f"no {name}", name) for name in ("ours", "theirs"))
    found = Found({"a": ours, "b": theirs}, frozenset({"ours"}), 7)
    assert found.without("ours") == Found({"b": theirs}, frozenset({"ours"}), 7)


class TestUnseenPods:
    """No scheduler of the name that they ask for runs: nothing else tells, not even an Event."""

    ASKING: ClassVar[Body] = {**DEPLOYMENT, "spec": {"template": {"spec": {"schedulerName": "bin-packer"}}}}

    @staticmethod
    def pod() -> Body:
        body = pod("chat-6d4c-x1", created="2026-01-05T10:00:00Z")
        body["status"] = {"phase": "Pending", "qosClass": "Burstable"}
        return body

    async def look(self, world: World, seconds: float) -> Found:
        return await world.mounts.look(world.cluster.as_cluster(), KEY, world.pods, self.ASKING, after(seconds))

    async def test_after_a_while_it_is_said_which_scheduler_is_missing(self) -> None:
        world = World(self.pod())
        found = await self.look(world, 30)
        assert (found.complaints, found.again) == ({}, 30)
        (said,) = (await self.look(world, 60)).complaints.values()
        assert said.reason is conditions.NO_SCHEDULER
        assert "'bin-packer'" in said.message
        assert world.cluster.looks == [], "nobody has made an Event"
        assert list(world.mounts.known(KEY).values()) == [said]

    async def test_once_it_has_a_node_its_events_count(self) -> None:
        world = World(self.pod())
        await self.look(world, 60)
        world.pods = [creating()]
        found = await self.look(world, 61)
        assert [said.reason for said in found.complaints.values()] == [conditions.SECRET_NOT_FOUND]

    async def test_one_that_no_node_takes_was_seen(self) -> None:
        world = World(pod(conditions=[condition("PodScheduled", "False", reason="Unschedulable")]))
        assert await self.look(world, 1000) == Found()

    def test_without_a_name_it_is_the_cluster_s_own(self) -> None:
        assert "'default-scheduler'" in events.unseen(DEPLOYMENT).message
