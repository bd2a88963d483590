"""``status.lastFailure``: what went wrong last, also when the container runs again by the time that somebody looks."""

from collections.abc import Iterator, Sequence
from typing import Any

from . import causes
from .api.body import Body, entries, section
from .causes import Cause


def last_failure(pods: Sequence[Body], cause: Cause | None, old: Body, now: str) -> dict[str, Any]:
    """Return the newest failure that is known; empty if there is none.

    Args:
        pods: the pods that the service's Deployment made.
        cause: why the service is not ready now, if it is not.
        old: what was reported last.
        now: start of the pass, RFC 3339.
    """
    found = [told for pod in pods for told in _ended(pod)]
    if cause is not None and cause.reason.failing and cause.pod and not cause.exit_code:
        found.append(_told(cause, _since(cause, old) or now))
    if old:
        found.append(dict(old))
    nothing: dict[str, Any] = {}
    return max(found, key=lambda failure: str(failure.get("time")), default=nothing)


def _ended(pod: Body) -> Iterator[dict[str, Any]]:
    status = section(pod, "status")
    for container in entries(status, "initContainerStatuses") + entries(status, "containerStatuses"):
        for state in ("state", "lastState"):
            ended = section(container, state, "terminated")
            if ended.get("exitCode") and ended.get("finishedAt"):
                yield _told(causes.of_end(pod["metadata"]["name"], container, ended), str(ended["finishedAt"]))


def _since(cause: Cause, old: Body) -> str | None:
    """A failure that lasts keeps the time at which it was seen first."""
    same = (old.get("reason"), old.get("pod")) == (cause.reason.name, cause.pod)
    return old.get("time") if same else None


def _told(cause: Cause, time: str) -> dict[str, Any]:
    told: dict[str, Any] = {"reason": cause.reason.name, "message": cause.message, "pod": cause.pod, "time": time}
    return {**told, "exitCode": cause.exit_code} if cause.exit_code else told
