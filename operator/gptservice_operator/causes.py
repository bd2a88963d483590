"""Why pods do not serve: from what the kubelet, the scheduler and the runtime say to one reason."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from . import wording
from .api import conditions
from .api.body import Body, entries, first, section
from .api.conditions import Reason
from .render.fetch_container import FETCH_CONTAINER
from .render.pod import ENGINE_CONTAINER

_PULL_REASONS = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"}
)
_MISSING = re.compile(r"(secret|configmap).* not found|couldn't find key", re.IGNORECASE)
_START_REASONS = frozenset(
    {"CreateContainerConfigError", "RunContainerError", "CreateContainerError", "StartError", "ContainerCannotRun"}
)
_DOING = {FETCH_CONTAINER: "fetching", ENGINE_CONTAINER: "loading"}
_MAX_MESSAGE = 600


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason, and what was seen."""

    reason: Reason
    message: str
    pod: str = ""
    """In which pod it was seen, if in one."""
    exit_code: int | None = None
    """Of the container that ended, if one did."""


def find(pods: Sequence[Body], deployment: Body | None, missing: Mapping[str, str] | None = None) -> Cause | None:
    """Return what keeps the service from being ready, the gravest first; None if nothing is to be seen.

    Args:
        pods: those with the service's labels.
        deployment: the live Deployment, if it is ours.
        missing: what Events say of Secrets that pods' volumes lack, by pod UID.
    """
    found = [cause for pod in _newest_revision(pods, deployment) for cause in _of_pod(pod, missing or {})]
    if deployment is not None:
        found += _of_deployment(deployment)
    return min(found, key=_gravity, default=None)


def _gravity(cause: Cause) -> int:
    """A failed pod comes last: its ReplicaSet has made another, which says more."""
    if cause.reason is conditions.POD_FAILED:
        return 2
    return 0 if cause.reason.failing else 1


def _newest_revision(pods: Sequence[Body], deployment: Body | None) -> list[Body]:
    """Return the pods of the Deployment's newest revision: an old one's crash is what the new one may mend."""
    ours = of_deployment(pods, deployment)
    if deployment is None:
        return ours
    newest = max(ours, key=lambda pod: str(pod["metadata"].get("creationTimestamp")), default=None)
    return [pod for pod in ours if newest is not None and _replica_set(pod) == _replica_set(newest)]


def of_deployment(pods: Sequence[Body], deployment: Body | None) -> list[Body]:
    """Return the pods that stay and that a ReplicaSet of the Deployment made: anybody can put labels on a pod."""
    present = [pod for pod in pods if not _is_leaving(pod)]
    if deployment is None:
        return present
    return [pod for pod in present if _replica_set(pod).startswith(f"{deployment['metadata']['name']}-")]


def _replica_set(pod: Body) -> str:
    owner = first(entries(pod, "metadata", "ownerReferences"), kind="ReplicaSet")
    return str(owner.get("name") or "")


def _is_leaving(pod: Body) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def is_ready(pod: Body) -> bool:
    """Return whether the pod takes traffic."""
    return condition(pod, "Ready").get("status") == "True"


def condition(body: Body, kind: str) -> Body:
    """Return a condition of an object; an empty mapping if it has none of that type."""
    return first(entries(body, "status", "conditions"), type=kind)


def _of_pod(pod: Body, missing: Mapping[str, str]) -> Iterator[Cause]:
    if is_ready(pod):
        return
    name, status = pod["metadata"]["name"], section(pod, "status")
    if status.get("phase") == "Failed":
        detail = f"{status.get('reason') or 'Failed'}: {status.get('message') or 'no message'}"
        yield _cause(conditions.POD_FAILED, f"pod {name} failed: {detail}", name)
        return
    scheduled = condition(pod, "PodScheduled")
    if scheduled.get("status") == "False":
        yield _unschedulable(name, str(scheduled.get("message") or "no message"))
        return
    containers = entries(status, "initContainerStatuses") + entries(status, "containerStatuses")
    if _has_served(pod, first(containers, name=ENGINE_CONTAINER)):
        what = f"pod {name} has served, and its engine does not answer any more"
        yield _cause(conditions.ENGINE_UNRESPONSIVE, what, name)
        return
    found = [cause for container in containers if (cause := _of_container(name, container)) is not None]
    yield from found or [_starting(name, missing.get(pod["metadata"]["uid"]))]


def _has_served(pod: Body, engine: Body) -> bool:
    """Return whether a pod that is not ready has been so since its engine's container started.

    The runtime takes readiness back for nothing else, and tells why where only the pod's log keeps it.
    """
    started = str(section(engine, "state", "running").get("startedAt") or "")
    return bool(started) and str(condition(pod, "Ready").get("lastTransitionTime") or "") > started


