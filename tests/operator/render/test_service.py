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
