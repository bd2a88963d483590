"""``status.lastFailure``: what went wrong last, also when the container runs again by the time that somebody looks."""

from collections.abc import Iterator, Sequence
from typing import Any

from . import causes, ends, pod_state
from .api import conditions
from .api.body import Body, entries, section
from .cause import Cause


def last_failure(
    pods: Sequence[Body], cause: Cause | None, old: Body, now: str, settled: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """Return the newest failure that is known; empty if there is none.

    Args:
        pods: the pods that the service's Deployment made, those that leave among them.
        cause: why the service is not ready now, if it is not.
        old: what was reported last.
        now: start of the pass, RFC 3339.
        settled: names of the pods that have been ready for the stable period.
    """
    found = [told for pod in pods if pod["metadata"]["name"] not in settled for told in _of_pod(pod)]
    found += [_told(ill, _since(ill, old) or now) for pod in pods if (ill := causes.of_devices(pod)) is not None]
    found += _failed([pod for pod in pods if not pod_state.is_leaving(pod)], old, settled)
    if cause is not None and cause.reason.failing and _is_of_a_live_pod(cause, pods) and not cause.exit_code:
        found.append(_told(cause, _since(cause, old) or now))
    if old:
        found.append(_remembered(old, pods))
    nothing: dict[str, Any] = {}
    return max(found, key=lambda failure: str(failure.get("time")), default=nothing)


def _remembered(old: Body, pods: Sequence[Body]) -> dict[str, Any]:
    """A pod that is gone has no logs to read."""
    known = conditions.REASONS.get(str(old.get("reason")))
    if known is None or any(old.get("pod") == pod["metadata"]["name"] for pod in pods):
        return dict(old)
    return {**old, "message": known.lasting(str(old.get("message") or ""))}


def _is_of_a_live_pod(cause: Cause, pods: Sequence[Body]) -> bool:
    failed = {pod["metadata"]["name"] for pod in pods if pod_state.has_failed(pod)}
    return bool(cause.pod) and cause.pod not in failed


def _of_pod(pod: Body) -> Iterator[dict[str, Any]]:
    if pod_state.has_failed(pod):
        return
    if pod_state.is_leaving(pod):
        disruption = causes.of_disruption(pod)
        if disruption is not None:
            yield _told(disruption, str(pod_state.condition(pod, "DisruptionTarget").get("lastTransitionTime")))
        return
    for container in pod_state.container_statuses(pod):
        for state in ("state", "lastState"):
            ended = section(container, state, "terminated")
            if ended.get("exitCode") and ended.get("finishedAt"):
                yield _told(ends.of_container(pod["metadata"]["name"], container, ended), str(ended["finishedAt"]))


def _failed(pods: Sequence[Body], old: Body, settled: frozenset[str]) -> Iterator[dict[str, Any]]:
    """Yield the pods that are over. Of a kind of which one is told and still there, further ones are no news."""
    failed = pod_state.recently_failed(pods, settled)
    names = {pod["metadata"]["name"] for pod in failed}
    for pod in failed:
        name = pod["metadata"]["name"]
        cause = causes.of_failed(pod, f"pod {name} failed")
        if old.get("reason") != cause.reason.name or old.get("pod") not in names:
            yield _told(cause, _over_since(pod))


def _over_since(pod: Body) -> str:
    """A pod that never ran has no time but that at which it was made."""
    changed = [str(one.get("lastTransitionTime") or "") for one in entries(pod, "status", "conditions")]
    return max([*changed, str(pod["metadata"].get("creationTimestamp") or "")])


def _since(cause: Cause, old: Body) -> str | None:
    """A failure that lasts keeps the time at which it was seen first."""
    same = (old.get("reason"), old.get("pod")) == (cause.reason.name, cause.pod)
    return old.get("time") if same else None


def _told(cause: Cause, time: str) -> dict[str, Any]:
    told: dict[str, Any] = {"reason": cause.reason.name, "message": cause.message, "pod": cause.pod, "time": time}
    return {**told, "exitCode": cause.exit_code} if cause.exit_code else told
