"""When taking an old pod away gives a new one its place."""

import datetime
from typing import Any, ClassVar

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


def words(*reasons: str) -> str:
    counted = ", ".join(f"1 {reason}" for reason in reasons)
    return f"0/2 nodes are available: {counted}. no new claims to deallocate, preemption: 0/2 nodes are available."


SHORT = "Insufficient nvidia.com/gpu"
CORDONED = "node(s) were unschedulable"
UNMATCHED = "node(s) didn't match Pod's node affinity/selector"
CONTROL_PLANE = "node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }"


class TestClosed:
    """Nodes that take no new pod, among which an old pod's may be."""

    @pytest.mark.parametrize(
        ("reason", "is_one"),
        [
            pytest.param(CORDONED, True, id="cordoned"),
            pytest.param(
                "node(s) had untolerated taint {ToBeDeletedByClusterAutoscaler: 17}", True, id="on its way out"
            ),
            pytest.param("node(s) had untolerated taint {karpenter.sh/disrupted: }", True, id="to be replaced"),
            pytest.param(
                "node(s) had untolerated taint {node.kubernetes.io/disk-pressure: }", True, id="its disk is full"
            ),
            pytest.param(
                "node(s) had untolerated taint {node.kubernetes.io/unreachable: }", False, id="no pod is ready there"
            ),
            pytest.param("node(s) had untolerated taint {pool: a100}", False, id="another pool"),
            pytest.param(CONTROL_PLANE, False, id="control plane"),
            pytest.param("node(s) had untolerated taint(s)", False, id="taints that the scheduler does not name"),
            pytest.param("Insufficient cpu", False, id="also full"),
            pytest.param("node(s) didn't match pod topology spread constraints", False, id="has a GPU, and must not"),
            pytest.param(UNMATCHED, False, id="not asked for"),
        ],
    )
    def test_they_are_told_by_the_scheduler(self, reason: str, is_one: bool) -> None:
        found = capacity.stuck([waiting("a", message=words(SHORT, reason))])
        assert found is not None
        assert found.closed(is_narrowed=False) == ([f"1 {reason}"] if is_one else [])

    def test_what_matched_before_may_not_where_somebody_has_narrowed_the_choice(self) -> None:
        found = capacity.stuck([waiting("a", message=words(SHORT, UNMATCHED))])
        assert found is not None
        assert found.closed(is_narrowed=True) == [f"1 {UNMATCHED}"]

    @pytest.mark.parametrize(
        ("live", "kept", "narrowed"),
        [
            ({"schedulerName": "default-scheduler"}, {}, False),
            ({"nodeSelector": {"pool": "a"}}, {"nodeSelector": {"pool": "a"}}, False),
            ({"nodeSelector": {"pool": "a", "zone": "z"}}, {"nodeSelector": {"pool": "a"}}, True),
            ({"affinity": ANTI}, {}, True),
            ({"affinity": {"podAntiAffinity": {"as": "stored"}}}, {"affinity": ANTI}, False),
        ],
    )
    def test_which_is_seen_at_the_deployment(self, live: Body, kept: Body, narrowed: bool) -> None:
        assert capacity.is_narrowed(live, kept) is narrowed


class TestGrown:
    """Containers that others add, to the Deployment or to its pods."""

    KEPT: ClassVar[Body] = {"containers": [{"resources": {"requests": {"cpu": "4"}}}]}

    @classmethod
    def grown(cls, added: Body | None, *, of_old: int) -> bool:
        more = [] if added is None else [{"resources": {"requests": added}}]
        new = {"spec": {"containers": [*cls.KEPT["containers"], *more]}}
        old = builders.pod(
            "old", ready=True, containers=[builders.container(str(n), running={}) for n in range(of_old)]
        )
        return capacity.has_grown(new, cls.KEPT, [old])

    def test_what_they_ask_for_no_old_pod_holds(self) -> None:
        assert self.grown({"cpu": "1"}, of_old=1)

    def test_unless_it_has_them_too(self) -> None:
        assert not self.grown({"cpu": "1"}, of_old=2)

    def test_they_may_ask_for_nothing(self) -> None:
        assert not self.grown({}, of_old=1)
        assert not self.grown(None, of_old=1)

    def test_a_pod_that_has_not_begun_holds_nothing(self) -> None:
        assert not self.grown({"cpu": "1"}, of_old=0)


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
