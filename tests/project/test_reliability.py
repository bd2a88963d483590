"""The page that `make test-long` leaves: every test with its result, and the figures that tests recorded."""

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
    text = reliability.page([reliability.Run("api", outcome.cases)], commit="abc", date="2026-01-05", machine="2 CPUs")
    assert "Date: 2026-01-05. Commit: abc. Machine: 2 CPUs." in text
    assert "## Level api: 1 of 3 passed, 13 s" in text
    assert "| e2e.api.test_drift.test_repaired[a\\|b] | passed | 12.3 |" in text
    assert "| e2e.node.test_x.test_y | failed | 1.0 |" in text
    assert "| e2e.node.test_x.test_z | skipped | 0.0 |" in text
    assert "- 100 tries: p50 0.1 s" in text


def test_a_choice_of_tests_is_said(outcome: levels.Outcome) -> None:
    runs = [reliability.Run("api", outcome.cases)]
    told = reliability.page(runs, commit="abc", date="2026-01-05", machine="2 CPUs", left_out="-k 'not demo'")
    assert "Not everything was run: the tests were chosen by `-k 'not demo'`." in told
    assert "Not everything" not in reliability.page(runs, commit="abc", date="2026-01-05", machine="2 CPUs")


def test_the_page_says_which_checkout_it_speaks_of(tmp_path: Path, outcome: levels.Outcome) -> None:
    file = tmp_path / "page.md"
    reliability.write(file, [reliability.Run("api", outcome.cases)])
    text = file.read_text()
    assert "Commit: unknown" not in text
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
