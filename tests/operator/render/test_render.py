"""What holds for every child of every service."""

from typing import Any

import pytest

from gptservice_operator import names, render
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


def test_what_pods_refer_to_and_what_keeps_their_template_come_before_the_deployment() -> None:
    order = [manifest["kind"] for manifest in CASES["minimal"].manifests()]
    assert order == ["ConfigMap", "ControllerRevision", "Deployment", "Service"]


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
