"""Which ends of containers and pods speak against a revision, and which are the node's, of before, or of others."""

import datetime
import re
from collections.abc import Collection, Iterator, Sequence

from . import causes, ends, pod_state
from .api import conditions
from .api.body import Body, section
from .cause import Cause

TOLD = frozenset(
    {
        conditions.MODEL_LOAD_FAILED,
        conditions.MODEL_NOT_FOUND,
        conditions.MODEL_ACCESS_DENIED,
        conditions.INVALID_ENGINE_ARGUMENT,
        conditions.CHECKSUM_MISMATCH,
        conditions.GPU_OUT_OF_MEMORY,
        conditions.DISK_FULL,
    }
)
"""Causes that the runtime itself names when it gives up: once is enough."""
SEEN = frozenset({conditions.CRASH_LOOP, conditions.OUT_OF_MEMORY})
"""Causes that are only read off how a container ended: it may be the node's fault, so that it has to happen again."""
ENDS_THAT_COUNT = 2
_OF_THE_NODE = frozenset({conditions.NODE_LOST, conditions.PREEMPTED})
"""Why a kubelet gives a pod up that would have gone on: its node shuts down, or something critical needs the room."""
_PRESSED = re.compile(r"The node (?:had condition|was low on resource: (?:memory|pids))")
"""Of the disk it is not said who fills it: what a model takes in a volume is in no container's usage."""
_USES_MORE = re.compile(r"Container (\S+) was using \S+, request is ")


def against(pods: Sequence[Body], containers: Collection[str], since: datetime.datetime | None = None) -> Cause | None:
    """Return why a revision fails, by the word of its own pods; None if nothing speaks against it.

    A pod that is ready, or would be but for somebody's gate, has got over whatever it says of its past, what is waited
    for is no failure of a revision, and what happens on a GPU that is called unhealthy is the GPU's.

    Args:
        pods: those of the revision that stay.
        containers: names of those that the revision has. Others', such as of a mesh, come with every revision.
        since: when the revision was last given a new try: what ended before does not count.
    """
    excused = (pod_state.is_ready, pod_state.waits_for_gates, pod_state.unhealthy_devices)
    unready = [pod for pod in pods if not any(excuse(pod) for excuse in excused)]
    return next((cause for pod in unready for cause in _of_pod(pod, containers, since)), None)


def is_the_nodes(pod: Body, containers: Collection[str]) -> bool:
    """Return whether a pod was given up for its node's sake, so that another revision would fare no better.

    One that is evicted for want of memory has it coming if one of its containers uses more than it asks for.

    Args:
        pod: a pod that has failed.
        containers: names of those that its revision has.
    """
    reason, message = causes.of_failed(pod, "").reason, str(section(pod, "status").get("message") or "")
    if reason is conditions.POD_EVICTED:
        return bool(_PRESSED.match(message)) and not set(_USES_MORE.findall(message)) & set(containers)
    return reason in _OF_THE_NODE


def _of_pod(pod: Body, containers: Collection[str], since: datetime.datetime | None) -> Iterator[Cause]:
    for container in pod_state.container_statuses(pod):
        if container.get("name") not in containers:
            continue
        ended = section(container, "state", "terminated") or section(container, "lastState", "terminated")
        if not ended.get("exitCode") or _is_older(ended, since):
            continue
        cause = ends.of_container(str(pod["metadata"]["name"]), container, ended)
        if cause.reason in TOLD or (cause.reason in SEEN and _has_ended_again(container)):
            yield cause


def _is_older(ended: Body, since: datetime.datetime | None) -> bool:
    at = pod_state.instant(ended.get("finishedAt"))
    return since is not None and at is not None and at < since


def _has_ended_again(container: Body) -> bool:
    """The kubelet backs off from the second end on, before it has counted a second restart."""
    backs_off = section(container, "state", "waiting").get("reason") == "CrashLoopBackOff"
    restarts = container.get("restartCount")
    return backs_off or (isinstance(restarts, int) and restarts >= ENDS_THAT_COUNT)
