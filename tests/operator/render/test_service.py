"""The Kubernetes Service in front of the pods."""

import pytest

from gptservice_operator.render.pod import render_pod_template
from gptservice_operator.render.service import render_service
from tests.operator import builders


@pytest.mark.parametrize("name", ["chat", "llama-3.1-8b"])
def test_it_selects_the_pods_and_reaches_their_api(name: str) -> None:
    decided = builders.resolved(name=name)
    spec, template = render_service(decided)["spec"], render_pod_template(decided)
    assert spec["selector"].items() <= template["metadata"]["labels"].items()
    (port,) = spec["ports"]
    assert port["port"] == 80
    assert port["targetPort"] in {port["containerPort"] for port in template["spec"]["containers"][0]["ports"]}


def test_what_the_server_allocates_is_left_to_it() -> None:
    spec = render_service(builders.resolved())["spec"]
    assert set(spec) == {"type", "selector", "ports"}
    assert spec["type"] == "ClusterIP"


def test_only_the_api_is_reachable_not_the_probes() -> None:
    assert [port["targetPort"] for port in render_service(builders.resolved())["spec"]["ports"]] == [8000]


@pytest.mark.parametrize(
    ("kind", "protocol"), [("ClusterIP", "http"), ("NodePort", "http"), ("LoadBalancer", None)], ids=str
)
def test_a_load_balancer_is_not_told_how_to_probe(kind: str, protocol: str | None) -> None:
    """Azure's would ask for / without a key, and take every pod for dead."""
    (port,) = render_service(builders.resolved({"model": "pvc://m/x", "service": {"type": kind}}))["spec"]["ports"]
    assert port.get("appProtocol") == protocol
    assert port["name"] == "http"
