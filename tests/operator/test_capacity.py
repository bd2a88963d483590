"""When taking an old pod away gives a new one its place."""

import datetime
from typing import Any

import pytest

from gptservice_operator import capacity
from gptservice_operator.render import controller_revision
from tests.operator import builders
from tests.operator.builders import Body

WORDS = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."


def revision(**spec: Any) -> Body:
    """Return what a revision keeps."""
    gpu = {"gpu": {"count": 2}}
    return controller_revision.render_data(builders.resolved({"model": "pvc://models/m", **gpu, **spec}))


def waiting(name: str, since: str | None = "2026-01-05T11:00:00Z", **more: Any) -> Body:
    told = {"reason": "Unschedulable", "message": WORDS, "lastTransitionTime": since, **more}
    return builders.pod(name, conditions=[builders.condition("PodScheduled", "False", **told)])


TOLERATION = {"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
ANTI = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "host"}]}}


@pytest.mark.parametrize(
    ("old", "new", "helps"),
    [
        pytest.param({}, {"maxTokens": 5}, True, id="another argument"),
        pytest.param({}, {"gpu": {"count": 1}}, True, id="fewer GPUs"),
        pytest.param({}, {"gpu": {"count": 16}}, False, id="more GPUs than the old pod has"),
        pytest.param({}, {"gpu": {"count": 0}}, False, id="no GPU is waited for"),
        pytest.param({}, {"gpu": {"count": 2, "resourceName": "nvidia.com/mig-1g.5gb"}}, False, id="another resource"),
        pytest.param({}, {"gpu": {"count": 2, "product": "H100"}}, False, id="a product that the old one did not ask"),
        pytest.param({"gpu": {"count": 2, "product": "H100"}}, {}, True, id="any product"),
        pytest.param({}, {"resources": {"requests": {"cpu": "90"}}}, False, id="more CPU"),
        pytest.param({}, {"resources": {"requests": {"memory": "1Gi"}, "limits": {"memory": "1Gi"}}}, True, id="less"),
        pytest.param({}, {"scheduling": {"nodeSelector": {"pool": "b"}}}, False, id="another pool"),
        pytest.param({"scheduling": {"nodeSelector": {"pool": "b"}}}, {}, True, id="any pool"),
        pytest.param({"scheduling": {"tolerations": [TOLERATION]}}, {}, False, id="a toleration that is gone"),
        pytest.param({}, {"scheduling": {"tolerations": [TOLERATION]}}, True, id="a further toleration"),
        pytest.param({}, {"scheduling": {"affinity": ANTI}}, False, id="an affinity"),
        pytest.param({}, {"scheduling": {"topologySpreadConstraints": [SPREAD]}}, False, id="a spread"),
        pytest.param({}, {"scheduling": {"runtimeClassName": "kata"}}, False, id="another runtime class"),
        pytest.param({}, {"model": "pvc://elsewhere/m"}, False, id="another volume, which may bind elsewhere"),
    ],
)
def test_an_old_pods_place_is_enough(old: Body, new: Body, helps: bool) -> None:
    assert capacity.frees_enough(revision(**old), revision(**new)) is helps


class TestStuck:
    def test_the_one_that_waits_longest(self) -> None:
        found = capacity.stuck([waiting("a"), waiting("b", "2026-01-05T10:30:00Z"), builders.pod("c", ready=True)])
        assert found == capacity.Stuck("b", WORDS, datetime.datetime(2026, 1, 5, 10, 30, tzinfo=datetime.UTC))

    def test_what_was_not_told_began_with_the_pod(self) -> None:
        found = capacity.stuck([waiting("a", None)])
        assert found is not None
        assert found.since == datetime.datetime(2026, 1, 5, 10, 0, tzinfo=datetime.UTC)

    @pytest.mark.parametrize(
        "pod",
        [
            pytest.param(builders.pod(), id="scheduled"),
            pytest.param(waiting("a", reason="SchedulingGated"), id="held back by somebody"),
        ],
    )
    def test_others_are_not(self, pod: Body) -> None:
        assert capacity.stuck([pod]) is None

    def test_the_resource_that_lacks_is_the_schedulers_word(self) -> None:
        found = capacity.stuck([waiting("a")])
        assert found is not None
        assert [found.lacks(name) for name in ("nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "cpu")] == [
            True,
            False,
            False,
        ]
