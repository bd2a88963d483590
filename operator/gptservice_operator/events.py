"""Why a pod cannot begin: only its Events say, which are listed for a stuck pod and never watched."""

import datetime
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from . import errors, pod_state
from .api import conditions
from .api.body import Body, section
from .cause import VOLUME_IS_HELD, Complaint
from .cluster import Cluster
from .extract import Key

logger = logging.getLogger(__name__)

STUCK_SECONDS = 15.0
"""How long a pod may be in ContainerCreating before its Events are looked at; then the time to the next look."""
UNSEEN_SECONDS = 60.0
"""How long no scheduler may have looked at a pod before that is said; one that is busy takes seconds."""
LONGEST_WAIT_SECONDS = 300.0
"""The wait doubles with each look at the same pod, up to this."""
MAX_LOOKS = 3
"""Pods of one service that are looked at in one pass; siblings mount the same volumes."""

_PASSED = frozenset({"Pulling", "Pulled", "Created", "Started"})
"""What the kubelet says once every volume is mounted."""
_CREATING = frozenset({"ContainerCreating", "PodInitializing"})
_MISSING_SECRET = re.compile(r'secret "([^"]+)" not found|references non-existent secret key')
_REASONS = {
    "FailedMount": conditions.VOLUME_NOT_READY,
    "FailedMapVolume": conditions.VOLUME_NOT_READY,
    "FailedAttachVolume": conditions.VOLUME_NOT_READY,
    "FailedCreatePodSandBox": conditions.PODS_STARTING,
}
_WHICH_ALONE = "Unable to attach or mount volumes"
"""So begins what says which volumes are not there, and not why."""


@dataclass(frozen=True, slots=True)
class Found:
    """What is known of a service's stuck pods."""

    complaints: Mapping[str, Complaint] = field(default_factory=dict[str, Complaint])
    """By pod UID; from this look or an earlier one."""
    fresh: frozenset[str] = frozenset()
    """Names of the Secrets that this look has found missing."""
    again: float | None = None
    """Seconds until the next look; None if no pod is stuck."""

    def without(self, name: str) -> "Found":
        """Return the same without one Secret, which is nobody's task to create."""
        return replace(self, complaints={uid: one for uid, one in self.complaints.items() if one.secret != name})


@dataclass(slots=True)
class _Pod:
    """What is remembered of a stuck pod."""

    due: datetime.datetime
    wait: float = STUCK_SECONDS
    complaint: Complaint | None = None
    is_unseen: bool = False
    """Whether no scheduler has looked at it: no Event tells that."""


@dataclass(slots=True)
class Mounts:
    """Looks at the Events of stuck pods, ever more seldom. It remembers no pod that is not stuck."""

    _pods: dict[Key, dict[str, _Pod]] = field(default_factory=dict[Key, dict[str, _Pod]])

    def forget(self, key: Key) -> None:
        """Drop what is remembered of a service that is gone."""
        self._pods.pop(key, None)

    def known(self, key: Key) -> dict[str, Complaint]:
        """Return what earlier looks have found of a service's stuck pods, by pod UID."""
        return _complaints_of(self._pods.get(key, {}))

    async def look(
        self, cluster: Cluster, key: Key, pods: Sequence[Body], deployment: Body | None, now: datetime.datetime
    ) -> Found:
        """Return why the pods of a service's Deployment are stuck. An API error is logged and means: not known."""
        known = self._known(key, pod_state.of_deployment(pods, deployment), now)
        due = [uid for uid, pod in known.items() if pod.due <= now][:MAX_LOOKS]
        for uid in due:
            pod = known[uid]
            pod.complaint = unseen(deployment) if pod.is_unseen else await _complaint(cluster, key[0], uid)
            pod.due, pod.wait = now + datetime.timedelta(seconds=pod.wait), min(pod.wait * 2, LONGEST_WAIT_SECONDS)
        complaints = _complaints_of(known)
        return Found(
            complaints=complaints,
            fresh=frozenset(secret for uid in due if uid in complaints and (secret := complaints[uid].secret)),
            again=min((max(0.0, (pod.due - now).total_seconds()) for pod in known.values()), default=None),
        )

    def _known(self, key: Key, pods: Sequence[Body], now: datetime.datetime) -> dict[str, _Pod]:
        """Return the stuck pods by UID, the oldest first, with what is remembered of them."""
        before = self._pods.pop(key, {})
        stuck = {pod["metadata"]["uid"]: new for pod in pods if (new := _stuck(pod, now)) is not None}
        known = {uid: _same(before.get(uid), new) for uid, new in stuck.items()}
        if known:
            self._pods[key] = known
        return known


