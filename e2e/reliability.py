"""The last results of the long tests as a page of documentation: what was tried, on what, and what came out.

The page is its own store: a run replaces the rows of the tests that it ran and keeps the others, each with the date
and the commit that it speaks of. So a level may be run in parts.
"""

from __future__ import annotations

import datetime
import os
import platform
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True)
class Case:
    """One test; `figures` are what it recorded with `record_property`, in words; `run` says when and of what."""

    name: str
    result: str
    seconds: float
    figures: tuple[str, ...] = ()
    run: str = ""


@dataclass(frozen=True)
class Run:
    """One level's tests; `whole` when none of the level was left out."""

    level: str
    cases: Sequence[Case]
    whole: bool = True


HEADER = """\
<!-- Written by `make test-long`. Do not edit. -->
# Reliability

What `make test-long` tries beyond `make test`: the exhaustive matrices, real models, real-time periods. Each row is a
test's last result, with the date and the commit of that run: a level may be run in parts.
"""
_LEVEL = re.compile(r"^## Level (\w+):")
_ROW = re.compile(r"^\| (?P<name>.+?) \| (?P<result>\w+) \| (?P<seconds>[\d.]+) \| (?P<run>[^|]*) \|$")
_FIGURE = re.compile(r"^- `(?P<name>.+?)`: (?P<figure>.+)$")


def page(levels: Mapping[str, Sequence[Case]], *, machine: str) -> str:
    """Return the page in Markdown, with the cases of each level in their order."""
    lines = [HEADER, f"Machine of the last run: {machine}.", ""]
    for level, cases in levels.items():
        passed = sum(case.result == "passed" for case in cases)
        seconds = sum(case.seconds for case in cases)
        lines += [f"## Level {level}: {passed} of {len(cases)} passed, {seconds:.0f} s", ""]
        lines += ["| test | result | seconds | run |", "|---|---|---|---|"]
        lines += [f"| {_cell(c.name)} | {c.result} | {c.seconds:.1f} | {c.run} |" for c in cases]
        figures = [f"- `{case.name}`: {figure}" for case in cases for figure in case.figures]
        lines += ["", *(["Figures, printed by these tests:", "", *figures, ""] if figures else [])]
    return "\n".join(lines).rstrip() + "\n"


def read(text: str) -> dict[str, list[Case]]:
    """Return the cases by level of a page that `page` wrote; rows of another form are left out."""
    levels: dict[str, list[Case]] = {}
    for level, line in _within_levels(text):
        cases = levels.setdefault(level, [])
        if row := _ROW.match(line):
            seconds = float(row["seconds"])
            cases.append(Case(row["name"].replace("\\|", "|"), row["result"], seconds, run=row["run"]))
        elif told := _FIGURE.match(line):
            cases[:] = [
                replace(case, figures=(*case.figures, told["figure"])) if case.name == told["name"] else case
                for case in cases
            ]
    return levels


def merge(kept: Mapping[str, Sequence[Case]], runs: Iterable[Run]) -> dict[str, list[Case]]:
    """Return the kept cases with those of the runs in their place; a whole run leaves none of its level's behind."""
    levels = {level: list(cases) for level, cases in kept.items() if cases}
    for run in runs:
        ran = {case.name for case in run.cases}
        others = [] if run.whole else [case for case in levels.get(run.level, []) if case.name not in ran]
        levels[run.level] = sorted([*others, *run.cases], key=lambda case: case.name)
    return levels


def write(file: Path, runs: Sequence[Run]) -> None:
    """Bring the page up to date with runs of this checkout on this machine."""
    root = Path(__file__).resolve().parent.parent
    commit = _git(root, "rev-parse", "--short=12", "HEAD")
    if _git(root, "status", "--porcelain", "--untracked-files=no"):
        commit += " with changes"
    told = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}, {commit}"
    dated = [replace(run, cases=[replace(case, run=told) for case in run.cases]) for run in runs]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    machine = f"{os.cpu_count()} CPUs, {memory:.0f} GiB, {platform.system()} {platform.machine()}"
    kept = read(file.read_text(encoding="utf-8")) if file.exists() else {}
    file.write_text(page(merge(kept, dated), machine=machine), encoding="utf-8")


def _within_levels(text: str) -> Iterator[tuple[str, str]]:
    level = ""
    for line in text.splitlines():
        if heading := _LEVEL.match(line):
            level = heading[1]
        elif level:
            yield level, line


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else "unknown"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
