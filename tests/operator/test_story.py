"""What is worth an Event: transitions, in order, and nothing that has not changed."""

from typing import Any

import pytest

from gptservice_operator import story
from gptservice_operator.api import conditions
from tests.operator.builders import Body

STOPPED = "Stopped"


def status(
    ready: str | None = None,
    *,
    accepted: str = "Accepted",
    serves: bool = False,
    degraded: str | None = None,
    done: bool = False,
    **more: Any,
) -> Body:
    """Return a status whose condition Ready has this reason; ``done`` says whether it is True."""
    reason = ready or ("AllReplicasReady" if done else "RollingOut")
    available = "MinimumReplicasAvailable" if serves else "NoReplicaAvailable"
    listed = [
        ("Accepted", accepted in ("Accepted", "AcceptedWithWarnings"), accepted),
        ("Available", serves, STOPPED if reason == STOPPED else available),
        ("Progressing", not done and degraded is None, reason),
        ("Degraded", degraded is not None, degraded or "AsExpected"),
        ("Ready", done, reason),
    ]
    told = [
        {"type": kind, "status": str(holds), "reason": why, "message": f"{kind} says {why}"}
        for kind, holds, why in listed
    ]
    return {"conditions": told, **more}


NEW = status()
LOADING = status("ModelLoading")
DONE = status(done=True, serves=True)
BROKEN = status("ModelLoadFailed", degraded="ModelLoadFailed")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param({}, NEW, ["Accepted", "RollingOut"], id="made"),
        pytest.param(NEW, NEW, [], id="nothing changed"),
        pytest.param(NEW, LOADING, ["ModelLoading"], id="one step"),
        pytest.param(LOADING, DONE, ["MinimumReplicasAvailable", "AllReplicasReady"], id="it serves"),
        pytest.param({}, DONE, ["Accepted", "MinimumReplicasAvailable", "AllReplicasReady"], id="all at once"),
        pytest.param(DONE, BROKEN, ["ModelLoadFailed", "NoReplicaAvailable"], id="it serves no more"),
        pytest.param(LOADING, BROKEN, ["ModelLoadFailed"], id="it never did"),
        pytest.param(
            BROKEN, status("CrashLoop", degraded="CrashLoop"), ["CrashLoop"], id="another cause"
        ),
        pytest.param(
            status(done=True, serves=True, degraded="CrashLoop"), DONE, ["AsExpected"], id="it has proved itself again"
        ),
        pytest.param(DONE, status(STOPPED), ["Stopped"], id="stopped: one line of three conditions"),
        pytest.param(status(STOPPED), NEW, ["RollingOut"], id="started: that nothing serves is no news"),
        pytest.param(
            {}, status("UnknownModel", accepted="UnknownModel"), ["UnknownModel"], id="refused: one line as well"
        ),
        pytest.param(
            DONE, status(done=True, serves=True, accepted="AcceptedWithWarnings"), ["AcceptedWithWarnings"], id="warned"
        ),
        pytest.param(DONE, {**DONE, "stableRevision": "chat-a1"}, ["RevisionStable"], id="a revision is stable"),
        pytest.param(
            {**BROKEN, "lastFailure": {"reason": "ModelLoadFailed", "message": "m", "time": "1"}},
            {**BROKEN, "lastFailure": {"reason": "ModelLoadFailed", "message": "m", "time": "2"}},
            ["ModelLoadFailed"],
            id="the same failure once more",
        ),
        pytest.param(
            DONE, {**DONE, "lastFailure": {"reason": "OutOfMemory", "message": "m", "time": "1"}}, ["OutOfMemory"],
            id="a failure that nobody saw while it lasted",
        ),
        pytest.param({**DONE, "lastFailure": {"reason": "CrashLoop", "time": "1"}}, DONE, [], id="a failure forgotten"),
    ],
)  # fmt: skip
def test_transitions(old: Body, new: Body, expected: list[str]) -> None:
    assert [line.reason for line in story.tell(old, new)] == expected


def test_another_message_alone_is_no_transition() -> None:
    other = {"conditions": [{**one, "message": "2 of 3 replicas are ready"} for one in NEW["conditions"]]}
    assert story.tell(NEW, other) == []


def test_of_a_fault_the_cause_is_told_without_figures_before_it() -> None:
    (line,) = story.tell(LOADING, BROKEN)
    assert line.message == "Degraded says ModelLoadFailed"


@pytest.mark.parametrize(
    ("reason", "warning"),
    [
        ("Accepted", False), ("RollingOut", False), ("ModelLoading", False), ("AllReplicasReady", False),
        ("AsExpected", False), ("Stopped", False), ("RevisionStable", False),
        ("CrashLoop", True), ("InsufficientGPU", True), ("QuotaExceeded", True), ("AcceptedWithWarnings", True),
    ],
)  # fmt: skip
def test_what_somebody_should_look_at_is_a_warning(reason: str, warning: bool) -> None:
    (line,) = [line for line in story.tell({}, status(reason, accepted=reason)) if line.reason == reason]
    assert line.warning is warning


def test_an_outage_is_a_warning() -> None:
    assert all(line.warning for line in story.tell(DONE, BROKEN))


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("Accepted", "RollingOut"), ("InvalidSpec", "RollingOut"), ("CrashLoop", "NoReplicaAvailable"),
        ("ModelLoading", "AllReplicasReady"), ("AllReplicasReady", "RevisionStable"), ("AsExpected", "RevisionStable"),
    ],
)  # fmt: skip
def test_what_comes_first_of_one_moment(earlier: str, later: str) -> None:
    order = list(conditions.REASONS)
    assert order.index(earlier) < order.index(later)
