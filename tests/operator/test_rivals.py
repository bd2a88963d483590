"""Whose pods would get a GPU that an old pod gives up."""

from typing import Any

import pytest

from gptservice_operator import names, rivals
from gptservice_operator.extract import Entry
from tests.operator import builders
from tests.operator.builders import Body

GPU = "nvidia.com/gpu"
LACKS = f"0/3 nodes are available: 3 Insufficient {GPU}."


def unplaced(
    name: str, *, revision: str = "a", message: str = LACKS, replica_set: str | None = None, **spec: Any
) -> Entry:
    told = builders.condition("PodScheduled", "False", reason="Unschedulable", message=message)
    return entry(builders.pod(name, of="other", conditions=[told]), revision, {**asking(1), **spec}, replica_set)


def asking(count: int) -> Body:
    """Return the spec of a pod that asks for so many GPUs."""
    return {"containers": [{"resources": {"limits": {GPU: str(count)}}}]}


def placed(name: str, *, revision: str = "a", **more: Any) -> Entry:
    return entry(builders.pod(name, of="other", ready=True, **more), revision, {})


def over(name: str) -> Entry:
    return entry(builders.pod(name, of="other", phase="Failed"), "a", {})


def entry(body: Body, revision: str, spec: Body, replica_set: str | None = None) -> Entry:
    body["metadata"]["labels"][names.REVISION] = revision
    body["metadata"]["ownerReferences"][0]["name"] = f"other-{replica_set or revision}"
    return builders.entry({**body, "spec": spec})


def ahead(*pods: Entry, ours: Body | None = None, place: Body | None = None) -> list[str]:
    return rivals.ahead([pods], GPU, {**asking(2), **(ours or {})}, [{**asking(4), **(place or {})}])


POOL, ELSEWHERE = {"pool": "a"}, {"pool": "b"}


@pytest.mark.parametrize(
    ("pods", "is_ahead"),
    [
        pytest.param([unplaced("x")], True, id="its first pod"),
        pytest.param([unplaced("x"), placed("y")], True, id="one more replica"),
        pytest.param([unplaced("x", message="0/3 nodes are available: 3 Insufficient cpu.")], False, id="of no GPU"),
        pytest.param([unplaced("x", revision="b"), placed("y")], False, id="a rollout that gives up one itself"),
        pytest.param([unplaced("x", replica_set="b"), placed("y")], False, id="a restart that gives up one itself"),
        pytest.param(
            [unplaced("x", revision="b"), placed("y", deletionTimestamp=builders.CREATED)],
            False,
            id="a rollout that is giving up one",
        ),
        pytest.param([unplaced("x", revision="b"), over("y")], True, id="what was evicted gives up nothing"),
        pytest.param([unplaced("x", priority=-1)], False, id="less urgent"),
        pytest.param([unplaced("x", priority=7)], True, id="more urgent"),
        pytest.param([unplaced("x", nodeSelector=ELSEWHERE)], False, id="for other nodes"),
        pytest.param([unplaced("x", nodeSelector={**POOL, "zone": "z"})], True, id="perhaps for the same nodes"),
        pytest.param([unplaced("x", **asking(5))], True, id="what an old pod has, and the rest of its node"),
        pytest.param([unplaced("x", **asking(6))], False, id="more than can be free"),
        pytest.param([placed("y")], False, id="none that waits"),
    ],
)
def test_who_is_placed_before_ours(pods: list[Entry], is_ahead: bool) -> None:
    assert ahead(*pods, place={"nodeSelector": POOL}) == ([f"{builders.NAMESPACE}/x"] if is_ahead else [])


def test_ours_may_be_more_urgent() -> None:
    assert ahead(unplaced("x", priority=7), ours={"priority": 8}) == []


def test_they_are_told_in_order_and_not_all() -> None:
    found = ahead(*(unplaced(f"x{number}") for number in (4, 2, 3, 1)))
    assert rivals.told(found).startswith("team-a/x1, team-a/x2, team-a/x3 and 1 more of other services ")
    assert rivals.told(found[:1]).startswith("team-a/x1 of other services ")
