"""What many runs come to: medians, percentiles, ratios, and whether they are within their bars."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

OURS = "operator"
REFERENCE = "reference"


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that at least `percent` of 100 values do not exceed; raises ValueError for none."""
    if not values:
        raise ValueError("no values")
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]


def slope(points: Sequence[tuple[float, float]]) -> float:
    """How much the second value grows for each unit of the first: the least-squares line; 0 for fewer than two."""
    if len(points) < 2:
        return 0.0
    return statistics.linear_regression(*zip(*points, strict=True)).slope


@dataclass
class Runs:
    """All that was measured, of one size: a list of values for each figure and operator, one of each run."""

    values: dict[str, dict[str, list[float]]] = field(default_factory=dict[str, dict[str, list[float]]])

    def add(self, operator: str, figures: Mapping[str, float]) -> None:
        """Take in one run of one operator."""
        for name, value in figures.items():
            self.values.setdefault(name, {}).setdefault(operator, []).append(value)

    def median(self, name: str, operator: str) -> float | None:
        """The median over the runs; None where it was not measured."""
        found = self.values.get(name, {}).get(operator)
        return statistics.median(found) if found else None

    def ratio(self, name: str) -> float | None:
        """The operator's median in units of the reference's; None where one of both lacks or is 0."""
        ours, theirs = self.median(name, OURS), self.median(name, REFERENCE)
        return ours / theirs if ours is not None and theirs else None


@dataclass(frozen=True)
class Bar:
    """What a figure must not exceed: a value of its own, a multiple of the reference's, or of another of its own."""

    most: float | None = None
    ratio: float | None = None
    plus: float = 0.0
    """What comes on top of the multiple."""
    of: str = ""
    """Another figure, of which this one is to be at most `times`."""
    times: float = 0.0

    def verdict(self, runs: Runs, name: str) -> str:
        """The bar and whether it is met, for people; empty if it was not measured."""
        ours = runs.median(name, OURS)
        if ours is None:
            return ""
        parts: list[tuple[bool, str]] = []
        if self.most is not None:
            parts.append((ours <= self.most, f"<= {self.most:g}"))
        if self.ratio is not None and (theirs := runs.median(name, REFERENCE)):
            plus = f" + {self.plus:g}" if self.plus else ""
            parts.append((ours <= self.ratio * theirs + self.plus, f"<= {self.ratio:g} x reference{plus}"))
        if self.of and (other := runs.median(self.of, OURS)) is not None:
            parts.append((ours <= self.times * other, f"<= {self.times:g} x {other:.4g}"))
        if not parts:
            return ""
        return f"{' and '.join(text for _, text in parts)}: {'met' if all(met for met, _ in parts) else 'MISSED'}"


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    name: str
    text: str
    bar: Bar = Bar()


def table(rows: Sequence[Row], runs: Runs) -> list[str]:
    """The lines of a table in Markdown; what was not measured is left out."""
    lines = ["| figure | operator | reference | ratio | bar |", "| --- | ---: | ---: | ---: | --- |"]
    for row in rows:
        ours, theirs, ratio = (runs.median(row.name, OURS), runs.median(row.name, REFERENCE), runs.ratio(row.name))
        if ours is None and theirs is None:
            continue
        cells = [row.text, _number(ours), _number(theirs), _number(ratio), row.bar.verdict(runs, row.name)]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.0f}" if abs(value) >= 100 or value == round(value) else f"{value:.3g}"