def _same(before: _Pod | None, new: _Pod) -> _Pod:
    """Return what is remembered of a pod that is stuck in the same way still, or the new one."""
    return before if before is not None and before.is_unseen == new.is_unseen else new


def _stuck(pod: Body, now: datetime.datetime) -> _Pod | None:
    """Return a pod that is stuck, and when to look at it first; None if it is not."""
    if pod_state.is_unseen(pod):
        made = pod_state.created(pod) or now
        return _Pod(made + datetime.timedelta(seconds=UNSEEN_SECONDS), is_unseen=True)
    since = creating_since(pod, now)
    return None if since is None else _Pod(since + datetime.timedelta(seconds=STUCK_SECONDS))


def unseen(deployment: Body | None) -> Complaint:
    """Return that no scheduler looks at a Deployment's pods, and which one they ask for."""
    asked = section(deployment or {}, "spec", "template", "spec").get("schedulerName") or "default-scheduler"
    return Complaint(conditions.NO_SCHEDULER, f"no scheduler has looked at it; it asks for {asked!r}")


def _complaints_of(pods: Mapping[str, _Pod]) -> dict[str, Complaint]:
    return {uid: pod.complaint for uid, pod in pods.items() if pod.complaint is not None}


def creating_since(pod: Body, now: datetime.datetime) -> datetime.datetime | None:
    """Return since when a pod that has a node has run no container; None if that is not so."""
    is_pending = section(pod, "status").get("phase") == "Pending"
    if not is_pending or not all(map(_has_not_run, pod_state.container_statuses(pod))):
        return None
    scheduled = pod_state.condition(pod, "PodScheduled")
    if scheduled.get("status") != "True":
        return None
    return pod_state.instant(scheduled.get("lastTransitionTime")) or now


def _has_not_run(container: Body) -> bool:
    if section(container, "lastState", "terminated"):
        return False
    return section(container, "state", "waiting").get("reason") in _CREATING


async def _complaint(cluster: Cluster, namespace: str, uid: str) -> Complaint | None:
    try:
        return complaint(await cluster.events(namespace, uid))
    except errors.OperatorError as error:
        logger.warning("%s: cannot look at the events of pod %s: %s", namespace, uid, error)
        return None


def complaint(listed: Sequence[Body]) -> Complaint | None:
    """Return what tells most of why a pod does not begin, the newest of that; None once its volumes are mounted."""
    return min(_complaints(listed), key=_vagueness, default=None)


def _complaints(listed: Sequence[Body]) -> Iterator[Complaint]:
    for event in sorted(listed, key=_when, reverse=True):
        if event.get("reason") in _PASSED:
            return
        message, reason = str(event.get("message") or ""), _REASONS.get(str(event.get("reason")))
        if reason is None or not message:
            continue
        if reason is conditions.VOLUME_NOT_READY and VOLUME_IS_HELD.search(message):
            reason = conditions.VOLUME_IN_USE
        missing = _MISSING_SECRET.search(message) if event.get("reason") == "FailedMount" else None
        if missing is None:
            yield Complaint(reason, message)
        else:
            # Of a key that is missing, the kubelet does not say in which Secret.
            yield Complaint(conditions.SECRET_NOT_FOUND, message, missing[1] or "")


def _vagueness(said: Complaint) -> int:
    return (said.secret is None) + said.message.startswith(_WHICH_ALONE)


def _when(event: Body) -> str:
    """Return when an event was last seen: the two forms of Event keep that in different places."""
    return max([text for text in _times(event) if isinstance(text, str)], default="")


def _times(event: Body) -> Iterator[object]:
    yield event.get("lastTimestamp")
    yield event.get("eventTime")
    yield section(event, "series").get("lastObservedTime")
    yield section(event, "metadata").get("creationTimestamp")
