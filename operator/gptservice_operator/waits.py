"""What comes of a new pod that waits: whether an old one goes for it, and when it was no use that one did.

While the old pods serve, a new one may wait for a node, an image or a Secret as long as it takes. Once one of them was
taken away for it, each such wait is an outage that only the way back ends.
"""

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from . import blocked, capacity, causes, evidence, pod_state, revisions, rivals
from .api import conditions
from .api.body import Body, section
from .capacity import Stuck
from .case import Case
from .cause import Cause
from .marks import Marks

NEVER_STARTS = frozenset(
    {
        conditions.IMAGE_PULL_FAILED,
        conditions.INVALID_IMAGE,
        conditions.SECRET_NOT_FOUND,
        conditions.VOLUME_NOT_READY,
        conditions.VOLUME_IN_USE,
        conditions.NO_SCHEDULER,
        conditions.API_KEYS_UNUSABLE,
        conditions.CERTIFICATE_UNUSABLE,
    }
)
"""What is named as the reason why a pod does not begin with its model, and what time alone does not mend."""
FAILED_PODS_THAT_COUNT = 2
"""One that the kubelet gives up may be the node's fault."""
RIVALS_AGAIN_SECONDS = 10.0
"""How often it is looked whether another service's pod waits still."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """What comes of a new pod that waits."""

    is_to_switch: bool = False
    hopeless: Cause | None = None
    """An old pod went, and it was no use."""
    blocked: Cause | None = None
    again: float | None = None
    """Seconds until it may be another, though nothing happens."""


def judge(case: Case, marks: Marks, now: datetime.datetime) -> Waits:
    """Decide on the new pods that wait.

    Args:
        case: the facts.
        marks: what is known of the current revision.
        now: the wall clock, with a time zone.
    """
    switched = pod_state.instant(marks.switched)
    if switched is not None:
        return _after_the_switch(case, marks, switched, now)
    stuck, old = unplaced(case), case.older()
    if stuck is None or not old:
        return Waits()
    begun = max(stuck.since, pod_state.instant(marks.freeing) or stuck.since)
    left = case.rollout.surge_wait_seconds - (now - begun).total_seconds()
    if left > 0:
        return Waits(again=left)
    if not _can_switch(case, stuck, old):
        return Waits(blocked=blocked.by_shortage(case, stuck))
    if closed := _closed(case, stuck):
        return Waits(blocked=blocked.by_closed_nodes(case, stuck, closed))
    if ahead := _ahead(case, stuck, old):
        # Nothing wakes this service when another's pod has gone.
        return Waits(blocked=blocked.by_others(case, stuck, rivals.told(ahead)), again=RIVALS_AGAIN_SECONDS)
    return Waits(is_to_switch=True)


def unplaced(case: Case) -> Stuck | None:
    """Return the new pod that waits longest for a node; None if none does."""
    return capacity.stuck(case.newest()) if case.running == case.current.key else None


def freeing(case: Case, marks: Marks) -> str | None:
    """Return by when the pods that are on their way out are gone, while a new one waits: their place may be its.

    It is remembered, for the scheduler takes a moment to see that they have gone, and nothing tells of them then.
    """
    if (marks.failed or marks.switched) is not None or unplaced(case) is None:
        return marks.freeing
    made = pod_state.made_by(case.pods, case.deployment)
    leaving = [pod for pod in made if pod_state.is_leaving(pod) and pod_state.has_node(pod)]
    times = [str(pod["metadata"]["deletionTimestamp"]) for pod in leaving]
    return max([*times, *filter(None, [marks.freeing])], default=None)


def _can_switch(case: Case, stuck: Stuck, old: Sequence[Body]) -> bool:
    """Return whether the strategy is ours to choose and taking an old pod away can help."""
    if case.rollout.is_chosen or not stuck.lacks(_resource(case)):
        return False
    if capacity.has_grown(_waiting(case, stuck), _spec(case), old):
        return False
    kept = [case.known.get(str(revisions.key_of_template(pod))) for pod in old]
    return all(one is not None and capacity.frees_enough(one.data, case.current.data) for one in kept)


def _closed(case: Case, stuck: Stuck) -> list[str]:
    """Return why an old pod's node may not take the new one, though it were free."""
    live = section(case.deployment or {}, "spec", "template", "spec")
    return stuck.closed(is_narrowed=bool(live) and capacity.is_narrowed(live, _spec(case)))


def _waiting(case: Case, stuck: Stuck) -> Body:
    return next(pod for pod in case.present() if pod["metadata"]["name"] == stuck.pod)


def _spec(case: Case) -> Body:
    return section(case.current.data, "template", "spec")


def _ahead(case: Case, stuck: Stuck, old: Sequence[Body]) -> list[str]:
    """Return whose pods would get what an old one gives up."""
    # Admission sets it from the PriorityClass; all else is as it was rendered.
    ours = {**_spec(case), "priority": section(_waiting(case, stuck), "spec").get("priority")}
    kept = [case.known[str(revisions.key_of_template(pod))] for pod in old]
    places = [section(one.data, "template", "spec") for one in kept]
    return rivals.ahead(case.waiting, _resource(case), ours, places)


def _resource(case: Case) -> str:
    return str(section(case.current.data, "effective").get("gpuResourceName"))


@dataclass(frozen=True, slots=True)
class _Hindrance:
    """What keeps a new pod from starting, though an old one went for it."""

    since: datetime.datetime
    budget: float
    """Seconds that it may last."""
    cause: Cause
    is_failure: bool = True
    """Whether going back can help."""


