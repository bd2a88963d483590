"""What becomes of a revision: whether it is rolled out, how, and whether the stable one has to come back.

What was decided once is a mark on its ControllerRevision, so that neither a restart nor pods that are gone forget it.
Which revision is stable is told by ``status.stableRevision``, that says so already.
"""

import dataclasses
import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from . import capacity, evidence, names, outage, pod_state, revisions, wording
from .api import conditions
from .api.body import Body, section
from .capacity import Stuck
from .cause import Cause
from .marks import Marks
from .render.resolved import ResolvedRollout
from .revisions import Kept

MAX_CAUSE = 1024
"""Longest cause that is kept, in characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What a revision's fate is decided on."""

    service: Body
    current: Kept
    """The revision of the spec, kept or about to be."""
    known: Mapping[str, Kept]
    stable: Kept | None
    """The last one that proved stable; it may be the current one."""
    deployment: Body | None
    """The live one, if it is the service's."""
    pods: Sequence[Body]
    rollout: ResolvedRollout
    replicas: int
    """How many are asked for; 0 for a stopped service."""

    @property
    def running(self) -> str | None:
        """The key that the Deployment's template carries."""
        return revisions.key_of_template(section(self.deployment or {}, "spec", "template"))

    @property
    def wanted(self) -> int:
        """How many pods the Deployment is to have at present."""
        count = section(self.deployment or {}, "spec").get("replicas")
        return count if isinstance(count, int) else self.replicas

    @property
    def way_back(self) -> Kept | None:
        """What the current revision can be rolled back to."""
        stable = self.stable
        return stable if stable is not None and stable.key != self.current.key else None

    def present(self) -> list[Body]:
        """Return the pods of the Deployment that stay; those that the kubelet has given up do nothing any more."""
        return [pod for pod in pod_state.of_deployment(self.pods, self.deployment) if not pod_state.has_failed(pod)]

    def of_revision(self, key: str) -> list[Body]:
        """Return those of one revision."""
        return [pod for pod in self.present() if revisions.key_of_template(pod) == key]

    def others(self, key: str) -> list[Body]:
        """Return those of all other revisions."""
        return [pod for pod in self.present() if revisions.key_of_template(pod) != key]


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


def judge(case: Case, now: datetime.datetime) -> Fate:
    """Decide on the current revision.

    Args:
        case: the facts.
        now: the wall clock, with a time zone.
    """
    marks = _remembered(case, now)
    marks = dataclasses.replace(marks, freeing=_freeing(case, marks))
    waits = _Waits() if marks.failed is not None else _waits(case, marks, now)
    if marks.failed is None and case.rollout.auto_rollback and case.way_back is not None and case.replicas:
        failure = waits.hopeless or _evidence(case, marks)
        if failure is not None:
            marks = _failed(case, marks, failure, now)
    back_to = case.way_back if marks.failed is not None else None
    if back_to is not None:
        marks = dataclasses.replace(marks, outage=outage.ended(marks.outage, case.present()))
    if _is_over(case, (back_to or case.current).key):
        marks = dataclasses.replace(marks, switched=None, freeing=None)
    elif marks.switched is None and ((back_to is None and waits.is_to_switch) or _lacks_an_old_pod(case, back_to)):
        marks = dataclasses.replace(marks, switched=_text(now))
    if back_to is not None:
        return Fate(marks=marks, back_to=back_to, cause=_rolled_back(case, back_to, marks))
    if waits.is_to_switch:
        return Fate(marks=marks, again=case.rollout.surge_wait_seconds)
    return Fate(marks=marks, cause=waits.hopeless or waits.blocked, again=waits.again)


def _remembered(case: Case, now: datetime.datetime) -> Marks:
    """A failure is forgotten on a retry, once the user wants no rollbacks, or where there is nothing to go back to.

    A revision that the Deployment is about to run may have pods already: of before it was rolled back, or of before the
    spec left it. What they tell of that time is no news.
    """
    marks = Marks.of(case.current.marks)
    if marks.failed is not None and revisions.retry(case.service) != marks.retry_seen:
        return Marks(tried=_text(now), gpu_unhealthy=marks.gpu_unhealthy)
    if not case.rollout.auto_rollback or case.way_back is None:
        return Marks(switched=marks.switched, freeing=marks.freeing, gpu_unhealthy=marks.gpu_unhealthy)
    key = case.current.key
    if (marks.failed or marks.tried) is None and case.running not in (None, key) and case.of_revision(key):
        return dataclasses.replace(marks, tried=_text(now))
    return marks


