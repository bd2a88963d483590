"""How long nothing served after a revision had failed: kept with its failure, as no object remembers it afterwards."""

from collections.abc import Sequence

from . import pod_state
from .api import conditions
from .api.body import Body

_OPEN = ".."
"""In place of the end of an interval that lasts (ISO 8601-2)."""


def begun(service: Body, pods: Sequence[Body], now: str) -> str | None:
    """Return the interval that begins because no pod serves at present; None if one does.

    Args:
        service: the service, whose ``Available`` says since when.
        pods: those that stay.
        now: the wall clock, RFC 3339.
    """
    if any(map(pod_state.is_ready, pods)):
        return None
    available = pod_state.condition(service, conditions.AVAILABLE)
    since = available.get("lastTransitionTime") if available.get("status") == "False" else None
    return f"{since or now}/{_OPEN}"


def ended(interval: str | None, pods: Sequence[Body]) -> str | None:
    """Return the interval with its end, if it lasted and a pod serves again: the pod says since when."""
    begin, _, end = (interval or "").partition("/")
    since = [moment for pod in pods if (moment := pod_state.ready_since(pod)) is not None]
    if end != _OPEN or not since:
        return interval
    return f"{begin}/{min(since).strftime('%Y-%m-%dT%H:%M:%SZ')}"


def told(interval: str | None) -> str:
    """Return what people are told of it; empty if there was none."""
    begin, _, end = (interval or "").partition("/")
    since, until = pod_state.instant(begin), pod_state.instant(end)
    if since is None:
        return ""
    if until is None:
        return f"nothing has served since {begin}"
    # The kubelet's clock may be behind ours.
    return f"nothing served for {max(0, round((until - since).total_seconds()))} s, until {end}"
