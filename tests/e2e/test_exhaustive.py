"""The oracles of the runs under faults see what they are for, and a sample is the same each time."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.api.exhaustive import faults, oracles
from e2e.api.exhaustive.faults import AT_A_WRITE, AT_AN_EVENT, KILLS, LOST
from e2e.proxy.log import Entry, RequestLog
from e2e.proxy.target import Target

DEPLOYMENT = ("deployments", "gpt")
BUDGET = ("poddisruptionbudgets", "gpt")


def entry(verb: str, resource: str, name: str = "gpt", **fields: Any) -> Entry:
    target = Target(verb=verb, resource=resource, namespace="ns", name=name)
    made = RequestLog().open_entry(method="PATCH", path="/", query="", user_agent="", target=target)
    for field, value in {"code": 200, "forwarded": True, **fields}.items():
        setattr(made, field, value)
    return made


def says_ready(generation: int = 2, status: str = "True", **fields: Any) -> Entry:
    condition = {"type": "Ready", "status": status, "observedGeneration": generation}
    return entry("status", "gptservices", sent={"status": {"conditions": [condition]}}, **fields)


def key(code: int) -> Entry:
    return entry("create", "secrets", name="", code=code)


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        pytest.param(
            [entry("apply", "deployments"), entry("apply", "poddisruptionbudgets"), says_ready()], "", id="good"
        ),
        pytest.param(
            [entry("apply", "deployments"), says_ready()], "said Ready before", id="Ready before all was made"
        ),
        pytest.param([says_ready(1), says_ready(status="False")], "", id="Ready of an older generation, or not"),
        pytest.param(
            [entry("apply", "deployments"), entry("apply", "poddisruptionbudgets", forwarded=False), says_ready()],
            "said Ready before",
            id="a write that never arrived",
        ),
        pytest.param([entry("delete", "deployments")], "deleted ('deployments', 'gpt')", id="a deletion"),
        pytest.param([entry("delete", "deployments", forwarded=False)], "", id="a deletion that never arrived"),
        pytest.param([entry("delete", "services")], "", id="a deletion that was asked for"),
        pytest.param([key(201), key(409)], "", id="one key"),
        pytest.param([key(201), key(201)], "made a key twice", id="two keys"),
    ],
)
def test_complaints(entries: list[Entry], said: str) -> None:
    told = oracles.complaints(entries=entries, new={DEPLOYMENT, BUDGET}, may_delete={("services", "gpt")}, generation=2)
    assert bool(told) == bool(said)
    assert said in "".join(told)


def test_every_fault_is_tried_at_every_write_and_event() -> None:
    trials = faults.every(3, 8)
    assert len(set(trials)) == len(trials) == 3 * (len(AT_A_WRITE) + len(KILLS)) + 8 * 2
    assert {trial.number for trial in trials if trial.fault is LOST} == set(range(1, 9))
    assert {trial.fault for trial in trials if trial.at == "event"} == {*AT_AN_EVENT, LOST}
    assert len({str(trial) for trial in trials}) == len(trials), "a failure names its fault"


def test_a_sample_has_some_of_each_sort_and_is_the_same_each_time() -> None:
    trials = faults.every(5, 9)
    chosen = faults.sample(trials, "create")
    assert chosen == faults.sample(trials, "create") != faults.sample(trials, "scale up")
    assert [trial.kills for trial in chosen].count(True) == 1
    assert {trial.at for trial in chosen} == {"write", "event"}


def test_a_scenario_without_writes_has_its_events_tried() -> None:
    assert len(faults.sample(faults.every(0, 9), "delete")) == 4
    assert faults.sample([], "delete while down") == []
