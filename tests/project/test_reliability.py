"""The page that `make test-long` leaves: every test with its result, and the figures that tests recorded."""

import dataclasses
import re
from pathlib import Path

import pytest

from e2e import levels, reliability

JUNIT = """<testsuites><testsuite name="pytest">
<testcase classname="e2e.api.test_drift" name="test_repaired[a|b]" time="12.34">
  <properties><property name="drift" value="100 tries: p50 0.1 s"/></properties></testcase>
<testcase classname="e2e.node.test_x" name="test_y" time="1"><failure message="no"/></testcase>
<testcase classname="e2e.node.test_x" name="test_z" time="0"><skipped message="no"/></testcase>
</testsuite></testsuites>"""


@pytest.fixture
def outcome(tmp_path: Path) -> levels.Outcome:
    report = tmp_path / "report.xml"
    report.write_text(JUNIT)
    return levels.read_outcome("api", status=1, report=report, seconds=1.0, long=True)


def test_every_test_is_named_with_its_result(outcome: levels.Outcome) -> None:
    text = reliability.page({"api": outcome.cases}, machine="2 CPUs")
    assert "## Level api: 1 of 3 passed, 13 s" in text
    assert "| e2e.api.test_drift.test_repaired[a\\|b] | passed | 12.3 |" in text
    assert "| e2e.node.test_x.test_y | failed | 1.0 |" in text
    assert "| e2e.node.test_x.test_z | skipped | 0.0 |" in text
    assert "- `e2e.api.test_drift.test_repaired[a|b]`: 100 tries: p50 0.1 s" in text


def test_the_page_is_read_as_it_was_written(outcome: levels.Outcome) -> None:
    levels_of = {"api": [dataclasses.replace(case, run="2026-01-05, abc") for case in outcome.cases], "node": []}
    text = reliability.page(levels_of, machine="2 CPUs")
    assert reliability.page(reliability.read(text), machine="2 CPUs") == text


def test_a_part_of_a_level_leaves_the_others_results(outcome: levels.Outcome) -> None:
    kept = {"api": [dataclasses.replace(case, run="before") for case in outcome.cases]}
    again = [dataclasses.replace(outcome.cases[1], result="passed", run="today")]
    of_part = reliability.merge(kept, [reliability.Run("api", again, whole=False)])["api"]
    assert [(case.run, case.result) for case in of_part] == [
        ("before", "passed"), ("today", "passed"), ("before", "skipped")
    ]  # fmt: skip
    assert reliability.merge(kept, [reliability.Run("api", again)])["api"] == again


def test_the_page_says_which_checkout_it_speaks_of(tmp_path: Path, outcome: levels.Outcome) -> None:
    file = tmp_path / "page.md"
    reliability.write(file, [reliability.Run("api", outcome.cases)])
    text = file.read_text()
    assert "unknown" not in text
    assert len(re.findall(r"\| \d{4}-\d\d-\d\d, [0-9a-f]{12}", text)) == len(outcome.cases)
    assert "CPUs" in text


@pytest.mark.parametrize(("report", "written"), [(["--report"], True), ([], False)])
def test_it_is_written_only_where_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, report: list[str], written: bool, outcome: levels.Outcome
) -> None:
    monkeypatch.setattr(levels, "lacks", lambda _: "")
    monkeypatch.setattr(levels, "run_level", lambda *_, **__: outcome)
    file = tmp_path / "page.md"
    levels.main(["unit", *([*report, str(file)] if report else [])])
    assert file.exists() is written
