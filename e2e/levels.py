"""Runs test levels one after the other, each in a pytest of its own, and prints one total at the end.

    python -m e2e.levels [--long] [--report FILE] [LEVEL...] [-- PYTEST-ARGUMENT...]

Exits 0 only when something passed and nothing failed. The node level needs root; without it that level is
left out, and the last lines say so.
"""

import argparse
import logging
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from e2e import reliability
from e2e.cluster import binaries, prerequisites, records
from e2e.cluster.images import model, seed
from e2e.reliability import Case
from e2e.sources import gcs, registry, s3

ROOT = Path(__file__).resolve().parent.parent
# The cluster that a level runs on; the node profile needs all that the api profile needs.
PROFILES: dict[str, records.Profile] = {"api": "api", "node": "node"}
NO_TESTS_COLLECTED = 5  # pytest.ExitCode
# Every worker has a cluster of its own, and takes whole files: their tests may share what they make. On a node,
# clusters and engines side by side would only slow each other down.
_BY_FILE = ("--maxprocesses", "4", "--dist", "loadfile")
PARALLEL: dict[str, tuple[str, ...]] = {
    "unit": ("-n", "auto", *_BY_FILE),
    # These wait more than they work.
    "api": ("-n", "4", *_BY_FILE),
    # These share nothing: one file of slow tests need not be waited for at the end.
    "wiring": ("-n", "4", "--maxprocesses", "4", "--dist", "worksteal"),
}
# The other family of reports knows no properties of a test.
_PROPERTIES = ("-o", "junit_family=xunit1")
INTERRUPTED = 130  # as shells say it
# Servers that models are fetched from.
SOURCE_SERVERS = (s3.PROGRAM, gcs.PROGRAM, registry.PROGRAM)
LEVELS = ("unit", "wiring", "api", "node")
NODE_NEEDS_ROOT = (
    "node level left out: it runs a kubelet and containers, which takes root. To add it: sudo make test-node"
)


@dataclass(frozen=True)
class Outcome:
    """What one level came to; `broken` says what went wrong beside single tests, or is empty."""

    level: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    broken: str = ""
    cases: tuple[Case, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.failed and not self.broken

    def __str__(self) -> str:
        counts = f"{self.passed:5} passed {self.failed:4} failed {self.skipped:4} skipped"
        return f"{self.level:8}{counts} {self.seconds:8.1f} s  {self.broken}".rstrip()


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the levels asked for (default: all) and returns the exit status."""
    options = _parse(sys.argv[1:] if arguments is None else list(arguments))
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    asked_for = [level for level in LEVELS if level in (options.levels or LEVELS)]
    levels = [level for level in asked_for if level != "node" or os.geteuid() == 0]
    if lacking := lacks(levels):
        print(lacking, file=sys.stderr)
        return 1
    try:
        outcomes = [run_level(level, long=options.long, extra=options.extra) for level in levels]
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return INTERRUPTED
    print(summary(outcomes, node_left_out=levels != asked_for))
    if options.report is not None:
        runs = [reliability.Run(o.level, o.cases, whole=not options.extra) for o in outcomes if o.cases]
        reliability.write(options.report, runs)
    return 0 if all(o.ok for o in outcomes) and any(o.passed for o in outcomes) else 1


def lacks(levels: Sequence[str]) -> str:
    """What this machine lacks for the levels, and the command that installs it; empty when it lacks nothing."""
    profiles: list[records.Profile] = [PROFILES[level] for level in levels if level in PROFILES]
    # The last is the one that needs the most.
    missing = prerequisites.missing(profiles[-1]) if profiles else []
    return prerequisites.describe(missing, profiles[-1]) if missing else ""


def prepare(level: str) -> None:
    """Builds what the level's clusters are made of; its time counts for no test."""
    if profile := PROFILES.get(level):
        judges = (binaries.KUBECONFORM, binaries.PROMTOOL, binaries.PROMETHEUS)
        binaries.ensure((*binaries.of_profile(profile), binaries.HELM, *judges))
    if level in PROFILES:
        binaries.ensure(SOURCE_SERVERS)
    if level == "node":
        seed.seed()
        model.prepared()


def run_level(level: str, *, long: bool = False, extra: Sequence[str] = ()) -> Outcome:
    """Runs one level's tests; `long` takes the long ones instead of the others."""
    prepare(level)
    print(f"\n== {level} {'(long) ' if long else ''}==", flush=True)
    marker = f"{level} and {'long' if long else 'not long'}"
    with tempfile.TemporaryDirectory(prefix="gptservice-tests-") as folder:
        report = Path(folder) / "junit.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-m", marker, f"--junitxml={report}", *_PROPERTIES]
        command += [*workers(level), *extra]
        started = time.monotonic()
        status = run_to_the_end(command)
        return read_outcome(level, status=status, report=report, seconds=time.monotonic() - started, long=long)


