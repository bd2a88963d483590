"""When a revision has proved itself, from the pods' own words."""

import datetime
from typing import Any

import pytest

from gptservice_operator import names, stability
from gptservice_operator.stability import Proof
from gptservice_operator.store import Observed
from tests.operator import builders
from tests.operator.builders import Body

NOW = datetime.datetime(2026, 1, 5, 12, 0, 0, tzinfo=datetime.UTC)
PERIOD = 120.0
KEY, FORMER = "aaaaaaaaaaaa", "ffffffffffff"
CURRENT, EARLIER = f"chat-{KEY}", f"chat-{FORMER}"
DEPLOYMENT: Body = {
    "metadata": {"name": "chat"},
    "spec": {"template": {"metadata": {"labels": {names.REVISION: KEY}}}},
}


def ready(name: str = "p", *, for_seconds: float = 500, key: str = KEY, **metadata: Any) -> Body:
    """Return a pod that has been ready for so long."""
    since = (NOW - datetime.timedelta(seconds=for_seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
    conditions = [builders.condition("Ready", "True", lastTransitionTime=since)]
    return {
        "metadata": {
            "name": name,
            "labels": {names.REVISION: key},
            "ownerReferences": [{"kind": "ReplicaSet", "name": "chat-6d4c", "uid": "rs"}],
            **metadata,
        },
        "status": {"conditions": conditions},
    }


def prove(
    pods: list[Body],
    *,
    before: str | None = None,
    kept: tuple[str, ...] = (CURRENT, EARLIER),
    live: Body | None = None,
    reported: Body | None = None,
) -> Proof:
    service = builders.service()
    service["status"] = {**(reported or {}), **({} if before is None else {"stableRevision": before})}
    children = {("ControllerRevision", name): Observed("u", None, {}) for name in kept}
    rolled_out = DEPLOYMENT if live is None else live
    return stability.prove(service, children, pods, rolled_out=rolled_out or None, now=NOW, period=PERIOD)


class TestTime:
    def test_it_is_stable_once_every_pod_was_ready_for_the_period(self) -> None:
        assert prove([ready("a", for_seconds=120), ready("b", for_seconds=900)]) == Proof(CURRENT, calm=True)

    def test_a_pod_that_failed_and_has_been_replaced_does_not_count(self) -> None:
        evicted = {**ready("evicted"), "status": {"phase": "Failed", "reason": "Evicted"}}
        assert prove([ready("a", for_seconds=120), evicted]) == Proof(CURRENT, calm=True)

    def test_the_youngest_pod_says_how_long_is_left(self) -> None:
        assert prove([ready("a", for_seconds=500), ready("b", for_seconds=20)]) == Proof(None, 100)

    def test_until_then_the_former_one_is_the_stable_one(self) -> None:
        assert prove([ready(for_seconds=119)], before=EARLIER) == Proof(EARLIER, 1)

    def test_what_is_stable_is_not_waited_for_again(self) -> None:
        assert prove([ready(for_seconds=5)], before=CURRENT) == Proof(CURRENT)

    def test_a_failure_is_remembered_until_all_was_calm_for_the_period(self) -> None:
        failed = {"lastFailure": {"reason": "CrashLoop"}}
        assert prove([ready(for_seconds=5)], before=CURRENT, reported=failed) == Proof(CURRENT, 115)
        assert prove([ready(for_seconds=120)], before=CURRENT, reported=failed) == Proof(CURRENT, calm=True)

    def test_a_crash_that_no_pass_has_told_yet_is_waited_for_as_well(self) -> None:
        again = ready(for_seconds=5)
        again["status"]["containerStatuses"] = [builders.container(running={}, last={"exitCode": 1})]
        assert prove([again], before=CURRENT) == Proof(CURRENT, 115)

    def test_it_says_which_pods_were_ready_for_the_period(self) -> None:
        assert prove([ready("a", for_seconds=120), ready("b", for_seconds=20)]).settled == {"a"}
        assert prove([ready("a", for_seconds=120)], live={}).settled == {"a"}

    def test_a_node_whose_clock_is_ahead_has_nobody_wait_longer_than_the_period(self) -> None:
        assert prove([ready(for_seconds=-3600)]) == Proof(None, PERIOD)

    @pytest.mark.parametrize("written", ["2026-01-05T11:00:00Z", "2026-01-05T12:00:00+01:00", "2026-01-05T11:00:00"])
    def test_the_time_is_read_in_every_form(self, written: str) -> None:
        pod = ready()
        pod["status"]["conditions"][0]["lastTransitionTime"] = written
        assert prove([pod]) == Proof(CURRENT, calm=True)

    @pytest.mark.parametrize("written", [None, "", "yesterday"])
    def test_a_time_that_cannot_be_read_proves_nothing(self, written: str | None) -> None:
        pod = ready()
        pod["status"]["conditions"][0]["lastTransitionTime"] = written
        assert prove([pod]) == Proof(None)


class TestPods:
    def test_a_pod_that_is_not_ready_has_to_change_first(self) -> None:
        waiting = ready("b")
        waiting["status"]["conditions"] = [builders.condition("Ready", "False")]
        assert prove([ready("a"), waiting], before=EARLIER) == Proof(EARLIER)

    def test_a_stopped_service_proves_nothing(self) -> None:
        assert prove([], before=EARLIER) == Proof(EARLIER)

    def test_a_pod_that_was_not_heard_of_yet_is_waited_for(self) -> None:
        two = {**DEPLOYMENT, "status": {"updatedReplicas": 2}}
        assert prove([ready("a")], live=two) == Proof(None)
        assert prove([ready("a"), ready("b")], live=two) == Proof(CURRENT, calm=True)

    @pytest.mark.parametrize(
        "other",
        [
            pytest.param(ready("b", for_seconds=1, key=FORMER), id="of another revision"),
            pytest.param(ready("b", for_seconds=1, deletionTimestamp="2026-01-05T11:59:00Z"), id="leaving"),
            pytest.param(ready("b", for_seconds=1, ownerReferences=[]), id="somebody's own with our labels"),
            pytest.param(
                ready("b", for_seconds=1, ownerReferences=[{"kind": "ReplicaSet", "name": "other-1"}]),
                id="of another Deployment",
            ),
        ],
    )
    def test_only_the_revision_s_own_pods_count(self, other: Body) -> None:
        assert prove([ready("a"), other]) == Proof(CURRENT, calm=True)
        assert prove([other]) == Proof(None)


class TestWhatIsKept:
    def test_a_rollout_under_way_leaves_the_former_one(self) -> None:
        assert prove([ready()], before=EARLIER, live={}) == Proof(EARLIER)

    def test_a_revision_that_is_no_longer_kept_is_no_longer_stable(self) -> None:
        assert prove([ready(for_seconds=1)], before=EARLIER, kept=(CURRENT,)) == Proof(None, 119)

    def test_a_template_whose_revision_is_not_kept_proves_nothing(self) -> None:
        assert prove([ready()], before=EARLIER, kept=(EARLIER,)) == Proof(EARLIER)

    def test_a_deployment_without_a_revision_proves_nothing(self) -> None:
        plain = {"metadata": {"name": "chat"}, "spec": {"template": {"metadata": {"labels": {}}}}}
        assert prove([ready()], live=plain) == Proof(None)
