"""Whose fields an apply may remove: what others set inside of our structures, not what they added beside them."""

import copy
from typing import Any

import pytest

from gptservice_operator import names, takeover
from tests.operator.builders import Body

OURS: Body = {
    "f:metadata": {"f:labels": {"f:a": {}}},
    "f:spec": {
        "f:template": {
            "f:metadata": {"f:labels": {"f:a": {}}},
            "f:spec": {
                "f:containers": {'k:{"name":"engine"}': {".": {}, "f:name": {}, "f:readinessProbe": {"f:httpGet": {}}}},
                "f:volumes": {'k:{"name":"tmp"}': {".": {}, "f:name": {}, "f:emptyDir": {}}},
            },
        }
    },
}


def within(*path: str) -> Body:
    """Return a set of fields with one leaf."""
    fields: Body = {}
    for part in reversed(path):
        fields = {part: fields}
    return {"f:spec": {"f:template": fields}}


POD = ("f:spec",)
ENGINE = (*POD, "f:containers", 'k:{"name":"engine"}')


def taken(theirs: Body, **entry: Any) -> list[Body] | None:
    ours = {"manager": names.MANAGER, "operation": "Apply", "fieldsV1": copy.deepcopy(OURS)}
    other = {"manager": "kubectl-edit", "operation": "Update", "fieldsV1": theirs, **entry}
    return takeover.taken_over({"metadata": {"managedFields": [other, ours]}})


def at(fields: Any, path: tuple[str, ...]) -> Any:
    for part in path:
        fields = fields[part]
    return fields


@pytest.mark.parametrize(
    "path",
    [
        pytest.param((*ENGINE, "f:readinessProbe", "f:exec"), id="a second handler of a probe"),
        pytest.param((*POD, "f:volumes", 'k:{"name":"tmp"}', "f:hostPath"), id="a second source of a volume"),
        pytest.param((*ENGINE, "f:lifecycle"), id="a field that we do not set"),
    ],
)
def test_a_field_beside_ours_becomes_ours(path: tuple[str, ...]) -> None:
    found = taken(within(*path))
    assert found is not None
    other, ours = found
    assert at(ours["fieldsV1"]["f:spec"]["f:template"], path) == {}
    assert path[-1] not in at(other["fieldsV1"]["f:spec"]["f:template"], path[:-1])
    # What was ours before is so still.
    assert "f:httpGet" in at(ours["fieldsV1"]["f:spec"]["f:template"], (*ENGINE, "f:readinessProbe"))


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param(within(*POD, "f:containers", 'k:{"name":"istio-proxy"}', "f:image"), id="a sidecar"),
        pytest.param(within("f:metadata", "f:annotations", "f:restartedAt"), id="an annotation of the pods"),
        pytest.param({"f:spec": {"f:replicas": {}}}, id="the count of an autoscaler"),
        pytest.param({"f:metadata": {"f:annotations": {"f:x": {}}}}, id="an annotation"),
        pytest.param({}, id="nothing"),
    ],
)
def test_what_others_added_stays_theirs(fields: Body) -> None:
    assert taken(fields) is None


def test_a_subresource_is_nobody_s_to_take() -> None:
    assert taken(within(*ENGINE, "f:lifecycle"), subresource="status") is None


DEFAULTED: Body = {
    "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}},
    "replicas": 3,
    "template": {
        "metadata": {"labels": {"a": "b"}, "creationTimestamp": None},
        "spec": {
            "dnsPolicy": "ClusterFirst",
            "containers": [
                {"name": "engine", "image": "i", "imagePullPolicy": "Always"},
                {"name": "sidecar", "image": "i", "imagePullPolicy": "Always"},
            ],
        },
    },
}
OURS_OF_A_DEPLOYMENT: Body = {
    "f:strategy": {"f:type": {}},
    "f:template": {
        "f:metadata": {"f:labels": {"f:a": {}}},
        "f:spec": {"f:containers": {'k:{"name":"engine"}': {".": {}, "f:name": {}, "f:image": {}}}},
    },
}


def claimed(kind: str, theirs: Body) -> Any:
    ours = {"manager": names.MANAGER, "operation": "Apply", "fieldsV1": {"f:spec": copy.deepcopy(OURS_OF_A_DEPLOYMENT)}}
    other = {"manager": "somebody", "operation": "Apply", "fieldsV1": {"f:spec": theirs}}
    found = takeover.taken_over({"kind": kind, "metadata": {"managedFields": [other, ours]}, "spec": DEFAULTED})
    return found and found[1]["fieldsV1"]["f:spec"]


def test_what_the_api_server_filled_in_beside_another_s_value_becomes_ours() -> None:
    """Else ``rollingUpdate`` would keep ``type: Recreate`` from coming back."""
    theirs = {
        "f:template": {"f:spec": {"f:containers": {'k:{"name":"sidecar"}': {".": {}, "f:name": {}, "f:image": {}}}}}
    }
    found = claimed("Deployment", theirs)
    assert found["f:strategy"] == {"f:type": {}, "f:rollingUpdate": {}}
    pod = found["f:template"]["f:spec"]
    assert pod["f:dnsPolicy"] == {}
    assert set(pod["f:containers"]) == {'k:{"name":"engine"}'}
    assert pod["f:containers"]['k:{"name":"engine"}']["f:imagePullPolicy"] == {}
    # The count, and the pods' labels and annotations, are left to whoever has them.
    assert "f:replicas" not in found
    assert found["f:template"]["f:metadata"] == OURS_OF_A_DEPLOYMENT["f:template"]["f:metadata"]


def test_of_other_kinds_what_is_nobody_s_may_be_allocated_and_stays() -> None:
    assert claimed("Service", {}) is None


def test_an_object_that_we_never_applied_is_left_alone() -> None:
    assert takeover.taken_over({"metadata": {"managedFields": []}}) is None
    assert takeover.taken_over({}) is None


def test_the_input_is_left_as_it_is() -> None:
    theirs = within(*ENGINE, "f:lifecycle")
    before = copy.deepcopy(theirs)
    taken(theirs)
    assert theirs == before
