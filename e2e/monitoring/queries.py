"""Every query of the dashboards and rules that the chart ships."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from e2e.cluster import paths

FILES = paths.REPOSITORY / "charts" / "gptservice-operator" / "files"
DASHBOARDS = sorted((FILES / "dashboards").glob("*.json"))
RULES = sorted((FILES / "rules").glob("*.yaml"))

# What Grafana puts in the place of its own variables: a time over which counters have grown.
_INTERVALS = {"__rate_interval": "5m", "__interval": "1m", "__range": "1h"}
# `$1` is a group of label_replace, and none of Grafana's.
_VARIABLE = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})")
_LABEL_VALUES = re.compile(r"label_values\((?P<selector>.+), (?P<label>\w+)\)")

Panel = dict[str, Any]


@dataclass(frozen=True)
class Query:
    """One query, and where to find it."""

    file: str
    title: str
    """Of the panel; or the name of the variable or rule."""
    text: str
    """As it is in the file, with Grafana's variables."""

    def filled(self, variables: Mapping[str, str]) -> str:
        """As Prometheus gets it; KeyError for a variable that nobody has given a value."""
        values = {**_INTERVALS, **variables}
        return _VARIABLE.sub(lambda found: values[found[1] or found[2]], self.text)

    def __str__(self) -> str:
        return f"{self.file}, {self.title}"


def dashboard(file: Path) -> dict[str, Any]:
    """What a dashboard's file holds."""
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def panels(board: Mapping[str, Any]) -> list[Panel]:
    """The panels that show something: all but the headings of rows."""
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def of_panels() -> list[Query]:
    """Those of every panel of every dashboard."""
    return [
        Query(file.name, panel["title"], target["expr"])
        for file in DASHBOARDS
        for panel in panels(dashboard(file))
        for target in panel["targets"]
    ]


def of_variables() -> list[Query]:
    """Those that fill the dashboards' lists of namespaces and services, as queries of the values they offer."""
    return [
        Query(file.name, f"variable {variable['name']}", _values(variable["query"]))
        for file in DASHBOARDS
        for variable in dashboard(file)["templating"]["list"]
        if variable["type"] == "query"
    ]


def _values(query: str) -> str:
    found = _LABEL_VALUES.fullmatch(query)
    if found is None:
        raise ValueError(f"{query}: only label_values(SELECTOR, LABEL) is understood here")
    return f"count by ({found['label']}) ({found['selector']})"


def rules() -> Iterator[tuple[Path, dict[str, Any]]]:
    """Every alert and every recording rule, with its file."""
    for file in RULES:
        for group in yaml.safe_load(file.read_text())["groups"]:
            for rule in group["rules"]:
                yield file, rule


def alerts() -> list[dict[str, Any]]:
    """The alerts; one name may be there with several severities."""
    return [rule for _, rule in rules() if "alert" in rule]


def recorded() -> set[str]:
    """Names of the series that the rules themselves make."""
    return {rule["record"] for _, rule in rules() if "record" in rule}


def of_rules() -> list[Query]:
    """Those of every rule."""
    return [Query(file.name, str(rule.get("alert") or rule["record"]), rule["expr"]) for file, rule in rules()]


def all_of_them() -> list[Query]:
    """Of dashboards and rules."""
    return [*of_panels(), *of_variables(), *of_rules()]
