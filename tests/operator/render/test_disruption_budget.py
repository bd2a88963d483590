"""The disruption budget: from two guaranteed replicas on, and never in the way of a drain for long."""

from typing import Any

import pytest

from gptservice_operator.render.disruption_budget import render_disruption_budget
from tests.operator import builders
from tests.operator.builders import Body


def budget(name: str = "chat", **spec: Any) -> Body | None:
    return render_disruption_budget(builders.resolved({"model": "pvc://models/m", **spec}, name=name))


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        pytest.param({"replicas": 0}, False, id="stopped"),
        pytest.param({"replicas": 1}, False, id="one: it would block every drain of its node"),
        pytest.param({"replicas": 2}, True, id="two"),
        pytest.param({"replicas": 7}, True, id="many"),
        pytest.param({"replicas": 7, "autoscaling": {"maxReplicas": 9}}, False, id="autoscaling down to one"),
        pytest.param(
            {"replicas": 1, "autoscaling": {"minReplicas": 2, "maxReplicas": 9}}, True, id="autoscaling from two on"
        ),
        pytest.param(
            {"replicas": 0, "autoscaling": {"minReplicas": 2, "maxReplicas": 9}}, False, id="stopped all the same"
        ),
        pytest.param({"replicas": 7, "disruptionBudget": {}}, True, id="nothing said"),
        pytest.param({"replicas": 7, "disruptionBudget": {"disabled": True}}, False, id="switched off"),
    ],
)
def test_whether_there_is_one(spec: Body, wanted: bool) -> None:
    assert (budget(**spec) is not None) is wanted


@pytest.mark.parametrize("name", ["chat", "llama-3.1-8b"])
def test_one_pod_at_a_time_and_a_broken_one_at_any_time(name: str) -> None:
    manifest = budget(name, replicas=2)
    assert manifest is not None
    assert manifest["spec"]["maxUnavailable"] == 1
    assert manifest["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
    decided = builders.resolved({"model": "pvc://models/m"}, name=name)
    assert manifest["spec"]["selector"] == builders.child(decided, "Deployment")["spec"]["selector"]