def workers(level: str) -> tuple[str, ...]:
    """How many processes a level's tests are spread over, as pytest's arguments."""
    # A kept cluster is one for all.
    return () if "E2E_CLUSTER" in os.environ else PARALLEL.get(level, ())


def run_to_the_end(command: Sequence[str]) -> int:
    """Runs a command and returns its status; raises KeyboardInterrupt only when the command has ended too."""
    with subprocess.Popen(command, cwd=ROOT) as child:
        try:
            return child.wait()
        except KeyboardInterrupt:
            # A terminal's Ctrl-C went to the command as well, which now takes its clusters down: it must not be killed.
            child.wait()
            raise


def read_outcome(level: str, *, status: int, report: Path, seconds: float, long: bool = False) -> Outcome:
    """Reads pytest's exit status and JUnit report into an outcome; a level may be without long tests."""
    if status == NO_TESTS_COLLECTED:
        return Outcome(level, seconds=seconds, broken="" if long else "no test was found")
    if not report.exists():
        return Outcome(level, seconds=seconds, broken=f"pytest ended with status {status} and left no report")
    found = ElementTree.parse(report).getroot().iter("testcase")  # noqa: S314 (our own pytest wrote it)
    cases = tuple(map(_case, found))
    passed, failed, skipped = (sum(case.result == each for case in cases) for each in ("passed", "failed", "skipped"))
    broken = f"pytest ended with status {status}" if status and not failed else ""
    return Outcome(level, passed, failed, skipped, seconds, broken, cases)


def _case(element: ElementTree.Element) -> Case:
    failed, skipped = _has(element, "failure", "error"), _has(element, "skipped")
    return Case(
        name=f"{element.get('classname', '')}.{element.get('name', '')}",
        result="failed" if failed else "skipped" if skipped else "passed",
        seconds=float(element.get("time", "0")),
        figures=tuple(each.get("value", "") for each in element.iter("property")),
    )


def summary(outcomes: Sequence[Outcome], *, node_left_out: bool = False) -> str:
    """The closing lines: one per level, what was left out and why, and the total."""
    passed, failed = sum(o.passed for o in outcomes), sum(o.failed for o in outcomes)
    skipped, seconds = sum(o.skipped for o in outcomes), sum(o.seconds for o in outcomes)
    total = f"{passed} passed" + (f", {failed} failed" if failed else "") + (f", {skipped} skipped" if skipped else "")
    broken = [f"{o.level}: {o.broken}" for o in outcomes if o.broken]
    lines = ["", "== summary ==", *map(str, outcomes), *([NODE_NEEDS_ROOT] if node_left_out else []), *broken]
    return "\n".join([*lines, f"{total} in {seconds:.0f} s"])


def _has(case: ElementTree.Element, *tags: str) -> bool:
    return any(case.find(tag) is not None for tag in tags)


def _parse(arguments: list[str]) -> argparse.Namespace:
    extra: list[str] = []
    if "--" in arguments:
        at = arguments.index("--")
        arguments, extra = arguments[:at], arguments[at + 1 :]
    parser = argparse.ArgumentParser(prog="python -m e2e.levels", description="run test levels, print one total")
    parser.add_argument("levels", nargs="*", metavar="LEVEL", help=f"some of {', '.join(LEVELS)} (default: all)")
    parser.add_argument("--long", action="store_true", help="run the long tests instead of the others")
    parser.add_argument("--report", type=Path, metavar="FILE", help="bring a page in Markdown up to date")
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.levels) - set(LEVELS)):
        parser.error(f"no such level: {', '.join(unknown)} (choose from {', '.join(LEVELS)})")
    options.extra = extra
    return options


if __name__ == "__main__":
    sys.exit(main())
