"""Pods that hold a device which is called unhealthy: which of them is deleted, and when, so that it gets another one.

Kubernetes itself leaves such a pod where it is. What its device plugin says is in ``allocatedResourcesStatus`` of the
container's status, from Kubernetes 1.36 on.
"""

import datetime
from collections.abc import Sequence
from dataclasses import dataclass

from . import pod_state
from .api.body import Body

PERIOD_SECONDS = 600
"""At most one pod of a service is deleted in it: a plugin that calls one device after the other unhealthy, or all of
them, must not keep a service from serving."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """What is to be done about a service's pods with unhealthy devices."""

    pod: str | None = None
    """Name of the pod that is to be deleted; None for none."""
    uid: str = ""
    mark: str | None = None
    """Which was deleted last, and when, as ``uid/time``; it has to be kept before anything is deleted."""
    again: float | None = None
    """Seconds after which one may be deleted, if nothing changes."""


def decide(pods: Sequence[Body], deployment: Body | None, mark: str | None, now: datetime.datetime) -> Replacement:
    """Return which pod goes: one that does not serve before one that does, and of those only where another one serves.

    Args:
        pods: those with the service's labels.
        deployment: the live Deployment, if it is ours.
        mark: what was kept when one was deleted last.
        now: the wall clock, with a time zone.
    """
    ours = [pod for pod in pod_state.made_by(pods, deployment) if not pod_state.has_failed(pod)]
    ill = [pod for pod in ours if pod_state.unhealthy_devices(pod)]
    if not ill or deployment is None or any(map(pod_state.is_leaving, ill)):
        return Replacement(mark=mark)
    serving = [pod for pod in ours if pod_state.is_ready(pod) and not pod_state.is_leaving(pod)]
    free = [pod for pod in ill if not pod_state.is_ready(pod)] or (ill if len(serving) > 1 else [])
    if not free:
        return Replacement(mark=mark)
    last_uid, _, last_at = (mark or "").partition("/")
    for pod in free:
        if pod["metadata"]["uid"] == last_uid:
            # It was decided, and the deletion has not come through.
            return Replacement(pod["metadata"]["name"], last_uid, mark)
    before = pod_state.instant(last_at)
    left = PERIOD_SECONDS - (now - before).total_seconds() if before is not None else 0
    if left > 0:
        return Replacement(mark=mark, again=left)
    chosen = free[0]["metadata"]
    return Replacement(chosen["name"], chosen["uid"], f"{chosen['uid']}/{now.strftime('%Y-%m-%dT%H:%M:%SZ')}")
