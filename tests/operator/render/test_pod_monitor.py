"""The PodMonitor: what is scraped is a port that the pods have, and one that the network policy opens."""

import pytest

from gptservice_operator.render import network_policy
from gptservice_operator.render.pod_monitor import render_pod_monitor
from tests.operator import builders
from tests.operator.builders import Body


def monitor(name: str = "chat") -> Body:
    manifest = render_pod_monitor(builders.resolved(None, name=name, seen=builders.EVERYTHING_SERVED))
    assert manifest is not None
    found: Body = manifest["spec"]
    return found


def test_metrics_are_scraped_from_the_plain_port() -> None:
    (endpoint,) = monitor()["podMetricsEndpoints"]
    assert endpoint == {"port": "probes", "path": "/metrics"}


def test_what_is_scraped_carries_the_service_s_name() -> None:
    (label,) = monitor()["podTargetLabels"]
    decided = builders.resolved(name="chat", seen=builders.EVERYTHING_SERVED)
    assert builders.child(decided, "Deployment")["spec"]["template"]["metadata"]["labels"][label] == "chat"


def test_the_port_is_one_of_the_pods_and_open_to_who_monitors() -> None:
    decided = builders.resolved(seen=builders.EVERYTHING_SERVED)
    (container,) = builders.child(decided, "Deployment")["spec"]["template"]["spec"]["containers"]
    numbers = {port["name"]: port["containerPort"] for port in container["ports"]}
    policy = network_policy.render_network_policy(decided)
    assert policy is not None
    scraped = [port["port"] for rule in policy["spec"]["ingress"] if "from" in rule for port in rule["ports"]]
    assert [numbers[endpoint["port"]] for endpoint in monitor()["podMetricsEndpoints"]] == scraped


@pytest.mark.parametrize("name", ["chat", "llama-3.1-8b"])
def test_it_is_about_the_service_s_own_pods(name: str) -> None:
    decided = builders.resolved(name=name)
    assert monitor(name)["selector"] == builders.child(decided, "Deployment")["spec"]["selector"]


@pytest.mark.parametrize(
    ("monitoring", "seen"),
    [
        pytest.param({"podMonitor": "Disabled"}, builders.EVERYTHING_SERVED, id="switched off"),
        pytest.param({"podMonitor": "Enabled"}, builders.companions.NOTHING_SEEN, id="no Prometheus operator"),
    ],
)
def test_there_is_none(monitoring: Body, seen: builders.companions.Seen) -> None:
    decided = builders.resolved({"model": "pvc://models/m", "monitoring": monitoring}, seen=seen)
    assert render_pod_monitor(decided) is None