def _failed(case: Case, marks: Marks, failure: Cause, now: datetime.datetime) -> Marks:
    cause = wording.without(f"{failure.reason.name}: {failure.message}", wording.env_values(case.service))
    return dataclasses.replace(
        marks,
        failed=wording.bounded(cause, MAX_CAUSE),
        retry_seen=revisions.retry(case.service),
        tried=None,
        freeing=None,
        outage=outage.begun(case.service, case.present(), _text(now)),
    )


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
    return evidence.against(case.of_revision(case.current.key), pod_state.instant(marks.tried))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Waits:
    """What comes of a new pod that the scheduler cannot place."""

    is_to_switch: bool = False
    hopeless: Cause | None = None
    """An old pod went, and it was no use."""
    blocked: Cause | None = None
    again: float | None = None


def _stuck(case: Case) -> Stuck | None:
    key = case.current.key
    return capacity.stuck(case.of_revision(key)) if case.running == key else None


def _freeing(case: Case, marks: Marks) -> str | None:
    """Return by when the pods that are on their way out are gone, while a new one waits: their place may be its.

    It is remembered, for the scheduler takes a moment to see that they have gone, and nothing tells of them then.
    """
    if (marks.failed or marks.switched) is not None or _stuck(case) is None:
        return marks.freeing
    made = pod_state.made_by(case.pods, case.deployment)
    leaving = [pod for pod in made if pod_state.is_leaving(pod) and pod_state.has_node(pod)]
    times = [str(pod["metadata"]["deletionTimestamp"]) for pod in leaving]
    return max([*times, *filter(None, [marks.freeing])], default=None)


def _waits(case: Case, marks: Marks, now: datetime.datetime) -> _Waits:
    stuck = _stuck(case)
    if stuck is None:
        return _Waits()
    switched = pod_state.instant(marks.switched)
    if switched is not None:
        return _after_the_switch(case, stuck, switched, now)
    old = case.others(case.current.key)
    if not old:
        return _Waits()
    begun = max(stuck.since, pod_state.instant(marks.freeing) or stuck.since)
    left = case.rollout.surge_wait_seconds - (now - begun).total_seconds()
    if left > 0:
        return _Waits(again=left)
    if _can_switch(case, stuck, old):
        return _Waits(is_to_switch=True)
    return _Waits(blocked=_blocked(stuck))


def _can_switch(case: Case, stuck: Stuck, old: Sequence[Body]) -> bool:
    """Return whether the strategy is ours to choose and taking an old pod away can help."""
    resource = section(case.current.data, "effective").get("gpuResourceName")
    if case.rollout.is_chosen or not stuck.lacks(str(resource)):
        return False
    held = [case.known.get(str(revisions.key_of_template(pod))) for pod in old]
    return all(one is not None and capacity.frees_enough(one.data, case.current.data) for one in held)


def _after_the_switch(case: Case, stuck: Stuck, switched: datetime.datetime, now: datetime.datetime) -> _Waits:
    """An old pod may take its whole grace period to go; what it holds is not free before."""
    grace = section(case.current.data, "template", "spec").get("terminationGracePeriodSeconds")
    budget = case.rollout.surge_wait_seconds + (grace if isinstance(grace, int) else 0)
    left = budget - (now - max(switched, stuck.since)).total_seconds()
    if left > 0:
        return _Waits(again=left)
    return _Waits(hopeless=_blocked(stuck))


def _blocked(stuck: Stuck) -> Cause:
    what = f"pod {stuck.pod} of the new revision finds no node; the scheduler says: {wording.settled(stuck.words)}"
    return Cause(conditions.ROLLOUT_BLOCKED, conditions.ROLLOUT_BLOCKED.message(what))


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
