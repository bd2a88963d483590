"""A revision that fails is rolled back, and one that finds no GPU gets that of an old pod, on the real API server."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from e2e.api.conftest import GPUS
from e2e.api.quiet import assert_untouched, settle, wait_for_resyncs
from e2e.api.state import Observer, condition, holds, revision_of, service
from e2e.cluster.simulation import PRODUCTS
from e2e.kube import Kube, Object, wait_until
from e2e.operator_process import OperatorProcess
from e2e.proxy import Switchboard

Stable = Callable[..., str]

RETRY = "ai.example.com/retry"
GAVE_UP = {"reason": "ModelLoadFailed", "message": "ValueError: these weights are broken", "phase": "load"}
FAILING = [{"name": "E2E_MODE", "value": "crash"}, {"name": "E2E_MESSAGE", "value": json.dumps(GAVE_UP)}]
WHOLE_NODE = {"count": GPUS, "product": PRODUCTS[0]}
MORE_THAN_HALF = {**WHOLE_NODE, "count": GPUS // 2 + 1}


@pytest.fixture
def stable(operator: OperatorProcess, configure: Callable[..., None], kube: Kube, namespace: str) -> Stable:
    """Makes a GPTService and waits until its revision is stable."""
    configure(stable_seconds="2")
    observer = Observer(kube, namespace)

    def make(**spec: Any) -> str:
        kube.apply(service(**spec), namespace)
        observer.wait_ready()
        observer.wait(lambda o: "stableRevision" in (o or {})["status"], "a stable revision")
        return str(revision_of(observer.child("Deployment")))

    return make


def wait_running(observer: Observer, accepts: Callable[[str], bool], what: str) -> str:
    found = wait_until(lambda: str(revision_of(observer.child("Deployment"))), accepts, what, timeout=40)
    return str(found)


def wait_reason(observer: Observer, reason: str) -> Object:
    return observer.wait(lambda o: holds(o, "Ready", "False", reason), reason)


def strategy(observer: Observer) -> tuple[Any, Any]:
    found = observer.child("Deployment")["spec"]["strategy"]["rollingUpdate"]
    return found["maxSurge"], found["maxUnavailable"]


def uids(observer: Observer) -> set[str]:
    return {str(pod["metadata"]["uid"]) for pod in observer.pods()}


def test_a_revision_that_fails_is_rolled_back_and_stays_so(
    stable: Stable, operator: OperatorProcess, board: Switchboard, kube: Kube, namespace: str, observer: Observer
) -> None:
    before, pods = stable(), uids(observer)
    kube.merge("GPTService", "gpt", namespace, {"spec": {"engine": {"env": FAILING}}})
    told = wait_reason(observer, "RolledBack")
    for kind in ("Ready", "Degraded"):
        assert "these weights are broken" in condition(told, kind)["message"]
        assert RETRY in condition(told, kind)["message"]
    assert holds(told, "Degraded", "True", "RolledBack")
    assert holds(told, "Available", "True")
    wait_running(observer, lambda key: key == before, "the stable revision to be back")
    wait_until(lambda: uids(observer), lambda now: now == pods, "the failed pod to go, and the old one to stay")
    operator.restart()
    settle(board, {namespace})
    assert_untouched(observer, lambda: wait_for_resyncs(board, 1))
    assert uids(observer) == pods

    annotate(kube, namespace, "1")
    wait_running(observer, lambda key: key != before, "another try")
    wait_running(observer, lambda key: key == before, "the stable revision to be back again")
    wait_reason(observer, "RolledBack")

    kube.merge("GPTService", "gpt", namespace, {"spec": {"engine": None, "maxTokens": 7}})
    observer.wait_ready()
    assert all("ai.example.com/failed" not in one["metadata"]["annotations"] for one in observer.revisions())


def annotate(kube: Kube, namespace: str, value: str) -> None:
    kube.merge("GPTService", "gpt", namespace, {"metadata": {"annotations": {RETRY: value}}})


def test_nothing_is_rolled_back_against_the_users_will(
    stable: Stable, board: Switchboard, kube: Kube, namespace: str, observer: Observer
) -> None:
    before = stable(rollout={"autoRollback": False})
    kube.merge("GPTService", "gpt", namespace, {"spec": {"engine": {"env": FAILING}}})
    wait_reason(observer, "ModelLoadFailed")
    wait_for_resyncs(board, 1)
    assert revision_of(observer.child("Deployment")) != before
    kube.merge("GPTService", "gpt", namespace, {"spec": {"rollout": None}})
    wait_reason(observer, "RolledBack")
    wait_running(observer, lambda key: key == before, "the stable revision to be back")


class TestFullNode:
    """A pod of the service has so many GPUs of the only node that it may go to that another finds no place."""

    def test_the_old_pod_makes_room_by_itself(
        self, stable: Stable, kube: Kube, namespace: str, observer: Observer
    ) -> None:
        stable(gpu=WHOLE_NODE, rollout={"surgeWaitSeconds": 1})
        kube.merge("GPTService", "gpt", namespace, {"spec": {"maxTokens": 7}})
        observer.wait_ready()
        wait_until(lambda: strategy(observer), lambda now: now == (1, 0), "the usual strategy to come back")
        assert all("ai.example.com/switched" not in one["metadata"]["annotations"] for one in observer.revisions())

    @pytest.mark.parametrize(
        ("spec", "edit"),
        [
            pytest.param({"upgradeStrategy": "RollingUpdate"}, {"maxTokens": 7}, id="a strategy that was chosen"),
            pytest.param({"gpu": MORE_THAN_HALF}, {"gpu": WHOLE_NODE}, id="more GPUs than the old pod has"),
        ],
    )
    def test_else_the_old_pod_stays_and_what_blocks_is_said(
        self, stable: Stable, kube: Kube, namespace: str, observer: Observer, spec: Object, edit: Object
    ) -> None:
        stable(**{"gpu": WHOLE_NODE, "rollout": {"surgeWaitSeconds": 1}, **spec})
        pods = uids(observer)
        kube.merge("GPTService", "gpt", namespace, {"spec": edit})
        told = wait_reason(observer, "RolloutBlocked")
        assert "Insufficient nvidia.com/gpu" in condition(told, "Degraded")["message"]
        assert holds(told, "Available", "True")
        assert pods < uids(observer)
        assert strategy(observer) == (1, 0)

    def test_a_failure_after_the_switch_brings_the_old_revision_back(
        self, stable: Stable, kube: Kube, namespace: str, observer: Observer
    ) -> None:
        before = stable(gpu=WHOLE_NODE, rollout={"surgeWaitSeconds": 0})
        kube.merge("GPTService", "gpt", namespace, {"spec": {"engine": {"env": FAILING}}})
        wait_reason(observer, "RolledBack")
        observer.wait_rolled("gpt", lambda d: revision_of(d) == before, "the stable revision to serve again")
        observer.wait(lambda o: holds(o, "Available", "True"), "to serve")
