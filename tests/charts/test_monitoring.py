"""Dashboards and alerts as the chart renders them: what is in its files, where Grafana and Prometheus look for it."""

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster import binaries
from e2e.monitoring import queries
from tests.charts.conftest import CHART, Helm, Manifest, Render

pytestmark = pytest.mark.api  # needs a Go binary, no cluster

ON: dict[str, Any] = {"monitoring": {"dashboards": {"enabled": True}, "rules": {"enabled": True}}}


def of_kind(manifests: list[Manifest], kind: str) -> list[Manifest]:
    return [manifest for manifest in manifests if manifest["kind"] == kind]


def with_rules(**values: Any) -> dict[str, Any]:
    return {"monitoring": {"rules": {"enabled": True, **values}}}


def rules(manifests: list[Manifest]) -> list[dict[str, Any]]:
    groups = [group for manifest in of_kind(manifests, "PrometheusRule") for group in manifest["spec"]["groups"]]
    return [rule for group in groups for rule in group["rules"]]


def test_the_command_of_the_documents_brings_all_of_it(render: Render) -> None:
    text = (CHART.parents[1] / "docs" / "monitoring.md").read_text()
    (block,) = re.findall(r"```sh\n(helm upgrade .*?)```", text, flags=re.DOTALL)
    words = shlex.split(block)
    manifests = render(None, *(word for at, word in enumerate(words) if "--set" in (word, words[at - 1])))
    assert {"ConfigMap", "PrometheusRule", "PodMonitor"} <= {manifest["kind"] for manifest in manifests}
    for manifest in (*of_kind(manifests, "PrometheusRule"), *of_kind(manifests, "PodMonitor")):
        assert manifest["metadata"]["labels"]["release"] == "prometheus"


def test_nothing_of_it_is_there_unless_it_is_asked_for(render: Render) -> None:
    assert of_kind(render(), "ConfigMap") == of_kind(render(), "PrometheusRule") == []


def test_every_dashboard_is_a_file_for_the_sidecar(render: Render) -> None:
    found = [manifest["data"] for manifest in of_kind(render(ON), "ConfigMap")]
    shown = {name: json.loads(text) for data in found for name, text in data.items()}
    # In Grafana's folder they lie beside everybody else's.
    assert shown == {f"gptservice-{file.name}": queries.dashboard(file) for file in queries.DASHBOARDS}


def test_every_rule_is_there_as_promtool_takes_it(render: Render, tmp_path: Path) -> None:
    promtool = binaries.ensure([binaries.PROMTOOL])[binaries.PROMTOOL]
    manifests = of_kind(render(ON), "PrometheusRule")
    assert [rule["expr"] for rule in rules(manifests)] == [rule["expr"] for _, rule in queries.rules()]
    for manifest in manifests:
        file = tmp_path / f"{manifest['metadata']['name']}.yaml"
        file.write_text(yaml.safe_dump(manifest["spec"]))
        done = subprocess.run([promtool, "check", "rules", file], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("kind", ["ConfigMap", "PrometheusRule"])
def test_the_labels_are_the_release_s_and_those_by_which_it_is_found(render: Render, kind: str) -> None:
    values = {"monitoring": {key: {**value, "labels": {"team": "ml"}} for key, value in ON["monitoring"].items()}}
    found_by = {"team": "ml", "app.kubernetes.io/instance": "gptservice-operator"}
    for manifest in of_kind(render(values), kind):
        assert found_by.items() <= manifest["metadata"]["labels"].items()
        assert manifest["metadata"]["namespace"] == "gptservice-system"


@pytest.mark.parametrize(
    ("url", "begins"),
    [
        pytest.param("", "docs/", id="a path of the repository"),
        pytest.param("https://git.example.com/gptservice", "https://git.example.com/gptservice/docs/", id="a place"),
        pytest.param("https://git.example.com/gptservice/", "https://git.example.com/gptservice/docs/", id="a folder"),
    ],
)
def test_runbooks_are_where_they_are_said_to_be(render: Render, url: str, begins: str) -> None:
    alerts = [rule for rule in rules(render(with_rules(runbookUrl=url))) if "alert" in rule]
    rest = [alert["annotations"]["runbook_url"].removeprefix(begins) for alert in alerts]
    written = [alert["annotations"]["runbook_url"].removeprefix("docs/") for alert in queries.alerts()]
    assert rest == written


def test_an_alert_can_be_left_out_with_all_its_severities(render: Render) -> None:
    left = [rule.get("alert") for rule in rules(render(with_rules(disabled=["GPTServiceFirstTokenSlow"])))]
    assert left == [rule.get("alert") for _, rule in queries.rules() if rule.get("alert") != "GPTServiceFirstTokenSlow"]


def test_a_group_of_which_nothing_is_left_is_none(render: Render) -> None:
    of_the_operator = [alert["alert"] for alert in queries.alerts() if alert["alert"].startswith("GPTServiceOperator")]
    names = {
        group["name"]
        for manifest in of_kind(render(with_rules(disabled=of_the_operator)), "PrometheusRule")
        for group in manifest["spec"]["groups"]
    }
    assert names == {"gptservice.services", "gptservice.first-token"}


def test_an_alert_that_is_none_is_refused_with_those_that_are(helm: Helm) -> None:
    done = helm("template", "gptservice-operator", str(CHART), values=with_rules(disabled=["GPTServiceSlow"]))
    assert done.returncode != 0
    assert "monitoring.rules.disabled: there is no alert GPTServiceSlow; there are" in done.stderr
    assert "GPTServiceFirstTokenSlow" in done.stderr
