"""A real Prometheus that scrapes what a test names, with the chart's rules loaded."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from e2e.cluster import binaries
from e2e.kube import wait_until
from e2e.monitoring import queries
from e2e.sources import programs

SCRAPE_SECONDS = 2

Node = Mapping[str, Any]
"""A part of a query as Prometheus has parsed it."""


class QueryError(Exception):
    """Prometheus refused a query; the message is what it said."""


@dataclass(frozen=True)
class Target:
    """What is scraped, and what a PodMonitor would put on it."""

    address: str
    """Host and port; the path is /metrics."""
    labels: Mapping[str, str]


@dataclass(frozen=True)
class Prometheus:
    """A running one."""

    url: str

    def series(self, query: str) -> list[dict[str, Any]]:
        """What a query gives now, a series each; QueryError if it is refused."""
        found: list[dict[str, Any]] = self._ask("query", query=query)["result"]
        return found

    def parsed(self, query: str) -> Node:
        """A query's tree; QueryError if it is none."""
        tree: Node = self._ask("parse_query", query=query)
        return tree

    def names(self) -> set[str]:
        """Names of all series, and of those that the pages only describe: what has not happened has no sample."""
        found = set(self._ask("label/__name__/values"))
        for name, descriptions in self._ask("metadata").items():
            several = descriptions[0]["type"] in ("histogram", "summary")
            found |= {name, *(f"{name}_{part}" for part in ("bucket", "sum", "count") if several)}
        return found

    def label_names(self) -> set[str]:
        """Names of all labels."""
        return set(self._ask("labels"))

    def is_ready(self) -> bool:
        """Whether it answers queries; it listens before that."""
        try:
            urllib.request.urlopen(f"{self.url}/-/ready", timeout=programs.HANG_SECONDS).close()  # noqa: S310 - our own
        except urllib.error.HTTPError:
            return False
        return True

    def rule_errors(self) -> dict[str, str]:
        """What was wrong when a rule was last evaluated, by its name; AssertionError if one never is."""
        wait_until(self._rules, _are_evaluated, "every rule to be evaluated", timeout=programs.HANG_SECONDS)
        return {rule["name"]: rule["lastError"] for rule in self._rules() if rule["health"] != "ok"}

    def wait_scraped_twice(self, count: int) -> None:
        """Return once each of so many targets was scraped twice, so that rates have a value; AssertionError if not.

        A scrape that failed, of a page that came too late, counts for nothing.
        """
        twice = "sum_over_time(up[10m]) >= 2"
        what = f"{count} targets to be scraped twice"
        wait_until(lambda: len(self.series(twice)), lambda seen: seen == count, what, timeout=programs.HANG_SECONDS)

    def _rules(self) -> list[dict[str, Any]]:
        return [rule for group in self._ask("rules")["groups"] for rule in group["rules"]]

    def _ask(self, path: str, **parameters: str) -> Any:
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=programs.HANG_SECONDS) as answer:  # noqa: S310 - our own
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise QueryError(f"{parameters.get('query', path)}: {json.load(error)['error']}") from error


@contextmanager
def scraping(targets: Sequence[Target], folder: Path) -> Iterator[Prometheus]:
    """Run it while the context is open, on the loopback; its data are in the folder."""
    address = f"127.0.0.1:{programs.free_port()}"
    configuration = {
        "global": {
            "scrape_interval": f"{SCRAPE_SECONDS}s",
            "scrape_timeout": f"{SCRAPE_SECONDS}s",
            "evaluation_interval": f"{SCRAPE_SECONDS}s",
        },
        "rule_files": [str(file) for file in queries.RULES],
        "scrape_configs": [
            {
                "job_name": "pods",
                "static_configs": [{"targets": [one.address], "labels": dict(one.labels)} for one in targets],
            }
        ],
    }
    file = folder / "prometheus.yaml"
    file.write_text(json.dumps(configuration))  # which is YAML too
    program = binaries.ensure([binaries.PROMETHEUS])[binaries.PROMETHEUS]
    options = [f"--config.file={file}", f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address={address}"]
    running = Prometheus(f"http://{address}")
    with programs.running([program, *options], running.url, folder / "log", {}):
        wait_until(running.is_ready, bool, "Prometheus to be ready", timeout=programs.HANG_SECONDS)
        yield running


def _are_evaluated(rules: list[dict[str, Any]]) -> bool:
    return all(rule["health"] != "unknown" for rule in rules)


def selectors(node: Node) -> Iterator[Node]:
    """The parts of a query that select series by name and labels."""
    return (part for part in parts(node) if part["type"] in ("vectorSelector", "matrixSelector"))


def labels_named(node: Node) -> set[str]:
    """Labels by which a query selects, groups or joins."""
    found: set[str] = set()
    for part in parts(node):
        matching: Node = part.get("matching") or {}
        found |= {matcher["name"] for matcher in part.get("matchers") or ()}
        found |= {*(part.get("grouping") or ()), *(matching.get("labels") or ()), *(matching.get("include") or ())}
    return found


def parts(node: Node) -> Iterator[Node]:
    """A query and all that it is made of."""
    yield node
    for value in node.values():
        for below in cast(list[object], value) if isinstance(value, list) else [value]:
            if isinstance(below, dict) and "type" in below:
                yield from parts(cast(Node, below))
