"""A revision that fails is rolled back, and one that finds no GPU gets that of an old pod, on the real API server."""

from __future__ import annotations

import pytest

from e2e.api.conftest import Stable
from e2e.api.quiet import assert_untouched, settle, wait_for_resyncs
from e2e.api.rolling import (
    FAILING,
    MORE_THAN_HALF,
    RETRY,
    WHOLE_NODE,
    annotate,
    generation,
    strategy,
    uids,
    wait_reason,
    wait_running,
    wait_tried,
)
from e2e.api.state import Observer, condition, holds, revision_of, service
from e2e.kube import Kube, Object, wait_until
from e2e.operator_process import OperatorProcess
from e2e.proxy import Switchboard


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

    tries = generation(observer)
    annotate(kube, namespace, "1")
    wait_tried(observer, tries, before)
    wait_reason(observer, "RolledBack")

    kube.merge("GPTService", "gpt", namespace, {"spec": {"engine": None, "maxTokens": 7}})
    observer.wait_ready()
    assert all("ai.example.com/failed" not in one["metadata"]["annotations"] for one in observer.revisions())


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


def test_a_deleted_stable_revision_is_there_for_the_next_failure(
    stable: Stable, kube: Kube, namespace: str, observer: Observer
) -> None:
    before = stable()
    kube.merge("GPTService", "gpt", namespace, {"spec": {"engine": {"env": FAILING}}})
    wait_reason(observer, "RolledBack")
    name = (observer.gpt() or {})["status"]["stableRevision"]
    pods = uids(observer)
    observer.delete_and_wait_for_another("ControllerRevision", name)
    tries = generation(observer)
    kube.merge("GPTService", "gpt", namespace, {"spec": {"maxTokens": 7}})
    wait_tried(observer, tries, before)
    told = wait_reason(observer, "RolledBack")
    assert told["status"]["stableRevision"] == name
    assert pods & uids(observer), "the old pod goes on"


def test_clients_of_the_revision_that_came_back_find_it_where_it_was(
    stable: Stable, kube: Kube, namespace: str, observer: Observer
) -> None:
    before = stable()
    endpoint = (observer.gpt() or {})["status"]["endpoint"]
    change = {"engine": {"env": FAILING}, "tls": {"secretName": "cert"}, "auth": {"disabled": True}}
    kube.merge("GPTService", "gpt", namespace, {"spec": change})
    wait_reason(observer, "RolledBack")
    wait_running(observer, lambda key: key == before, "the stable revision to be back")
    told = observer.wait(lambda o: (o or {})["status"]["endpoint"] == endpoint, "the endpoint as before")
    assert observer.child("Service")["spec"]["ports"][0]["port"] == 80
    for field in ("spec.tls", "spec.auth"):
        assert f"{field}: the pods that came back" in condition(told, "Accepted")["message"]
    assert told["status"]["authSecret"]


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

    def test_so_it_does_for_a_restart(self, stable: Stable, kube: Kube, namespace: str, observer: Observer) -> None:
        stable(gpu=WHOLE_NODE, rollout={"surgeWaitSeconds": 1})
        before = uids(observer)
        restarted = {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "2026-01-05T12:00:00Z"}}}
        kube.merge("Deployment", "gpt", namespace, {"spec": {"template": restarted}})
        wait_until(lambda: uids(observer), lambda now: len(now) == 1 and not now & before, "another pod alone")
        observer.wait_ready()
        wait_until(lambda: strategy(observer), lambda now: now == (1, 0), "the usual strategy to come back")

    def test_replicas_that_find_no_gpu_hold_no_rollout_up(
        self, stable: Stable, kube: Kube, namespace: str, observer: Observer
    ) -> None:
        """The Deployment's controller counts them as unavailable."""
        stable(gpu=WHOLE_NODE, rollout={"surgeWaitSeconds": 1})
        kube.merge("GPTService", "gpt", namespace, {"spec": {"replicas": 2}})
        wait_reason(observer, "InsufficientGPU")
        before = uids(observer)
        kube.merge("GPTService", "gpt", namespace, {"spec": {"maxTokens": 7}})
        wait_until(lambda: uids(observer), lambda now: len(now) == 2 and not now & before, "two other pods")
        observer.wait(lambda o: holds(o, "Available"), "to serve again")
        assert strategy(observer) == (0, 2)

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

    def test_nor_does_it_go_for_another_service_s_pod(
        self, stable: Stable, kube: Kube, namespace: str, observer: Observer
    ) -> None:
        stable(gpu=WHOLE_NODE, rollout={"surgeWaitSeconds": 1})
        pods = uids(observer)
        kube.apply(service("queued", gpu=WHOLE_NODE), namespace)
        observer.wait(lambda o: holds(o, "Ready", "False", "InsufficientGPU"), "InsufficientGPU", "queued")
        kube.merge("GPTService", "gpt", namespace, {"spec": {"maxTokens": 7}})
        told = wait_reason(observer, "RolloutBlocked")
        assert f"{namespace}/queued-" in condition(told, "Degraded")["message"]
        assert pods < uids(observer)
        kube.delete("GPTService", "queued", namespace)
        observer.wait_ready()

    def test_a_pod_that_never_starts_after_the_switch_brings_the_old_revision_back(
        self, stable: Stable, kube: Kube, namespace: str, observer: Observer
    ) -> None:
        before = stable(gpu=WHOLE_NODE, rollout={"surgeWaitSeconds": 1}, drainTimeoutSeconds=0)
        unpulled = [{"name": "E2E_MODE", "value": "image-pull"}]
        kube.merge("GPTService", "gpt", namespace, {"spec": {"engine": {"env": unpulled}}})
        wait_reason(observer, "ImagePullFailed")
        told = observer.wait(lambda o: holds(o, "Ready", "False", "RolledBack"), "RolledBack", timeout=60)
        assert "ImagePullFailed" in condition(told, "Degraded")["message"]
        observer.wait_rolled("gpt", lambda d: revision_of(d) == before, "the stable revision to serve again")

    def test_a_failure_after_the_switch_brings_the_old_revision_back(
        self,
        stable: Stable,
        operator: OperatorProcess,
        board: Switchboard,
        kube: Kube,
        namespace: str,
        observer: Observer,
    ) -> None:
        before = stable(gpu=WHOLE_NODE, rollout={"surgeWaitSeconds": 0})
        kube.merge("GPTService", "gpt", namespace, {"spec": {"engine": {"env": FAILING}}})
        wait_reason(observer, "RolledBack")
        observer.wait_rolled("gpt", lambda d: revision_of(d) == before, "the stable revision to serve again")
        told = observer.wait(
            lambda o: holds(o, "Available") and "nothing served for " in condition(o, "Degraded")["message"],
            "to serve, and to say how long nothing did",
        )
        operator.restart()
        settle(board, {namespace})
        assert condition(observer.gpt(), "Degraded") == condition(told, "Degraded")
