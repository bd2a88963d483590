"""The total that `make test` prints, and the exit status it ends with."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from e2e import levels

JUNIT = """<testsuites><testsuite name="pytest">
<testcase name="good"/><testcase name="also good"/>
<testcase name="bad"><failure message="no"/></testcase>
<testcase name="bad set-up"><error message="no"/></testcase>
<testcase name="left out"><skipped message="no"/></testcase>
</testsuite></testsuites>"""


@pytest.fixture(autouse=True)
def a_machine_that_lacks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(levels, "lacks", lambda _: "")


def outcome(tmp_path: Path, *, status: int, junit: str | None = None, long: bool = False) -> levels.Outcome:
    report = tmp_path / "report.xml"
    if junit is not None:
        report.write_text(junit)
    return levels.read_outcome("api", status=status, report=report, seconds=1.0, long=long)


def test_counts_come_from_the_report(tmp_path: Path) -> None:
    read = outcome(tmp_path, status=1, junit=JUNIT)
    assert (read.passed, read.failed, read.skipped, read.broken) == (2, 2, 1, "")
    assert not read.ok


@pytest.mark.parametrize(
    ("status", "junit", "long", "ok"),
    [
        pytest.param(0, "<testsuite><testcase/></testsuite>", False, True, id="all passed"),
        pytest.param(5, "<testsuite/>", False, False, id="no test was found"),
        pytest.param(5, "<testsuite/>", True, True, id="a level may have no long tests"),
        pytest.param(3, None, False, False, id="pytest broke before it wrote a report"),
        pytest.param(2, "<testsuite><testcase/></testsuite>", False, False, id="interrupted after a good test"),
    ],
)
def test_a_level_is_good_only_when_pytest_says_so(
    tmp_path: Path, *, status: int, junit: str | None, long: bool, ok: bool
) -> None:
    assert outcome(tmp_path, status=status, junit=junit, long=long).ok is ok


def test_the_last_line_is_the_total_over_all_levels() -> None:
    text = levels.summary([levels.Outcome("unit", 40, seconds=2), levels.Outcome("api", 2, failed=1, seconds=3)])
    assert text.splitlines()[-1] == "42 passed, 1 failed in 5 s"


def test_without_root_the_node_level_is_left_out_and_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[str] = []

    def run_level(level: str, **_: object) -> levels.Outcome:
        ran.append(level)
        return levels.Outcome(level, passed=1)

    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(levels, "run_level", run_level)
    assert levels.main([]) == 0
    assert ran == ["unit", "wiring", "api"]
    assert levels.NODE_NEEDS_ROOT in capsys.readouterr().out


def test_only_the_node_level_without_root_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert levels.main(["node"]) == 1


def test_nothing_runs_while_a_prerequisite_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[list[str]] = []

    def lacks(wanted: list[str]) -> str:
        asked.append(wanted)
        return "missing: go. Install it with apt-get install golang-go"

    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(levels, "lacks", lacks)
    monkeypatch.setattr(levels, "run_level", lambda *_, **__: pytest.fail("a level ran"))
    assert levels.main([]) == 1
    assert "apt-get install golang-go" in capsys.readouterr().err
    assert asked == [["unit", "wiring", "api"]], "what only the node level needs is not asked of a user without root"


def test_ctrl_c_waits_for_what_pytest_has_to_clean_up(tmp_path: Path) -> None:
    cleaned = tmp_path / "cleaned"
    child = f"""
import pathlib, signal, time
try:
    print("runs", flush=True)
    signal.pause()
except KeyboardInterrupt:
    time.sleep(2)
    pathlib.Path({str(cleaned)!r}).touch()
"""
    parent = f"""
import sys
from e2e import levels
levels.prepare, levels.lacks = lambda _: None, lambda _: ""
levels.run_level = lambda *_, **__: levels.run_to_the_end([sys.executable, "-c", {child!r}])
sys.exit(levels.main(["unit"]))
"""
    with subprocess.Popen(
        [sys.executable, "-c", parent], stdout=subprocess.PIPE, cwd=levels.ROOT, start_new_session=True
    ) as run:
        assert run.stdout
        run.stdout.readline()
        os.killpg(run.pid, signal.SIGINT)  # as a terminal does
        assert run.wait(timeout=30) == levels.INTERRUPTED
    assert cleaned.exists()


def test_a_failing_test_makes_the_run_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    results = {
        "unit": levels.Outcome("unit", passed=5),
        "wiring": levels.Outcome("wiring", passed=5, failed=1),
    }
    monkeypatch.setattr(levels, "run_level", lambda level, **_: results[level])
    assert levels.main(["unit"]) == 0
    assert levels.main(["unit", "wiring"]) == 1
