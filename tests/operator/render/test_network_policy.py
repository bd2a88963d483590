"""The network policy: the API to all, metrics to those who monitor, nothing else."""

from typing import Any

import pytest

from gptservice_operator.render.network_policy import render_network_policy
from tests.operator import builders
from tests.operator.builders import Body


def policy(name: str = "chat", settings: Any = None, **spec: Any) -> Body:
    decided = builders.resolved({"model": "pvc://models/m", **spec}, name=name, settings=settings)
    manifest = render_network_policy(decided)
    assert manifest is not None
    found: Body = manifest["spec"]
    return found


def sources(port: int, found: Body) -> list[Any]:
    """Return the sources of every rule for a port; None is a rule without any, which means all."""
    return [rule.get("from") for rule in found["ingress"] if {"port": port, "protocol": "TCP"} in rule["ports"]]


def test_the_api_is_open_to_all() -> None:
    assert sources(8000, policy()) == [None]


@pytest.mark.parametrize(
    ("spec", "namespaces"),
    [
        pytest.param({}, ["platform"], id="the operator's own"),
        pytest.param({"monitoring": {}}, ["platform"], id="nothing said"),
        pytest.param({"monitoring": {"podMonitor": "Disabled"}}, ["platform"], id="no PodMonitor"),
        pytest.param({"monitoring": {"namespaces": ["obs", "prometheus"]}}, ["obs", "prometheus"], id="those named"),
    ],
)
def test_metrics_are_open_to_the_namespaces_that_monitor(spec: Body, namespaces: list[str]) -> None:
    (found,) = sources(8081, policy(settings=builders.config(namespace="platform"), **spec))
    labels = [source["namespaceSelector"]["matchLabels"] for source in found]
    assert labels == [{"kubernetes.io/metadata.name": name} for name in namespaces]
    assert all(set(source) == {"namespaceSelector"} for source in found), "every pod of that namespace"


def test_nothing_else_comes_in_and_all_goes_out() -> None:
    found = policy()
    assert found["policyTypes"] == ["Ingress"]
    assert [port["port"] for rule in found["ingress"] for port in rule["ports"]] == [8000, 8081]


@pytest.mark.parametrize("name", ["chat", "llama-3.1-8b"])
def test_it_is_about_the_service_s_own_pods(name: str) -> None:
    decided = builders.resolved({"model": "pvc://models/m"}, name=name)
    assert policy(name)["podSelector"] == builders.child(decided, "Deployment")["spec"]["selector"]


@pytest.mark.parametrize(("setting", "wanted"), [({}, True), ({"disabled": True}, False)])
def test_it_can_be_switched_off(setting: Body, wanted: bool) -> None:
    decided = builders.resolved({"model": "pvc://models/m", "networkPolicy": setting})
    assert (render_network_policy(decided) is not None) is wanted
