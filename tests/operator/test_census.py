"""Services are counted by state, and times are taken where something has ended."""

import datetime
from typing import Any

import pytest
from prometheus_client import REGISTRY

from gptservice_operator.census import Census
from tests.operator import builders
from tests.operator.builders import Body

NOW = datetime.datetime(2026, 1, 5, 12, 0, tzinfo=datetime.UTC)
KEY = (builders.NAMESPACE, "chat")
LATER = NOW + datetime.timedelta(seconds=40)


def status(generation: int = 1, since: datetime.datetime = NOW, **states: tuple[str, str]) -> Body:
    listed = [
        {"type": kind, "status": value, "reason": reason, "lastTransitionTime": since.isoformat()}
        for kind, (value, reason) in states.items()
    ]
    return {"observedGeneration": generation, "conditions": listed}


READY: dict[str, Any] = {"Ready": ("True", "AllReplicasReady"), "Progressing": ("False", "AllReplicasReady")}
ROLLING: dict[str, Any] = {"Ready": ("False", "PodsStarting"), "Progressing": ("True", "PodsStarting")}


def counted(kind: str, value: str, reason: str) -> float:
    labels = {"type": kind, "status": value, "reason": reason}
    return REGISTRY.get_sample_value("gptservice_operator_conditions", labels) or 0.0


def times(metric: str) -> tuple[float, float]:
    parts = (REGISTRY.get_sample_value(f"gptservice_operator_{metric}_{part}") or 0.0 for part in ("count", "sum"))
    count, total = parts
    return count, total


@pytest.fixture
def census() -> Census:
    return Census()


def test_a_service_counts_for_what_it_is_now_and_no_more(census: Census) -> None:
    before, rolling = counted("Ready", "True", "AllReplicasReady"), counted("Ready", "False", "PodsStarting")
    census.count(KEY, status(**ROLLING))
    census.count(KEY, status(**READY))
    census.count(KEY, status(**READY))
    assert counted("Ready", "True", "AllReplicasReady") == before + 1
    assert counted("Ready", "False", "PodsStarting") == rolling
    census.forget(KEY)
    assert counted("Ready", "True", "AllReplicasReady") == before


def down() -> float:
    return REGISTRY.get_sample_value("gptservice_operator_services_down") or 0.0


@pytest.mark.parametrize(
    ("available", "ready", "stable", "counts"),
    [
        pytest.param("False", "Unschedulable", "chat-a", 1, id="its only pod finds no node"),
        pytest.param("False", "ImagePullFailed", "chat-a", 1, id="an image cannot be pulled"),
        pytest.param("False", "CrashLoop", "chat-a", 1, id="its engine crashes again and again"),
        pytest.param("False", "InvalidSpec", "chat-a", 1, id="it was edited while nothing served"),
        pytest.param("False", "ModelLoading", "chat-a", 0, id="it loads, for however long"),
        pytest.param("False", "PodsStarting", "chat-a", 0, id="a pod begins"),
        pytest.param("False", "RollingOut", "chat-a", 0, id="Recreate has begun"),
        pytest.param("False", "Stopped", "chat-a", 0, id="stopped"),
        pytest.param("False", "Unschedulable", None, 0, id="it has never served"),
        pytest.param("True", "CrashLoop", "chat-a", 0, id="another replica answers"),
    ],
)
def test_a_service_is_down_that_has_served_and_does_not_come_by_itself(
    census: Census, available: str, ready: str, stable: str | None, counts: int
) -> None:
    said = status(Available=(available, "NoReplicaAvailable"), Ready=("False", ready))
    census.count(KEY, {**said, "stableRevision": stable} if stable else said)
    assert down() == counts
    census.forget(KEY)
    assert down() == 0


def test_a_service_that_is_down_counts_once_whatever_its_reason_becomes(census: Census) -> None:
    for reason in ("Unschedulable", "ImagePullFailed", "CrashLoop", "CrashLoop"):
        said = status(Available=("False", "NoReplicaAvailable"), Ready=("False", reason))
        census.count(KEY, {**said, "stableRevision": "chat-a"})
        assert down() == 1
    census.count(KEY, {**status(Available=("True", "MinimumReplicasAvailable"), **READY), "stableRevision": "chat-a"})
    assert down() == 0


def test_who_was_never_counted_can_be_forgotten(census: Census) -> None:
    census.forget(KEY)


def service(generation: int, before: Body) -> Body:
    return {**builders.service(generation=generation), "status": before}


@pytest.mark.parametrize(
    ("after", "taken"),
    [
        pytest.param(READY, 1, id="it has ended"),
        pytest.param(ROLLING, 0, id="it goes on"),
        pytest.param({"Progressing": ("False", "Stopped")}, 0, id="the service was stopped"),
    ],
)
def test_a_rollout_lasts_from_when_it_was_first_told(census: Census, after: dict[str, Any], taken: int) -> None:
    count, total = times("rollout_seconds")
    census.told(service(1, status(**ROLLING)), status(**after), LATER)
    assert times("rollout_seconds") == (count + taken, total + 40 * taken)


def test_an_edit_counts_until_the_service_is_ready_with_it_and_once(census: Census) -> None:
    count, total = times("ready_seconds")
    edited = service(2, status(1, **READY))
    census.see(edited, NOW)
    census.see(edited, LATER)
    census.told(edited, status(1, **READY), LATER)  # a status that speaks of the spec before
    assert times("ready_seconds") == (count, total)
    census.told(edited, status(2, **READY), LATER)
    census.told(edited, status(2, **READY), LATER)
    assert times("ready_seconds") == (count + 1, total + 40)


def test_what_was_reported_on_before_is_no_edit(census: Census) -> None:
    count, _ = times("ready_seconds")
    census.see(service(1, status(1, **ROLLING)), NOW)
    census.told(service(1, status(1, **ROLLING)), status(1, **READY), LATER)
    assert times("ready_seconds")[0] == count