def _after_the_switch(case: Case, marks: Marks, switched: datetime.datetime, now: datetime.datetime) -> Waits:
    """Return that it was no use once something has kept a new pod from starting for too long."""
    if case.running != case.current.key:
        return Waits()
    found = list(_hindrances(case, marks, switched))
    left = [one.budget - (now - max(switched, one.since)).total_seconds() for one in found]
    over = [one for one, seconds in zip(found, left, strict=True) if seconds <= 0]
    # What lasts too long does not end by itself.
    again = min((seconds for seconds in left if seconds > 0), default=None)
    for one in over:
        if one.is_failure:
            return Waits(hopeless=one.cause)
    return Waits(blocked=over[0].cause if over else None, again=again)


def _hindrances(case: Case, marks: Marks, switched: datetime.datetime) -> Iterator[_Hindrance]:
    """Yield them, what the scheduler says first."""
    key, budget = case.current.key, _budget(case)
    stuck = unplaced(case)
    if stuck is not None:
        closed = _closed(case, stuck)
        is_failure = not (closed or _lacks_what_it_lacked(case, stuck, marks))
        since = _lost_since(case, marks) or stuck.since
        yield _Hindrance(since, budget, blocked.in_vain(case, stuck, closed), is_failure)
    if case.way_back is None:
        return
    for pod in case.of_revision(key):
        if not pod_state.is_ready(pod):
            yield from _of_pod(case, pod, budget)
    given_up = _given_up(case, marks, switched)
    if given_up:
        what = f"pods of {pod_state.replica_set(given_up[0])} fail one after another"
        yield _Hindrance(_made(given_up[0], switched), budget, causes.of_failed(given_up[0], what))
    refused = pod_state.condition(case.deployment or {}, "ReplicaFailure")
    cause = causes.find([], case.deployment)
    if refused.get("status") == "True" and cause is not None and not case.of_revision(key):
        yield _Hindrance(pod_state.instant(refused.get("lastTransitionTime")) or switched, budget, cause)


def _budget(case: Case) -> float:
    """An old pod may take its whole grace period to go; what it holds is not free before."""
    grace = _spec(case).get("terminationGracePeriodSeconds")
    return case.rollout.surge_wait_seconds + (grace if isinstance(grace, int) else 0)


def _lacks_what_it_lacked(case: Case, stuck: Stuck, marks: Marks) -> bool:
    """Return whether as many pods have a node as before the switch: the others found no GPU before either."""
    if marks.places is None or not stuck.lacks(_resource(case)):
        return False
    return case.placed >= min(marks.places, case.wanted)


def _lost_since(case: Case, marks: Marks) -> datetime.datetime | None:
    """Return since when fewer pods have a node than before: others wait for one since long, and that is nothing new."""
    short = min(marks.places, case.wanted) - case.placed if marks.places is not None else 0
    waiting = [pod for pod in case.present() if not pod_state.has_node(pod)]
    if short <= 0:
        return None
    if len(waiting) < case.wanted - case.placed:
        return datetime.datetime.max.replace(tzinfo=datetime.UTC)  # those in their place are not made yet
    made = sorted((at for pod in waiting if (at := pod_state.created(pod)) is not None), reverse=True)
    return made[short - 1] if len(made) >= short else None


def _waits_for_any(case: Case, cause: Cause) -> bool:
    """Return whether the pods of the revision before would wait for the same scheduler."""
    if cause.reason is not conditions.NO_SCHEDULER or case.way_back is None:
        return False
    before = section(case.way_back.data, "template", "spec")
    return before.get("schedulerName") == _spec(case).get("schedulerName")


def _of_pod(case: Case, pod: Body, budget: float) -> Iterator[_Hindrance]:
    """An image may take long to come, of which nothing tells: a pod that says nothing has its start-up budget."""
    cause = causes.find([pod_state.only(pod, case.containers)], None, case.complaints)
    others = causes.find([pod_state.only(pod, case.containers, others=True)], None)
    scheduled = pod_state.instant(pod_state.condition(pod, "PodScheduled").get("lastTransitionTime"))
    since = scheduled or pod_state.created(pod)
    if cause is None or since is None:
        return
    if cause.reason in NEVER_STARTS:
        yield _Hindrance(since, budget, cause, is_failure=not _waits_for_any(case, cause))
    elif others is not None and (others.reason in NEVER_STARTS or others.reason.failing):
        # Whoever puts a container into the pods puts it into those of any revision.
        yield _Hindrance(since, budget, others, is_failure=False)
    elif cause.reason is conditions.PODS_STARTING and not _runs(pod):
        yield _Hindrance(since, max(budget, case.startup_timeout), cause)


def _runs(pod: Body) -> bool:
    return any("running" in section(container, "state") for container in pod_state.container_statuses(pod))


def _given_up(case: Case, marks: Marks, switched: datetime.datetime) -> list[Body]:
    """Return the pods that the kubelet gave up in this try, if it does so again and again and none serves."""
    key, tried = case.current.key, pod_state.instant(marks.tried)
    if any(map(pod_state.is_ready, case.of_revision(key))):
        return []
    pods = [pod for pod in case.given_up(key) if tried is None or _made(pod, tried) >= tried]
    pods = [pod for pod in pods if not evidence.is_the_nodes(pod, case.containers)]
    goes_on = any(_made(pod, switched) >= switched for pod in pods)
    return pods if goes_on and len(pods) >= FAILED_PODS_THAT_COUNT else []


def _made(pod: Body, otherwise: datetime.datetime) -> datetime.datetime:
    return pod_state.created(pod) or otherwise
