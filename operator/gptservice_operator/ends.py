"""Why a container ended: the runtime's own word comes first; then what the kubelet knows."""

import json

from gptservice_runtime import contract

from .api import conditions
from .api.body import Body
from .api.conditions import Reason
from .cause import Cause

START_REASONS = frozenset(
    {"CreateContainerConfigError", "RunContainerError", "CreateContainerError", "StartError", "ContainerCannotRun"}
)
"""Why the kubelet cannot start a container."""
_OF_THE_RUNTIME = {
    name: conditions.REASONS[name]
    for constant, name in vars(contract).items()
    if constant.startswith("REASON_") and name in conditions.REASONS
}
"""Any program may write a termination message: one that calls itself Ready is not believed."""


def of_container(pod: str, container: Body, ended: Body) -> Cause:
    """Return why a container ended. The runtime's own word comes first; then what the kubelet knows.

    Args:
        pod: its pod's name.
        container: its status.
        ended: the ``terminated`` part of its state or last state.
    """
    where = f"pod {pod}, container {container.get('name')}"
    code = ended.get("exitCode")
    reason, what = _told(ended) or _known(ended)
    return Cause.of(reason, f"{where}{what}", pod, code)


def _told(ended: Body) -> tuple[Reason, str] | None:
    try:
        told = json.loads(ended.get("message") or "")
        return _OF_THE_RUNTIME[told["reason"]], f": {told['message']}"
    except (ValueError, KeyError, TypeError):
        return None


def _known(ended: Body) -> tuple[Reason, str]:
    if ended.get("reason") == "OOMKilled":
        return conditions.OUT_OF_MEMORY, " was killed for want of memory"
    if ended.get("reason") in START_REASONS:
        return conditions.INVALID_IMAGE, f": {said(ended)}"
    if ended.get("reason") == "ContainerStatusUnknown":
        return conditions.NODE_LOST, f": {said(ended)}"
    return conditions.CRASH_LOOP, f" ended with exit code {ended.get('exitCode')}"


def said(state: Body) -> str:
    """Return the kubelet's own words of a state."""
    return f"{state.get('reason')}: {state.get('message') or 'no message'}"
