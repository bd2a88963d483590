"""The result of a run of the test levels as a page of documentation: what was tried, on what, and what came out."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Case:
    """One test; `figures` are what it recorded with `record_property`, in words."""

    name: str
    result: str
    seconds: float
    figures: tuple[str, ...] = ()


@dataclass(frozen=True)
class Run:
    """One level's tests."""

    level: str
    cases: Sequence[Case]


HEADER = """\
<!-- Written by `make test-long`. Do not edit. -->
# Reliability

What `make test-long` tries beyond `make test`: the exhaustive matrices, real models, real-time periods. This is its
last run.
"""


def page(runs: Sequence[Run], *, commit: str, date: str, machine: str, left_out: str = "") -> str:
    """Return the page in Markdown; `left_out` are pytest's arguments by which tests were chosen, if any were."""
    lines = [HEADER, f"Date: {date}. Commit: {commit}. Machine: {machine}.", ""]
    lines += [f"Not everything was run: the tests were chosen by `{left_out}`.", ""] if left_out else []
    for run in runs:
        passed = sum(case.result == "passed" for case in run.cases)
        seconds = sum(case.seconds for case in run.cases)
        lines += [f"## Level {run.level}: {passed} of {len(run.cases)} passed, {seconds:.0f} s", ""]
        lines += ["| test | result | seconds |", "|---|---|---|"]
        lines += [f"| {_cell(case.name)} | {case.result} | {case.seconds:.1f} |" for case in run.cases]
        figures = [f"- {figure}" for case in run.cases for figure in case.figures]
        lines += ["", *(["Figures, printed by these tests:", "", *figures, ""] if figures else [])]
    return "\n".join(lines).rstrip() + "\n"


def write(file: Path, runs: Sequence[Run], *, left_out: str = "") -> None:
    """Write the page of this checkout and machine."""
    root = Path(__file__).resolve().parent.parent
    commit = _git(root, "rev-parse", "--short=12", "HEAD")
    if _git(root, "status", "--porcelain", "--untracked-files=no"):
        commit += " with changes"
    date = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    machine = f"{os.cpu_count()} CPUs, {memory:.0f} GiB, {platform.system()} {platform.machine()}"
    text = page(runs, commit=commit, date=date, machine=machine, left_out=left_out)
    file.write_text(text, encoding="utf-8")


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else "unknown"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
