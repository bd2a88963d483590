from __future__ import annotations

from typing import Any

import pytest

from e2e.proxy.faults import (
    Action,
    Countdown,
    EventAction,
    EventRule,
    Match,
    event_rule_from_json,
    rule_from_json,
)
from e2e.proxy.target import Target

APPLY = Target(verb="apply", resource="deployments", namespace="ns", name="gpt")


@pytest.mark.parametrize(
    ("nth", "times", "expected"),
    [
        pytest.param(1, 1, [True, False, False, False], id="first"),
        pytest.param(3, 1, [False, False, True, False], id="third"),
        pytest.param(2, 2, [False, True, True, False], id="second and third"),
        pytest.param(2, None, [False, True, True, True], id="from the second on"),
    ],
)
def test_countdown(nth: int, times: int | None, expected: list[bool]) -> None:
    countdown = Countdown(nth=nth, times=times)
    assert [countdown.picks() for _ in range(4)] == expected
    assert (countdown.seen, countdown.fired) == (4, sum(expected))


def test_countdown_starts_at_one() -> None:
    with pytest.raises(ValueError, match="nth must be at least 1"):
        Countdown(nth=0)


@pytest.mark.parametrize(
    ("match", "target", "agent", "expected"),
    [
        pytest.param(Match(), APPLY, "op/1", True, id="any write"),
        pytest.param(Match(), Target(verb="list", resource="pods"), "op/1", False, id="not a read"),
        pytest.param(Match(), Target(verb="update", resource="leases"), "op/1", False, id="not a lease"),
        pytest.param(Match(), Target(verb="create", resource="events"), "op/1", False, id="not an event"),
        pytest.param(
            Match(resource="events"), Target(verb="create", resource="events"), "op/1", True, id="named event"
        ),
        pytest.param(Match(verbs=frozenset({"list"})), Target(verb="list", resource="pods"), "", True, id="a read"),
        pytest.param(Match(resource="services"), APPLY, "", False, id="other resource"),
        pytest.param(Match(namespace="other"), APPLY, "", False, id="other namespace"),
        pytest.param(Match(name="other"), APPLY, "", False, id="other name"),
        pytest.param(Match(subresource="status"), APPLY, "", False, id="other subresource"),
        pytest.param(Match(subresource=""), APPLY, "", True, id="no subresource"),
        pytest.param(Match(user_agent="op/"), APPLY, "op/1", True, id="agent prefix"),
        pytest.param(Match(user_agent="op/"), APPLY, "kubectl", False, id="other agent"),
    ],
)
def test_match(match: Match, target: Target, agent: str, expected: bool) -> None:
    assert match(target, agent) is expected


def event(kind: str = "MODIFIED", name: str = "gpt") -> dict[str, Any]:
    return {"type": kind, "object": {"metadata": {"name": name, "namespace": "ns"}}}


@pytest.mark.parametrize(
    ("rule", "seen", "expected"),
    [
        pytest.param({}, event(), True, id="any"),
        pytest.param({}, event("BOOKMARK"), False, id="not a bookmark"),
        pytest.param({"types": frozenset({"BOOKMARK"})}, event("BOOKMARK"), True, id="a bookmark"),
        pytest.param({"resource": "pods"}, event(), False, id="other resource"),
        pytest.param({"name": "other"}, event(), False, id="other name"),
        pytest.param({"namespace": "other"}, event(), False, id="other namespace"),
        pytest.param({"types": frozenset({"DELETED"})}, event("DELETED"), True, id="deleted"),
        pytest.param({"name": "x"}, {"type": "MODIFIED", "object": {}}, False, id="no metadata"),
    ],
)
def test_event_rule(rule: dict[str, Any], seen: dict[str, Any], expected: bool) -> None:
    assert EventRule(action=EventAction.DROP, **rule).accepts("deployments", seen) is expected


def test_rules_from_json() -> None:
    rule = rule_from_json(
        {"fault": {"action": "answer", "code": 429, "retry_after": 1}, "match": {"verbs": ["list"]}, "nth": 2}
    )
    assert (rule.fault.action, rule.fault.code, rule.fault.retry_after) == (Action.ANSWER, 429, 1)
    assert (rule.match.verbs, rule.nth) == (frozenset({"list"}), 2)
    watch = event_rule_from_json({"action": "drop", "types": ["DELETED"], "times": None})
    assert (watch.action, watch.types, watch.times) == (EventAction.DROP, frozenset({"DELETED"}), None)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param({"fault": {"action": "explode"}}, id="unknown action"),
        pytest.param({"fault": {"action": "drop", "colour": "red"}}, id="unknown key"),
    ],
)
def test_refuses_unknown_rules(data: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError)):
        rule_from_json(data)


def picked(rule: Countdown) -> list[int]:
    return [number for number in range(200) if rule.picks()]


def test_a_rate_picks_about_so_many_and_the_same_ones_again() -> None:
    first = picked(Countdown(times=None, rate=0.1, seed=7))
    assert 5 <= len(first) <= 40
    assert first == picked(Countdown(times=None, rate=0.1, seed=7))
    assert first != picked(Countdown(times=None, rate=0.1, seed=8))


@pytest.mark.parametrize("rate", [0, 1.5, -1])
def test_a_rate_is_a_probability(rate: float) -> None:
    with pytest.raises(ValueError, match="rate must be above 0 and at most 1"):
        Countdown(rate=rate)
