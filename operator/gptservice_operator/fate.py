"""What becomes of a revision: whether it is rolled out, how, and whether the stable one has to come back.

What was decided once is a mark on its ControllerRevision, so that neither a restart nor pods that are gone forget it.
Which revision is stable is told by ``status.stableRevision``, that says so already.
"""

import dataclasses
import datetime
from dataclasses import dataclass, field

from . import evidence, names, outage, pod_state, revisions, waits, wording
from .api import conditions
from .api.body import section
from .case import Case
from .cause import Cause
from .marks import Marks
from .revisions import Kept

MAX_CAUSE = 1024
"""Longest cause that is kept, in characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """What is to be done about the current revision."""

    marks: Marks = field(default_factory=Marks)
    back_to: Kept | None = None
    """What the Deployment runs instead."""
    cause: Cause | None = None
    """What the status says of it, before anything that is seen at the pods."""
    again: float | None = None
    """After how many seconds it may be another, though nothing happens."""

    def remembering(self, gpu_unhealthy: str | None) -> "Fate":
        """Return the same with what is kept of a pod that was deleted for its GPU."""
        return dataclasses.replace(self, marks=dataclasses.replace(self.marks, gpu_unhealthy=gpu_unhealthy))

    @property
    def takes_old_first(self) -> bool:
        """Whether an old pod goes before a new one comes, whatever the strategy says."""
        return self.marks.switched is not None

    def max_unavailable(self, wanted: int) -> int:
        """Return how many pods may be unavailable while old ones go first: those that have no place, and one that had.

        The Deployment's controller counts a pod that waits for a node as unavailable: with 1 alone, one such pod would
        keep it from taking any that serves. What it is to keep is one less than there was place for, which must not
        depend on the pods of the moment: while one drains, and before the next has its place, there are fewer.

        Args:
            wanted: how many pods there are to be.
        """
        places = self.marks.places
        return 1 if places is None else max(1, min(wanted, 1 + wanted - places))


def judge(case: Case, now: datetime.datetime) -> Fate:
    """Decide on the current revision.

    Args:
        case: the facts.
        now: the wall clock, with a time zone.
    """
    marks = _remembered(case, now)
    marks = dataclasses.replace(marks, freeing=waits.freeing(case, marks))
    wait = waits.judge(_as_run(case, marks), marks, now)
    if marks.failed is None and case.rollout.auto_rollback and case.way_back is not None and case.replicas:
        failure = wait.hopeless or _evidence(case, marks)
        if failure is not None:
            # Nothing of the new revision is waited for any more.
            marks, wait = _failed(case, marks, failure, now), waits.Waits()
    back_to = case.way_back if marks.failed is not None else None
    if back_to is not None:
        marks = dataclasses.replace(marks, outage=outage.ended(marks.outage, case.present()))
    marks = _strategy(case, marks, back_to, now, is_to_switch=wait.is_to_switch)
    again = case.rollout.surge_wait_seconds if wait.is_to_switch else wait.again
    if back_to is not None:
        return Fate(marks=marks, back_to=back_to, cause=_rolled_back(case, back_to, marks), again=again)
    return Fate(marks=marks, cause=wait.hopeless or wait.blocked, again=again)


def _as_run(case: Case, marks: Marks) -> Case:
    """Return the case of the revision whose pods may wait: somebody may restart what was rolled back to."""
    run = case.way_back if marks.failed is not None else None
    return case if run is None else dataclasses.replace(case, current=run)


def _remembered(case: Case, now: datetime.datetime) -> Marks:
    """A failure is forgotten on a retry, once the user wants no rollbacks, or where there is nothing to go back to.

    A revision that the Deployment is about to run may have pods already: of before it was rolled back, or of before the
    spec left it. What they tell of that time is no news.
    """
    marks = Marks.of(case.current.marks)
    # Who takes the annotation away does not ask for anything.
    if marks.failed is not None and revisions.retry(case.service) not in (None, marks.retry_seen):
        return Marks(tried=_text(now), gpu_unhealthy=marks.gpu_unhealthy)
    if not case.rollout.auto_rollback or case.way_back is None:
        return dataclasses.replace(marks, failed=None, retry_seen=None, tried=None, outage=None)
    key = case.current.key
    if (
        (marks.failed or marks.tried) is None
        and case.running not in (None, key)
        and (case.of_revision(key) or case.given_up(key))
    ):
        return dataclasses.replace(marks, tried=_text(now))
    return marks


def _strategy(case: Case, marks: Marks, back_to: Kept | None, now: datetime.datetime, *, is_to_switch: bool) -> Marks:
    """Return the marks with what is to be remembered of whether old pods go first, and from how many places."""
    if _is_over(case, (back_to or case.current).key):
        return dataclasses.replace(marks, switched=None, held=None, freeing=None)
    if marks.switched is not None:
        return dataclasses.replace(marks, held=_most_places(case, marks, now))
    if is_to_switch or _lacks_an_old_pod(case, back_to):
        return dataclasses.replace(marks, switched=_text(now), held=str(_places(case, now)))
    return marks


def _failed(case: Case, marks: Marks, failure: Cause, now: datetime.datetime) -> Marks:
    cause = wording.without(f"{failure.reason.name}: {failure.lasting}", wording.env_values(case.service))
    return dataclasses.replace(
        marks,
        failed=wording.bounded(cause, MAX_CAUSE),
        retry_seen=revisions.retry(case.service),
        tried=None,
        held=None,
        freeing=None,
        outage=outage.begun(case.service, case.present(), _text(now)),
    )


def _places(case: Case, now: datetime.datetime) -> int:
    """Return for how many pods there is a node; what is on its way out holds one until its time is over."""
    made = [pod for pod in pod_state.made_by(case.pods, case.deployment) if not pod_state.has_failed(pod)]
    gone_by = [pod_state.instant(pod["metadata"].get("deletionTimestamp")) for pod in made]
    return sum(pod_state.has_node(pod) and (at is None or at > now) for pod, at in zip(made, gone_by, strict=True))


def _most_places(case: Case, marks: Marks, now: datetime.datetime) -> str | None:
    """Return how many there were at most since the switch; of one that an earlier version made nothing is known.

    A way back has what there is when it begins: it may be for want of a place that it is made.
    """
    if marks.places is None:
        return str(_places(case, now)) if marks.failed is not None else marks.held
    return str(max(marks.places, _places(case, now)))


def _text(moment: datetime.datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _rolled_back(case: Case, back_to: Kept, marks: Marks) -> Cause:
    gap = f"; {told}" if (told := outage.told(marks.outage)) else ""
    what = f"revision {case.current.key} failed, and revision {back_to.key} runs instead{gap}. {marks.failed}"
    return Cause(conditions.ROLLED_BACK, conditions.ROLLED_BACK.message(what))


def _evidence(case: Case, marks: Marks) -> Cause | None:
    """Return why the current revision is to be rolled back, by the word of its own pods; None if nothing speaks for it.

    Until the Deployment runs it, its pods are of an earlier try.
    """
    if case.running != case.current.key:
        return None
    return evidence.against(case.of_revision(case.current.key), case.containers, pod_state.instant(marks.tried))


def _lacks_an_old_pod(case: Case, back_to: Kept | None) -> bool:
    """Return whether a way back begins that needs the room of the pods that failed: with a surge it would wait for it.

    A way back is a rollback, or an edit that brings the stable revision back.
    """
    target = back_to or case.current
    if case.running in (None, target.key) or case.stable is None or target.key != case.stable.key:
        return False
    left = case.known.get(str(case.running))
    if left is not None and names.SWITCHED in left.marks:
        return True
    # A user may well go back from pods that all serve.
    counted = case.of_revision(target.key) if back_to is not None else case.present()
    return sum(pod_state.is_ready(pod) for pod in counted) < case.wanted


def _is_over(case: Case, key: str) -> bool:
    """Return whether the Deployment runs this revision and nothing else, and all of it serves."""
    if case.running != key:
        return False
    body = case.deployment or {}
    status, generation = section(body, "status"), section(body, "metadata").get("generation", 0)
    counts = {status.get(name, 0) for name in ("replicas", "updatedReplicas", "readyReplicas")}
    return bool(status.get("observedGeneration", 0) >= generation and counts == {case.wanted})


def gravest(decided: Cause | None, seen: Cause | None) -> Cause:
    """Return what the status gives as the reason why the service is not as its spec says.

    A rollback has the first word; what is seen at the pods of the revision that came back is told behind it.

    Args:
        decided: what was decided about the rollout, where it does not simply go on.
        seen: what pods and Deployment tell.
    """
    if decided is None:
        return seen or Cause(conditions.ROLLING_OUT, "the Deployment is rolling out")
    if decided.reason is conditions.ROLLED_BACK:
        return decided if seen is None else Cause(decided.reason, f"{decided.message}; {seen.message}")
    return seen if seen is not None and seen.reason.failing else decided
