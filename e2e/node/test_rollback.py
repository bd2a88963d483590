"""A revision whose engine fails gives way to the one before, with real containers: beside it, and in its place."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.api.state import Observer, condition, revision_of
from e2e.kube import Kube
from e2e.node.conftest import GPUS, Disturbance
from e2e.node.containers import identity
from e2e.node.rollout import wait_rolled_back, wait_stable
from e2e.node.services import SOON, last_words, standin

pytestmark = pytest.mark.usefixtures("soon_stable")

BROKEN = "ValueError: these weights are broken"
FAILING = {"STANDIN_FAIL_AT_START": "1", "STANDIN_LAST_WORDS": last_words(BROKEN)}


def test_with_room_beside_it_the_old_pod_stays(
    disturbance: Disturbance, kube: Kube, namespace: str, observer: Observer
) -> None:
    kube.apply(standin("beside"), namespace)
    before = wait_stable(observer, "beside", timeout=SOON)
    (pod,) = observer.pods("beside")
    with disturbance(8):
        kube.apply(standin("beside", env=FAILING), namespace)
        told = wait_rolled_back(observer, "beside", timeout=SOON)
    assert BROKEN in condition(told, "Degraded")["message"]
    observer.wait_rolled("beside", lambda d: revision_of(d) == before, "the old pod alone to be left")
    assert [identity(one) for one in observer.pods("beside")] == [identity(pod)]


def test_on_the_only_gpus_it_comes_back_in_place_of_the_failed_one(
    disturbance: Disturbance, kube: Kube, namespace: str, observer: Observer
) -> None:
    room: dict[str, Any] = {"gpu": {"count": GPUS}, "rollout": {"surgeWaitSeconds": 2}}
    kube.apply(standin("in-place", **room), namespace)
    before = wait_stable(observer, "in-place", timeout=SOON)
    with disturbance(20):
        kube.apply(standin("in-place", env=FAILING, **room), namespace)
        told = wait_rolled_back(observer, "in-place", timeout=SOON)
    assert BROKEN in condition(told, "Degraded")["message"]
    observer.wait_rolled("in-place", lambda d: revision_of(d) == before, "the revision that was stable to serve")
    kube.delete("GPTService", "in-place", namespace)
