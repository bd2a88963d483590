"""The alerts: judged by the real promtool, and each leads to what to do about it."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster import paths
from e2e.monitoring import queries
from gptservice_operator.api import conditions
from tests.monitoring.conftest import Promtool

CASES = Path(__file__).parent / "rules_test.yaml"
NAMES = sorted({alert["alert"] for alert in queries.alerts()})
OF_A_REASON = "{{ $labels.reason | toLower }}"

each_alert = pytest.mark.parametrize(
    "alert", queries.alerts(), ids=lambda alert: f"{alert['alert']}-{alert['labels']['severity']}"
)


def anchors(document: Path) -> set[str]:
    """What a link can lead to: headings, as GitHub names them, and anchors that are written out."""
    text = document.read_text()
    headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    named = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return named | set(re.findall(r'<a id="([^"]+)">', text))


def expectations() -> list[tuple[str, bool]]:
    """Each question of the cases about an alert: its name, and whether it is to fire."""
    return [
        (name, bool(case["exp_samples"]))
        for test in yaml.safe_load(CASES.read_text())["tests"]
        for case in test["promql_expr_test"]
        for name in re.findall(r'alertname="(\w+)"', case["expr"] + str(case["exp_samples"]))
    ]


@pytest.mark.api  # needs a Go binary, no cluster
def test_promtool_takes_the_rules(promtool: Promtool) -> None:
    said = promtool("check", "rules", "--lint=all", "--lint-fatal", *queries.RULES)
    counts = re.findall(r"SUCCESS: (\d+) rules? found", said)
    assert sum(map(int, counts)) == len(list(queries.rules()))


@pytest.mark.api  # needs a Go binary, no cluster
def test_alerts_fire_when_they_should_and_only_then(promtool: Promtool) -> None:
    promtool("test", "rules", CASES)


@pytest.mark.parametrize("name", NAMES)
def test_there_is_a_case_in_which_it_fires(name: str) -> None:
    assert (name, True) in expectations()


@pytest.mark.parametrize("name", NAMES)
def test_there_is_a_case_in_which_something_like_it_is_there_and_it_does_not(name: str) -> None:
    """Asked at a moment at which it is silent; or the case has others beside what fires."""
    quiet = (name, False) in expectations()
    others = [
        test
        for test in yaml.safe_load(CASES.read_text())["tests"]
        for case in test["promql_expr_test"]
        if f'alertname="{name}"' in case["expr"] and 0 < len(case["exp_samples"]) < len(test["input_series"])
    ]
    assert quiet or others


@each_alert
def test_it_says_what_where_and_what_to_do(alert: dict[str, Any]) -> None:
    assert set(alert) - {"for"} == {"alert", "expr", "labels", "annotations"}
    assert alert["labels"]["severity"] in ("warning", "critical")
    assert set(alert["annotations"]) == {"summary", "description", "runbook_url"}
    assert "$labels." in alert["annotations"]["summary"] or alert["alert"].startswith("GPTServiceRoll"), "where?"


@each_alert
def test_its_runbook_is_written(alert: dict[str, Any]) -> None:
    document, _, anchor = alert["annotations"]["runbook_url"].partition("#")
    reasons = [reason.name.lower() for reason in conditions.REASONS.values()]
    wanted = set(reasons) if anchor == OF_A_REASON else {anchor}
    assert wanted <= anchors(paths.REPOSITORY / document)


def test_the_table_of_alerts_lists_what_there_is() -> None:
    text = (paths.REPOSITORY / "docs" / "monitoring.md").read_text()
    written = re.findall(r"^\| `(GPTService\w+)` \| (\w+) \| ([\w ]+) \|", text, flags=re.MULTILINE)
    alerts = {(one["alert"], one["labels"]["severity"], one.get("for", "at once")) for one in queries.alerts()}
    assert set(written) == alerts


def test_a_reason_that_is_named_is_one() -> None:
    named = {
        reason
        for query in queries.all_of_them()
        for _, values in re.findall(r'reason(=|!=|=~|!~)"([A-Z][^"]*)"', query.text)
        for reason in values.split("|")
    }
    assert named
    assert named <= set(conditions.REASONS)


def test_a_condition_that_is_named_is_one() -> None:
    named = {name for query in queries.all_of_them() for name in re.findall(r'type="([^"]*)"', query.text)}
    assert named
    assert named <= set(conditions.TYPES)
