"""Which pod goes for an unhealthy GPU, and when: the one that serves least, with another beside it, not too often."""

import datetime
from typing import Any

import pytest

from gptservice_operator import gpu_health
from gptservice_operator.gpu_health import PERIOD_SECONDS, Replacement
from tests.operator import builders
from tests.operator.builders import Body

NOW = datetime.datetime(2026, 1, 5, 12, 0, tzinfo=datetime.UTC)
DEPLOYMENT: Body = {"metadata": {"name": "chat"}}


def at(seconds_ago: float) -> str:
    return (NOW - datetime.timedelta(seconds=seconds_ago)).strftime("%Y-%m-%dT%H:%M:%SZ")


def pod(name: str, health: str = "Healthy", **more: Any) -> Body:
    return builders.pod(name, containers=[builders.on_device(health=health)], **more)


def ill(name: str, **more: Any) -> Body:
    return pod(name, "Unhealthy", **more)


def goes(name: str, mark: str | None = None) -> Replacement:
    uid = builders.uid_of("Pod", name)
    return Replacement(name, uid, mark or f"{uid}/{at(0)}")


def decided(*pods: Body, mark: str | None = None, deployment: Body | None = DEPLOYMENT) -> Replacement:
    return gpu_health.decide(pods, deployment, mark, NOW)


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param([pod("a", ready=True)], None, id="nothing is wrong"),
        pytest.param([pod("a", "Unknown"), pod("b", ready=True)], None, id="a plugin that does not know"),
        pytest.param([ill("a", ready=True), pod("b", ready=True)], "a", id="another serves"),
        pytest.param([ill("a", ready=True)], None, id="no other serves"),
        pytest.param([ill("a", ready=True), pod("b")], None, id="the other does not serve yet"),
        pytest.param([ill("a", ready=True), pod("b", ready=True, deletionTimestamp=at(1))], None, id="the other goes"),
        pytest.param([ill("a")], "a", id="it does not serve itself"),
        pytest.param([ill("a", ready=True), ill("b"), pod("c", ready=True)], "b", id="which does not serve goes first"),
        pytest.param([ill("a", ready=True), ill("b", ready=True)], "a", id="of two that serve, one"),
        pytest.param([ill("a", deletionTimestamp=at(1)), ill("b")], None, id="one at a time"),
        pytest.param([ill("a", phase="Failed")], None, id="what the kubelet has given up is over"),
        pytest.param([ill("a", ownerReferences=[])], None, id="somebody else's pod with our labels"),
    ],
)
def test_which_pod_goes(pods: list[Body], expected: str | None) -> None:
    assert decided(*pods) == (goes(expected) if expected else Replacement())


def test_without_a_deployment_none_would_come_in_its_place() -> None:
    assert decided(ill("a"), deployment=None) == Replacement()


LAST = f"another/{at(PERIOD_SECONDS - 30)}"


@pytest.mark.parametrize(
    ("mark", "expected"),
    [
        pytest.param(LAST, Replacement(mark=LAST, again=30), id="one was deleted before"),
        pytest.param(f"another/{at(PERIOD_SECONDS)}", goes("a"), id="long before"),
        pytest.param("not what we write", goes("a"), id="somebody has written into the mark"),
    ],
)
def test_not_two_within_the_period(mark: str, expected: Replacement) -> None:
    assert decided(ill("a"), mark=mark) == expected


def test_what_was_decided_is_done_in_the_next_process() -> None:
    mark = f"{builders.uid_of('Pod', 'b')}/{at(5)}"
    assert decided(ill("a"), ill("b"), mark=mark) == goes("b", mark)


def test_the_memory_outlives_the_fault() -> None:
    assert decided(pod("a", ready=True), mark=LAST) == Replacement(mark=LAST)
