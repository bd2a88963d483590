"""What holds for every child of every service."""

from typing import Any

import pytest

from gptservice_operator import names, render
from gptservice_operator.actions import child_key
from gptservice_operator.api import kinds
from gptservice_operator.render import pod
from tests.operator import builders
from tests.operator.builders import Body
from tests.operator.golden_cases import CASES

EVERY_CASE = pytest.mark.parametrize("case", CASES)


def empty_parts(value: Any, path: str = "") -> list[str]:
    """Return the paths of empty maps, empty lists and nulls."""
    if value in ({}, [], None):
        return [path]
    return [found for step, inner in builders.steps(value) for found in empty_parts(inner, path + step)]


@EVERY_CASE
def test_the_order_is_that_of_the_kinds(case: str) -> None:
    order = [kind.name for kind in kinds.CHILDREN]
    places = [order.index(manifest["kind"]) for manifest in CASES[case].manifests()]
    assert places == sorted(places)


@EVERY_CASE
def test_no_two_children_are_one(case: str) -> None:
    keys = [child_key(manifest) for manifest in CASES[case].manifests()]
    assert len(set(keys)) == len(keys)


def test_a_service_without_wishes_has_what_makes_it_safe() -> None:
    found = [child_key(manifest) for manifest in CASES["minimal"].manifests()]
    assert found == [
        ("ServiceAccount", "chat-pods"),
        ("ConfigMap", "chat-limits"),
        ("ControllerRevision", names.controller_revision("chat", CASES["minimal"].resolved().origin.key)),
        ("Deployment", "chat"),
        ("Service", "chat"),
        ("Service", "chat-pods"),
        ("NetworkPolicy", "chat"),
    ]


def test_everything_around_the_pods_can_be_left_out() -> None:
    found = [manifest["kind"] for manifest in CASES["nothing-around"].manifests()]
    assert found == ["ConfigMap", "ControllerRevision", "Deployment", "Service", "Service"]


@EVERY_CASE
def test_nothing_empty_and_no_null_is_rendered(case: str) -> None:
    """Neither belongs to anybody after an apply: it would look like a difference for ever."""
    for manifest in CASES[case].manifests():
        assert empty_parts(manifest) == [], manifest["kind"]


def test_an_empty_scheduling_renders_nothing() -> None:
    scheduling: Body = {"nodeSelector": {}, "tolerations": [], "affinity": {}, "topologySpreadConstraints": []}
    with_empties = builders.resolved({"model": "pvc://m/x", "scheduling": scheduling})
    assert pod.render_pod_template(with_empties) == pod.render_pod_template(builders.resolved({"model": "pvc://m/x"}))


@EVERY_CASE
def test_every_child_is_labelled_owned_and_in_the_service_s_namespace(case: str) -> None:
    name = CASES[case].name
    for manifest in CASES[case].manifests():
        metadata = manifest["metadata"]
        assert metadata["namespace"] == builders.NAMESPACE
        assert names.labels(name).items() <= metadata["labels"].items()
        assert metadata["ownerReferences"] == [names.owner_reference(name, builders.uid_of("GPTService", name))]


@EVERY_CASE
def test_rendering_twice_gives_the_same(case: str) -> None:
    assert CASES[case].manifests() == CASES[case].manifests()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param({"replicas": 1}, {"replicas": 3}, id="replicas"),
        pytest.param({}, {"maxInflightRequests": 8}, id="a limit"),
        pytest.param({"upgradeStrategy": "RollingUpdate"}, {"upgradeStrategy": "Recreate"}, id="the strategy"),
        pytest.param({"cache": {"size": "1Gi"}}, {"cache": {"size": "2Gi"}}, id="a larger cache"),
        pytest.param({}, {"networkPolicy": {"disabled": True}}, id="the network policy"),
        pytest.param({}, {"monitoring": {"namespaces": ["obs"]}}, id="who may read metrics"),
        pytest.param({}, {"disruptionBudget": {"disabled": True}}, id="the disruption budget"),
    ],
)
def test_an_edit_that_shapes_no_pod_restarts_none(before: Body, after: Body) -> None:
    assert template(before) == template(after)


def template(spec: Body) -> Body:
    (deployment,) = [
        manifest
        for manifest in render.render(builders.resolved({"model": "pvc://m/x", **spec}))
        if manifest["kind"] == "Deployment"
    ]
    found: Body = deployment["spec"]["template"]
    return found
