"""Events on a service: one for each reason, which counts; none of them ever fails a pass."""

import datetime
import logging

import pytest

from gptservice_operator import errors, recorder
from gptservice_operator.recorder import Recorder
from tests.operator import builders
from tests.operator.builders import Body
from tests.operator.fake_cluster import FakeCluster
from tests.operator.test_story import BROKEN, DONE, LOADING, NEW, status

NOW = datetime.datetime(2026, 1, 5, 12, 0, 0, tzinfo=datetime.UTC)


def after(seconds: float) -> datetime.datetime:
    return NOW + datetime.timedelta(seconds=seconds)


class Told:
    """A service that goes through statuses."""

    def __init__(self) -> None:
        self.cluster, self.recorder = FakeCluster(), Recorder()
        self.service: Body = builders.service()

    async def becomes(self, new: Body, seconds: float = 0) -> None:
        await self.recorder.record(self.cluster.as_cluster(), self.service, new, after(seconds))
        self.service["status"] = new

    def read(self) -> list[str]:
        """Return what `kubectl describe` shows: sorted by time, and by name where that is equal."""
        events = sorted(self.cluster.told.values(), key=lambda event: event["metadata"]["name"])
        return [event["reason"] for event in sorted(events, key=lambda event: event["lastTimestamp"])]

    def event(self, reason: str) -> Body:
        (found,) = [event for event in self.cluster.told.values() if event["reason"] == reason]
        return found


@pytest.fixture
def told() -> Told:
    return Told()


async def test_the_story_of_a_rollout_is_in_order(told: Told) -> None:
    for at, new in enumerate([NEW, LOADING, BROKEN, LOADING, DONE, {**DONE, "stableRevision": "chat-a1"}]):
        await told.becomes(new, at)
    assert told.read() == [
        "Accepted", "RollingOut", "ModelLoadFailed", "ModelLoading", "AsExpected", "MinimumReplicasAvailable",
        "AllReplicasReady", "RevisionStable",
    ]  # fmt: skip


async def test_what_an_event_says(told: Told) -> None:
    await told.becomes(BROKEN)
    event = told.event("ModelLoadFailed")
    assert event["type"] == "Warning"
    assert event["message"] == "Degraded says ModelLoadFailed"
    assert event["involvedObject"] == {
        "apiVersion": "ai.example.com/v1",
        "kind": "GPTService",
        "name": "chat",
        "namespace": "team-a",
        "uid": told.service["metadata"]["uid"],
    }
    assert event["metadata"]["namespace"] == "team-a"
    assert event["reportingComponent"] == event["source"]["component"] == "gptservice-operator"
    assert event["firstTimestamp"] == event["lastTimestamp"] == "2026-01-05T12:00:00Z"


async def test_a_repetition_is_counted_on_the_same_event(told: Told) -> None:
    for at, new in enumerate([LOADING, BROKEN, LOADING, BROKEN]):
        await told.becomes(new, at)
    event = told.event("ModelLoadFailed")
    assert (event["count"], event["firstTimestamp"]) == (2, "2026-01-05T12:00:01Z")
    assert event["lastTimestamp"] == "2026-01-05T12:00:03Z"


async def test_another_process_counts_on(told: Told) -> None:
    for new in (LOADING, BROKEN, LOADING):
        await told.becomes(new)
    told.recorder = Recorder()
    await told.becomes(BROKEN, 5)
    assert told.event("ModelLoadFailed")["count"] == 2
    assert told.event("ModelLoadFailed")["lastTimestamp"] == "2026-01-05T12:00:05Z"


async def test_an_event_that_kubernetes_has_forgotten_is_made_again(told: Told) -> None:
    await told.becomes(BROKEN)
    await told.becomes(LOADING)
    told.cluster.told.clear()
    await told.becomes(BROKEN, 4000)
    assert told.event("ModelLoadFailed")["count"] == 1


async def test_a_service_made_again_under_the_same_name_has_a_story_of_its_own(told: Told) -> None:
    await told.becomes(BROKEN)
    told.service = builders.service(uid="another")
    await told.becomes(BROKEN)
    found = [event for event in told.cluster.told.values() if event["reason"] == "ModelLoadFailed"]
    assert [event["count"] for event in found] == [1, 1]


async def test_a_service_that_flickers_is_told_ever_less(told: Told) -> None:
    for at in range(200):
        await told.becomes(BROKEN if at % 2 else LOADING, at)
    counted = sum(event["count"] for event in told.cluster.told.values())
    assert counted <= recorder.BURST + 200 / recorder.SECONDS_PER_EVENT
    await told.becomes(DONE, 2000)
    assert "AllReplicasReady" in told.read(), "it is told again after a while"


@pytest.mark.parametrize(
    "failure",
    [errors.Transient("no answer"), errors.Waiting("forbidden"), errors.Invalid("no"), errors.Absent("terminating")],
    ids=lambda failure: type(failure).__name__,
)
async def test_an_event_that_cannot_be_written_fails_nothing(
    told: Told, failure: errors.OperatorError, caplog: pytest.LogCaptureFixture
) -> None:
    told.cluster.failures["create", "Event"] = failure
    with caplog.at_level(logging.WARNING):
        await told.becomes(BROKEN)
    assert told.cluster.told == {}
    assert bool(caplog.records) != isinstance(failure, errors.Absent), "a namespace that goes is no trouble"


async def test_a_long_message_is_cut_to_what_an_event_takes(told: Told) -> None:
    new = status("CrashLoop")
    new["conditions"][-1]["message"] = "x" * 4000
    await told.becomes(new)
    assert len(told.event("CrashLoop")["message"]) == 1024


async def test_a_long_name_leaves_room(told: Told) -> None:
    told.service = builders.service("a" * 63)
    await told.becomes(NEW)
    assert all(len(event["metadata"]["name"]) <= 253 for event in told.cluster.told.values())
