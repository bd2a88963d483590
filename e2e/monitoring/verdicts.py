"""Whether what the dashboards and rules ask for is there, judged by a Prometheus that has scraped the real programs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from e2e.monitoring import dcgm, prometheus, queries
from e2e.monitoring.prometheus import Node, Prometheus, QueryError

_COMPARISONS = {"==", "!=", ">", "<", ">=", "<="}


def faults(asked: Prometheus, variables: Mapping[str, Mapping[str, str]]) -> list[str]:
    """What is wrong with the queries, one line each.

    Args:
        asked: has scraped the operator and a service's pod that has answered requests.
        variables: for each dashboard's file, what a person has chosen.
    """
    names = asked.names() | queries.recorded() | dcgm.NAMES
    labels = asked.label_names() | {"__name__", dcgm.LABEL}
    found: list[str] = []
    for query in queries.all_of_them():
        text = query.filled(variables.get(query.file, {}))
        try:
            found += [f"{query}: {fault}" for fault in _faults(asked, text, names, labels)]
        except QueryError as error:
            found.append(f"{query}: {error}")
    return found


def silent(asked: Prometheus, variables: Mapping[str, Mapping[str, str]]) -> set[str]:
    """Titles of the panels of which a line is empty."""
    return {
        query.title for query in queries.of_panels() if not asked.series(query.filled(variables.get(query.file, {})))
    }


def _faults(asked: Prometheus, text: str, names: set[str], labels: set[str]) -> Iterator[str]:
    tree = asked.parsed(text)
    selected = list(prometheus.selectors(tree))
    for name in sorted({selector["name"] for selector in selected} - names):
        yield f"there is no metric {name}"
    for label in sorted(prometheus.labels_named(tree) - labels):
        yield f"no metric has the label {label}"
    # Nothing is wrong with an empty answer where what is selected has not happened yet.
    if not asked.series(text) and not _compares(tree) and all(asked.series(_text(one)) for one in selected):
        yield f"what it selects is there, and yet the answer is empty: {text}"


def _compares(tree: Node) -> bool:
    """Whether a query leaves out what is not above or below something."""
    return any(part.get("op") in _COMPARISONS and not part["bool"] for part in prometheus.parts(tree))


def _text(selector: Node) -> str:
    """A selector by itself."""
    return "{" + ",".join(f"{m['name']}{m['type']}{json.dumps(m['value'])}" for m in selector["matchers"]) + "}"
