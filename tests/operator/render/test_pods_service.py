"""The headless Service."""

import pytest

from gptservice_operator.render import service
from gptservice_operator.render.pods_service import render_pods_service
from tests.operator import builders


def test_its_name_resolves_to_the_ready_pods() -> None:
    spec = render_pods_service(builders.resolved())["spec"]
    assert spec["clusterIP"] == "None"
    assert spec["publishNotReadyAddresses"] is False


def test_the_port_is_that_of_the_pods_whatever_the_service_s_own_is() -> None:
    decided = builders.resolved({"model": "pvc://m/x", "service": {"port": 8443, "type": "LoadBalancer"}})
    (port,) = render_pods_service(decided)["spec"]["ports"]
    assert (port["port"], port["targetPort"]) == (8000, 8000)
    assert render_pods_service(decided)["spec"]["type"] == "ClusterIP"


def test_annotations_for_load_balancers_are_not_for_it() -> None:
    decided = builders.resolved({"model": "pvc://m/x", "service": {"annotations": {"example.com/scheme": "internal"}}})
    assert "annotations" not in render_pods_service(decided)["metadata"]


@pytest.mark.parametrize("name", ["chat", "llama-3.1-8b", "a" * 63])
def test_it_finds_the_pods_that_the_other_finds_under_another_name(name: str) -> None:
    decided = builders.resolved({"model": "pvc://models/m"}, name=name)
    manifest, other = render_pods_service(decided), service.render_service(decided)
    assert manifest["spec"]["selector"] == other["spec"]["selector"]
    assert manifest["spec"]["selector"] == builders.child(decided, "Deployment")["spec"]["selector"]["matchLabels"]
    assert manifest["metadata"]["name"] != other["metadata"]["name"]
    assert len(manifest["metadata"]["name"]) <= 63
