import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster import audit


def event(
    name: str,
    *,
    agent: str = "gptservice-operator/1.2 (linux)",
    verb: str = "patch",
    code: int = 200,
    **target: str,
) -> str:
    reference = {"resource": "deployments", "namespace": "ns", "name": name, **target}
    content: dict[str, Any] = {
        "verb": verb,
        "userAgent": agent,
        "objectRef": reference,
        "responseStatus": {"code": code},
    }
    return json.dumps(content) + "\n"


@pytest.fixture
def log(tmp_path: Path) -> audit.AuditLog:
    (tmp_path / "audit.jsonl").touch()
    return audit.AuditLog(tmp_path / "audit.jsonl")


def append(log: audit.AuditLog, *lines: str) -> None:
    with log.path.open("a") as file:
        file.writelines(lines)


def test_writes_are_told_apart_by_agent_verb_and_object(log: audit.AuditLog) -> None:
    append(
        log,
        event("a"),
        event("a"),
        event("a", subresource="status"),
        event("b"),
        event("a", namespace="other"),
        event("a", verb="delete"),
        event("a", agent="kubectl/v1.36.3"),
    )
    counted = log.count(quiet_seconds=0.01)
    assert sorted(counted.values()) == [1, 1, 1, 1, 1, 2]
    twice = next(write for write, count in counted.items() if count == 2)
    assert (twice.agent, twice.verb, twice.resource, twice.namespace, twice.name) == (
        "gptservice-operator",
        "patch",
        "deployments",
        "ns",
        "a",
    )
    assert {write.resource for write in counted} == {"deployments", "deployments/status"}


def test_refused_writes_count_only_when_asked_for(log: audit.AuditLog) -> None:
    append(log, event("a", code=409), event("b", code=201), event("c", code=403))
    assert [write.name for write in log.writes()] == ["b"]
    assert [write.name for write in log.writes(include_refused=True)] == ["a", "b", "c"]


def test_only_what_follows_a_mark_is_seen(log: audit.AuditLog) -> None:
    append(log, event("before"))
    mark = log.mark(quiet_seconds=0.01)
    assert log.writes(mark) == []
    append(log, event("after"))
    assert [write.name for write in log.writes(mark)] == ["after"]
    assert [write.name for write in log.writes()] == ["before", "after"]


def test_a_line_being_written_is_left_for_later(log: audit.AuditLog) -> None:
    whole = event("whole")
    half = event("half")
    append(log, whole, half[:20])
    mark = log.mark(quiet_seconds=0.01)
    assert [write.name for write in log.writes()] == ["whole"]
    append(log, half[20:])
    assert [write.name for write in log.writes(mark)] == ["half"]


def test_counting_waits_until_the_matching_writes_stand_still(log: audit.AuditLog) -> None:
    append(log, event("first"))

    def write_late() -> None:
        for number in range(5):
            time.sleep(0.05)
            append(log, event(f"late-{number}"))

    writer = threading.Thread(target=write_late)
    writer.start()
    counted = log.count(quiet_seconds=0.4)
    writer.join()
    assert sum(counted.values()) == 6


def test_writes_that_do_not_matter_do_not_delay_the_count(log: audit.AuditLog) -> None:
    append(log, event("ours"))
    stop = threading.Event()

    def write_on() -> None:
        while not stop.wait(0.01):
            append(log, event("node1", agent="kubelet/v1.36.3"))

    writer = threading.Thread(target=write_on)
    writer.start()
    try:
        counted = log.count(
            matching=lambda write: write.agent == "gptservice-operator", quiet_seconds=0.1, limit_seconds=20
        )
        with pytest.raises(TimeoutError, match=r"still growing .* kubelet patch deployments ns/node1"):
            log.count(quiet_seconds=0.1, limit_seconds=0.3)
    finally:
        stop.set()
        writer.join()
    assert [write.name for write in counted] == ["ours"]


def test_an_event_about_no_object_is_no_write(log: audit.AuditLog) -> None:
    append(log, json.dumps({"verb": "create", "userAgent": "x"}) + "\n")
    assert log.writes() == []


def test_a_log_that_does_not_exist_yet_is_empty(tmp_path: Path) -> None:
    log = audit.AuditLog(tmp_path / "none")
    assert log.mark(quiet_seconds=0.01) == audit.START
    assert log.writes() == []
    assert not log.count(quiet_seconds=0.01)


def test_the_summary_puts_the_most_frequent_first(log: audit.AuditLog) -> None:
    append(log, event("once"), event("twice"), event("twice"))
    assert audit.summary(log.writes()) == (
        "2x gptservice-operator patch deployments ns/twice; 1x gptservice-operator patch deployments ns/once"
    )
