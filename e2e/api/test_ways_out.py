"""What people do to a rollout that failed or is blocked, in a hurry and in any order: it ends as the last spec says."""

from __future__ import annotations

import pytest

from e2e.api.conftest import Stable
from e2e.api.quiet import assert_untouched, settle, wait_for_resyncs
from e2e.api.rolling import (
    FAILING,
    MORE_THAN_HALF,
    WHOLE_NODE,
    annotate,
    generation,
    marks,
    strategy,
    uids,
    wait_reason,
    wait_running,
    wait_tried,
)
from e2e.api.state import Observer, holds, is_stopped
from e2e.kube import Kube, Object, wait_until
from e2e.operator_process import OperatorProcess
from e2e.proxy import Switchboard

FAILS: Object = {"engine": {"env": FAILING}}
FAILS_TOO: Object = {"engine": {"env": FAILING}, "maxTokens": 9}
MENDED: Object = {"engine": None, "maxTokens": None}
OTHER: Object = {"engine": None, "maxTokens": 7}
BLOCKED: Object = {"gpu": WHOLE_NODE, "rollout": {"surgeWaitSeconds": 1}, "upgradeStrategy": "RollingUpdate"}


def edit(kube: Kube, namespace: str, spec: Object) -> None:
    kube.merge("GPTService", "gpt", namespace, {"spec": spec})


def wait_back(observer: Observer, before: str, pods: set[str]) -> None:
    """Wait until a failed revision was rolled back, and nothing of it is left."""
    wait_reason(observer, "RolledBack")
    wait_running(observer, lambda key: key == before, "the stable revision to be back")
    wait_until(lambda: uids(observer), lambda now: now == pods, "the failed pod to go, and the old one to stay")


@pytest.mark.parametrize("last", [MENDED, OTHER], ids=["the stable spec", "another one"])
def test_edits_to_and_fro_end_as_the_last_one_says(
    stable: Stable, kube: Kube, namespace: str, observer: Observer, last: Object
) -> None:
    before, pods = stable(), uids(observer)
    edit(kube, namespace, FAILS)
    wait_back(observer, before, pods)
    # Of an edit that works it is left to chance whether its pod takes the stable one's place before the next comes.
    between = (FAILS,) if last is MENDED else (FAILS, OTHER)
    for spec in (FAILS_TOO, FAILS, MENDED, *between, FAILS_TOO, last):
        edit(kube, namespace, spec)
    observer.wait_ready()
    wait_until(lambda: marks(observer), lambda now: not now, "nothing to be kept of what failed")
    assert (uids(observer) == pods) is (last is MENDED), (
        "the stable pod has served throughout only if it was not edited"
    )


def test_the_same_edit_again_is_another_try(stable: Stable, kube: Kube, namespace: str, observer: Observer) -> None:
    before, pods = stable(), uids(observer)
    for _ in range(2):
        edit(kube, namespace, FAILS)
        wait_back(observer, before, pods)
        edit(kube, namespace, MENDED)
        observer.wait_ready()


def test_a_retry_of_the_same_value_is_none(
    stable: Stable, board: Switchboard, kube: Kube, namespace: str, observer: Observer
) -> None:
    before, pods = stable(), uids(observer)
    annotate(kube, namespace, "1")
    edit(kube, namespace, FAILS)
    wait_back(observer, before, pods)
    settle(board, {namespace})

    def again() -> None:
        kube.merge("GPTService", "gpt", namespace, {"metadata": {"annotations": {"ai.example.com/retry": "1"}}})
        wait_for_resyncs(board, 1)

    assert_untouched(observer, again)
    tries = generation(observer)
    annotate(kube, namespace, "2")
    wait_tried(observer, tries, before)
    wait_back(observer, before, pods)


def test_deleting_what_is_kept_of_both_revisions_takes_nothing_away(
    stable: Stable, operator: OperatorProcess, board: Switchboard, kube: Kube, namespace: str, observer: Observer
) -> None:
    before, pods = stable(), uids(observer)
    edit(kube, namespace, FAILS)
    wait_back(observer, before, pods)
    settle(board, {namespace})
    for one in observer.revisions():
        kube.delete("ControllerRevision", one["metadata"]["name"], namespace)
    wait_until(lambda: len(observer.revisions()), lambda count: count >= 1, "a revision to be kept again")
    settle(board, {namespace})
    assert pods <= uids(observer), "the pod that serves"
    edit(kube, namespace, OTHER)
    observer.wait_ready()


def test_a_stop_ends_a_blocked_rollout_and_a_start_goes_on_with_it(
    stable: Stable, kube: Kube, namespace: str, observer: Observer
) -> None:
    before = stable(**BLOCKED)
    edit(kube, namespace, OTHER)
    wait_reason(observer, "RolloutBlocked")
    kube.scale("gpt", namespace, 0)
    observer.wait(is_stopped, "to be stopped")
    kube.scale("gpt", namespace, 1)
    observer.wait_ready()
    assert wait_running(observer, bool, "a revision") != before


def test_a_blocked_rollout_goes_on_once_an_old_pod_may_go(
    stable: Stable, kube: Kube, namespace: str, observer: Observer
) -> None:
    stable(**BLOCKED)
    edit(kube, namespace, OTHER)
    wait_reason(observer, "RolloutBlocked")
    edit(kube, namespace, {"upgradeStrategy": None, "rollout": {"maxSurge": 0, "maxUnavailable": 1}})
    observer.wait_ready()


def test_a_blocked_rollout_goes_back_with_its_edit(
    stable: Stable, kube: Kube, namespace: str, observer: Observer
) -> None:
    stable(**{**BLOCKED, "gpu": MORE_THAN_HALF})
    pods = uids(observer)
    edit(kube, namespace, {"gpu": WHOLE_NODE})
    wait_reason(observer, "RolloutBlocked")
    edit(kube, namespace, {"gpu": MORE_THAN_HALF})
    observer.wait_ready()
    assert uids(observer) == pods


def test_an_edit_is_taken_back_while_the_old_pod_makes_room(
    stable: Stable, kube: Kube, namespace: str, observer: Observer
) -> None:
    """The pods of the edit wait for ever; the old pod's place is free again once they are gone."""
    before = stable(gpu=WHOLE_NODE, rollout={"surgeWaitSeconds": 0})
    edit(kube, namespace, {"engine": {"env": [{"name": "E2E_MODE", "value": "pending"}]}})
    wait_until(lambda: strategy(observer), lambda now: now == (0, 1), "an old pod to go first")
    edit(kube, namespace, {"engine": None})
    observer.wait_ready()
    wait_running(observer, lambda key: key == before, "the stable revision")
    wait_until(lambda: marks(observer), lambda now: not now, "nothing to be kept of it")
    assert holds(observer.gpt(), "Degraded", "False")
