"""The parts of `make bench-operator` that count and compare."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from e2e.bench import requests
from e2e.bench.bench_operator import growth
from e2e.bench.figures import OURS, REFERENCE, Bar, Row, Runs, percentile, slope, table
from e2e.bench.subjects import SOURCES
from e2e.cluster import binaries

USER = requests.account("system", "operator")


def event(number: int, verb: str, resource: str, name: str = "", *, at: float = 0.0, **more: Any) -> str:
    resource, _, subresource = resource.partition("/")
    target = {"resource": resource, "subresource": subresource, "namespace": "ns", "name": name}
    content = {
        "auditID": str(number),
        "verb": verb,
        "user": {"username": more.get("user", USER)},
        "userAgent": more.get("agent", "operator/1"),
        "objectRef": target if resource else None,
        "responseStatus": {"code": more.get("code", 200)},
        "requestReceivedTimestamp": f"2026-01-01T00:00:{at:09.6f}Z",
        "stageTimestamp": f"2026-01-01T00:00:{at + 0.25:09.6f}Z",
    }
    return json.dumps(content) + "\n"


def read(tmp_path: Path, *lines: str) -> list[requests.Request]:
    (tmp_path / "log").write_text("".join(lines))
    return list(requests.Reader(tmp_path / "log").read())


def test_requests_are_counted_by_what_they_are_for(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        event(1, "list", "deployments"),
        event(2, "watch", "deployments"),
        event(2, "watch", "deployments"),  # its end
        event(3, "patch", "deployments", "a"),
        event(4, "patch", "configmaps", "a", code=403),
        event(5, "patch", "gptservices/status", "a"),
        event(6, "create", "events", code=201),
        event(7, "update", "leases"),
        event(8, "get", ""),
        event(9, "create", "ipaddresses", user=requests.API_SERVER),
    )
    counts = requests.count(found, USER)
    assert (counts.requests, counts.leases, counts.writes) == (7, 1, 3)
    assert (counts.children, counts.status, counts.events) == (1, 1, 1)
    assert counts.by_kind == {"deployments": 3, "configmaps": 1, "gptservices": 1, "events": 1, "": 1}
    assert requests.count(found, requests.API_SERVER).children == 1


def test_a_log_is_followed_while_it_grows(tmp_path: Path) -> None:
    path, (first, second) = tmp_path / "log", (event(1, "get", "pods"), event(2, "get", "pods"))
    path.write_text(first + second[:20])
    reader = requests.Reader(path)
    assert [one.id for one in reader.read()] == ["1"]
    path.write_text(first + second)
    assert [one.id for one in reader.read()] == ["1", "2"]


def test_the_last_write_is_neither_an_event_nor_of_the_lease(tmp_path: Path) -> None:
    lines = [
        event(1, "patch", "services", "a", at=1),
        event(2, "create", "events", at=2),
        event(3, "get", "pods", at=3),
    ]
    found = read(tmp_path, *lines, event(4, "update", "leases", at=4))
    first = found[0]
    assert requests.last_write(found, USER) == first.answered == first.received + 0.25
    assert requests.last_write(found, "another") is None


def edited(number: int, name: str, at: float) -> str:
    return event(number, "patch", "gptservices", name, at=at, user="admin", agent="editor/1")


def test_each_edit_is_paired_with_the_next_write_of_its_own_child(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        event(1, "patch", "configmaps", "a-limits", at=0),  # before the edit
        edited(2, "a", at=1),
        edited(3, "b", at=2),
        event(4, "patch", "configmaps", "b-limits", at=2.5),
        event(5, "patch", "configmaps", "a-limits", at=3),
    )
    delays = requests.delays(found, editor="editor", user=USER, resource="configmaps", suffix="-limits")
    assert delays == pytest.approx([2.25, 0.75])


def test_an_edit_without_a_write_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="edit of ns/a"):
        requests.delays(read(tmp_path, edited(1, "a", 1)), editor="editor", user=USER, resource="x", suffix="")


@pytest.mark.parametrize(("percent", "value"), [(50, 50), (99, 99), (100, 100), (0, 1)])
def test_percentiles_are_values_that_were_seen(percent: float, value: float) -> None:
    assert percentile([float(number) for number in range(100, 0, -1)], percent) == value


def test_there_is_no_percentile_of_nothing() -> None:
    with pytest.raises(ValueError, match="no values"):
        percentile([], 50)


def test_the_slope_is_that_of_the_line() -> None:
    assert slope([(0, 5), (10, 25), (20, 45)]) == pytest.approx(2)
    assert slope([(0, 5)]) == 0


def test_the_reference_is_formatted() -> None:
    go = binaries.go_command()
    if go is None:
        pytest.skip("no Go")
    found = subprocess.run([go.parent / "gofmt", "-l", "."], cwd=SOURCES, capture_output=True, text=True, check=True)
    assert found.stdout == ""


def runs(ours: list[float], theirs: list[float]) -> Runs:
    found = Runs()
    for operator, values in ((OURS, ours), (REFERENCE, theirs)):
        for value in values:
            found.add(operator, {"x": value})
    return found


def test_a_ratio_is_one_of_medians() -> None:
    assert runs([3, 900, 1], [2, 2, 0]).ratio("x") == 1.5
    assert runs([3], []).ratio("x") is None
    assert runs([3], [0]).ratio("x") is None


@pytest.mark.parametrize(
    ("bar", "verdict"),
    [
        (Bar(), ""),
        (Bar(most=8), "<= 8: met"),
        (Bar(most=5), "<= 5: MISSED"),
        (Bar(most=8, ratio=2), "<= 8 and <= 2 x reference: MISSED"),
        (Bar(ratio=3), "<= 3 x reference: met"),
        (Bar(ratio=2, plus=2), "<= 2 x reference + 2: met"),
        (Bar(ratio=2, plus=1.5), "<= 2 x reference + 1.5: MISSED"),
        (Bar(of="x", times=1.2), "<= 1.2 x 6: met"),
        (Bar(of="x", times=0.5), "<= 0.5 x 6: MISSED"),
        (Bar(of="y", times=2), ""),
    ],
)
def test_a_bar_is_met_if_all_that_it_asks_for_is(bar: Bar, verdict: str) -> None:
    assert bar.verdict(runs([6], [2]), "x") == verdict


def test_without_a_reference_the_bar_says_nothing_of_it() -> None:
    assert Bar(ratio=2).verdict(runs([6], []), "x") == ""


def test_the_table_leaves_out_what_was_not_measured() -> None:
    lines = table([Row("x", "seconds", Bar(ratio=1)), Row("y", "nothing")], runs([1.2345], [2]))
    assert lines[2:] == ["| seconds | 1.23 | 2 | 0.617 | <= 1 x reference: met |"]


def test_what_more_services_cost_is_held_against_fewer() -> None:
    few, many = Runs(), Runs()
    few.add(OURS, {"create_s": 10, "peak_rss_mib": 100})
    many.add(OURS, {"create_s": 34, "peak_rss_mib": 200})
    assert list(growth(1000, few, 3000, many)) == [
        "3000 services: 34.0 s, 3.40 x of 1000; <= 3.3 x: MISSED",
        "3000 services: 200 MiB, 51 KiB for each further; <= 60 KiB: met",
    ]