def _starting(name: str, missing: str | None) -> Cause:
    if missing is not None:
        return _cause(conditions.SECRET_NOT_FOUND, f"pod {name}: {missing}")
    return _cause(conditions.PODS_STARTING, f"pod {name} is being started")


def _unschedulable(name: str, message: str) -> Cause:
    if re.search(r"persistentvolumeclaim|PersistentVolumeClaims|volume node affinity", message):
        reason = conditions.VOLUME_NOT_READY
    elif re.search(r"Insufficient [\w.-]+/", message):
        reason = conditions.INSUFFICIENT_GPU
    else:
        reason = conditions.UNSCHEDULABLE
    return _cause(reason, f"pod {name}: the scheduler says: {message}")


def _of_container(pod: str, container: Body) -> Cause | None:
    waiting = section(container, "state", "waiting")
    ended = section(container, "state", "terminated") or section(container, "lastState", "terminated")
    if ended.get("exitCode") or waiting.get("reason") == "CrashLoopBackOff":
        return of_end(pod, container, ended)
    if waiting.get("reason") in _PULL_REASONS:
        return _cause(conditions.IMAGE_PULL_FAILED, f"pod {pod}: {_said(waiting)}", pod)
    if waiting.get("reason") == "CreateContainerConfigError" and _MISSING.search(_said(waiting)):
        return _cause(conditions.SECRET_NOT_FOUND, f"pod {pod}: {_said(waiting)}")
    if waiting.get("reason") in _START_REASONS:
        return _cause(conditions.INVALID_IMAGE, f"pod {pod}: {_said(waiting)}", pod)
    doing = _DOING.get(container.get("name", ""))
    if doing is not None and "running" in section(container, "state"):
        return _cause(conditions.MODEL_LOADING, f"pod {pod} is {doing} the model")
    return None


def of_end(pod: str, container: Body, ended: Body) -> Cause:
    """Return why a container ended. The runtime's own word comes first; then what the kubelet knows.

    Args:
        pod: its pod's name.
        container: its status.
        ended: the ``terminated`` part of its state or last state.
    """
    where = f"pod {pod}, container {container.get('name')}"
    code = ended.get("exitCode")
    reason, what = _told(ended) or _known(ended)
    return _cause(reason, f"{where}{what}", pod, code)


def _told(ended: Body) -> tuple[Reason, str] | None:
    try:
        told = json.loads(ended.get("message") or "")
        return conditions.REASONS[told["reason"]], f": {told['message']}"
    except (ValueError, KeyError, TypeError):
        return None


def _known(ended: Body) -> tuple[Reason, str]:
    if ended.get("reason") == "OOMKilled":
        return conditions.OUT_OF_MEMORY, " was killed for want of memory"
    if ended.get("reason") in _START_REASONS:
        return conditions.INVALID_IMAGE, f": {_said(ended)}"
    return conditions.CRASH_LOOP, f" ended with exit code {ended.get('exitCode')}"


def _said(state: Body) -> str:
    return f"{state.get('reason')}: {state.get('message') or 'no message'}"


def _of_deployment(deployment: Body) -> Iterator[Cause]:
    name = deployment["metadata"]["name"]
    if "deletionTimestamp" in deployment["metadata"]:
        yield _cause(conditions.CHILD_DELETING, f"Deployment {name} is being deleted")
    if section(deployment, "spec").get("paused"):
        yield _cause(conditions.ROLLOUT_PAUSED, f"Deployment {name} is paused")
    failure = condition(deployment, "ReplicaFailure")
    if failure.get("status") == "True":
        message = str(failure.get("message") or "no message")
        reason = conditions.QUOTA_EXCEEDED if "exceeded quota" in message else conditions.FORBIDDEN
        yield _cause(reason, f"pods cannot be made: {message}")


def _cause(reason: Reason, what: str, pod: str = "", exit_code: int | None = None) -> Cause:
    return Cause(reason, reason.message(wording.bounded(wording.settled(what), _MAX_MESSAGE)), pod, exit_code)


def of_autoscaler(hpa: Body | None) -> Cause | None:
    """Return why an autoscaler does nothing, in the words of Kubernetes' own controller; None while it works."""
    active = first(entries(hpa or {}, "status", "conditions"), type="ScalingActive")
    if active.get("status") != "False":
        return None
    reason = conditions.AUTOSCALING_INACTIVE
    return Cause(reason, reason.message(f"{active.get('reason')}: {active.get('message')}"))
