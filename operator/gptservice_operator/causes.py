"""Why pods do not serve: from what the kubelet, the scheduler and the runtime say to one reason."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from gptservice_runtime import contract

from . import ends, pod_state, revisions
from .api import conditions
from .api.body import Body, entries, first, section
from .api.conditions import Reason
from .cause import VOLUME_IS_HELD, Cause, Complaint
from .render.fetch_container import FETCH_CONTAINER
from .render.pod import ENGINE_CONTAINER

_PULL_REASONS = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"}
)
_MISSING = re.compile(r"(secret|configmap).* not found|couldn't find key", re.IGNORECASE)
_NO_ACCOUNT = re.compile(r"serviceaccount .* not found", re.IGNORECASE)
_RANDOM_NAME = re.compile(r'(\bpods? "[a-z0-9.-]+-)[a-z0-9]{5}(?=")')
"""The API server makes one up for each pod that it then refuses."""
_REFUSED = frozenset(
    {"UnexpectedAdmissionError", "NodeAffinity", "NodeName", "NodePorts", "TopologyAffinityError", "InvalidNodeInfo"}
)
"""Beside OutOfcpu, OutOfnvidia.com/gpu and the like: why a kubelet does not take a pod that the scheduler gave it."""
_FAILURES = {
    "Evicted": conditions.POD_EVICTED,
    "NodeLost": conditions.NODE_LOST,
    "NodeShutdown": conditions.NODE_LOST,
    # So a kubelet whose node shuts down ends what runs there; the one above is what it does not take any more.
    "Terminated": conditions.NODE_LOST,
    "Preempting": conditions.PREEMPTED,
}
_DISRUPTIONS = {
    "PreemptionByScheduler": conditions.PREEMPTED,
    "DeletionByTaintManager": conditions.NODE_LOST,
    "DeletionByPodGC": conditions.NODE_LOST,
}
_DOING = {FETCH_CONTAINER: "fetching", ENGINE_CONTAINER: "loading"}


def find(
    pods: Sequence[Body],
    deployment: Body | None,
    complaints: Mapping[str, Complaint] | None = None,
    settled: frozenset[str] = frozenset(),
) -> Cause | None:
    """Return what keeps the service from being ready, the gravest first; None if nothing is to be seen.

    Args:
        pods: those with the service's labels.
        deployment: the live Deployment, if it is ours.
        complaints: what Events say of pods that do not start, by pod UID.
        settled: names of the pods that have been ready for the stable period.
    """
    return min(_ranked(pods, deployment, complaints or {}, settled), key=_rank, default=(0, None))[1]


def relapse(pods: Sequence[Body], deployment: Body | None, settled: frozenset[str]) -> Cause | None:
    """Return why a service whose pods are all ready is not to be trusted yet: they have failed just before."""
    ended = [pod for pod in pods if pod_state.is_ready(pod) or pod_state.has_failed(pod)]
    ranked = [each for each in _ranked(ended, deployment, {}, settled) if each[0] in (_FAULT, _REPEATED)]
    return min((each for each in ranked if each[1].pod), key=_rank, default=(0, None))[1]


_FAULT, _REPEATED, _WAIT, _REPLACED = range(4)
"""How grave a cause is. Of a single failed pod, its ReplicaSet has made another, which says more."""


def _rank(ranked: tuple[int, Cause]) -> int:
    return ranked[0]


def _ranked(
    pods: Sequence[Body], deployment: Body | None, complaints: Mapping[str, Complaint], settled: frozenset[str]
) -> Iterator[tuple[int, Cause]]:
    newest, latency = _newest_revision(pods, deployment), _latency(deployment)
    unsettled = pod_state.unsettled(newest, settled)
    for pod in newest:
        if not pod_state.has_failed(pod) and (ill := of_devices(pod)) is not None:
            yield _FAULT, ill
    for pod in unsettled:
        for cause in _of_pod(pod, complaints, latency):
            yield _FAULT if cause.reason.failing else _WAIT, cause
    for cause in _of_deployment(deployment) if deployment is not None else ():
        yield _FAULT if cause.reason.failing else _WAIT, cause
    failed = pod_state.recently_failed(newest, settled)
    if len(failed) > max(1, len(unsettled)):
        yield _REPEATED, of_failed(failed[0], f"pods of {pod_state.replica_set(failed[0])} fail one after another")
    elif failed:
        yield _REPLACED, of_failed(failed[0], f"pod {failed[0]['metadata']['name']} failed")


def _newest_revision(pods: Sequence[Body], deployment: Body | None) -> list[Body]:
    """Return the pods of the Deployment's newest revision: an old one's crash is what the new one may mend.

    Its ReplicaSet need not be the one whose pods are the youngest: a revision may come back, or not get any pod.
    """
    ours = pod_state.of_deployment(pods, deployment)
    if deployment is None:
        return ours
    key = revisions.key_of_template(section(deployment, "spec", "template"))
    if key is not None:
        ours = [pod for pod in ours if revisions.key_of_template(pod) in (key, None)]
    return pod_state.of_newest_replica_set(ours, deployment)


def of_failed(pod: Body, what: str) -> Cause:
    """Return why a pod is over, in the kubelet's words behind ``what``."""
    status = section(pod, "status")
    why = str(status.get("reason") or "Failed")
    if why.startswith("OutOf") or why in _REFUSED:
        reason = conditions.POD_REJECTED
    else:
        reason = _FAILURES.get(why, conditions.POD_FAILED)
    return Cause.of(reason, f"{what}: {why}: {status.get('message') or 'no message'}", pod["metadata"]["name"])


def of_devices(pod: Body) -> Cause | None:
    """Return that the pod holds devices which are called unhealthy, however it does; None if it holds none."""
    devices = pod_state.unhealthy_devices(pod)
    if not devices:
        return None
    name = pod["metadata"]["name"]
    return Cause.of(conditions.GPU_UNHEALTHY, f"pod {name} was given {', '.join(devices)}, called unhealthy", name)


def of_disruption(pod: Body) -> Cause | None:
    """Return why Kubernetes takes a pod away, if nobody has asked for that."""
    told = pod_state.condition(pod, "DisruptionTarget")
    reason = _DISRUPTIONS.get(str(told.get("reason"))) if told.get("status") == "True" else None
    if reason is None:
        return None
    name = pod["metadata"]["name"]
    return Cause.of(reason, f"pod {name} was taken away: {told.get('reason')}: {told.get('message')}", name)


def _latency(deployment: Body | None) -> str | None:
    """Return the milliseconds within which a pod of the Deployment has to answer before it is ready; None for any."""
    engine = first(entries(deployment or {}, "spec", "template", "spec", "containers"), name=ENGINE_CONTAINER)
    args: Any = engine.get("args") or []
    return next((str(after) for flag, after in pairwise(args) if flag == contract.READY_LATENCY_FLAG), None)


def _of_pod(pod: Body, complaints: Mapping[str, Complaint], latency: str | None) -> Iterator[Cause]:
    name, status = pod["metadata"]["name"], section(pod, "status")
    if pod_state.is_ready(pod):
        ends = (cause for one in entries(status, "containerStatuses") if (cause := _of_last_end(name, one)) is not None)
        yield from (cause for cause in ends if cause.reason.failing)
        return
    if pod_state.waits_for_gates(pod):
        yield _gated(pod)
        return
    if status.get("phase") == "Unknown" or _is_unheard_of(pod):
        detail = status.get("message") or "its node does not report any more"
        yield Cause.of(conditions.NODE_LOST, f"pod {name} was running, and {detail}", name)
        return
    scheduled = pod_state.condition(pod, "PodScheduled")
    if scheduled.get("status") == "False":
        yield _unschedulable(name, str(scheduled.get("message") or "no message"))
        return
    containers = pod_state.container_statuses(pod)
    if _has_served(pod, first(containers, name=ENGINE_CONTAINER)):
        what = f"pod {name} has served, and its engine does not answer any more"
        yield Cause.of(conditions.ENGINE_UNRESPONSIVE, what, name)
        return
    if latency is not None and first(containers, name=ENGINE_CONTAINER).get("started") is True:
        asked = f"within {latency} ms (rollout.readyLatencyMilliseconds)"
        yield Cause.of(conditions.READY_LATENCY_EXCEEDED, f"pod {name} answers, but not {asked} yet", name)
        return
    found = [cause for container in containers if (cause := _of_container(name, container)) is not None]
    yield from found or [_starting(name, complaints.get(pod["metadata"]["uid"]))]


def _gated(pod: Body) -> Cause:
    name, said = pod["metadata"]["name"], pod_state.condition(pod, "Ready").get("message") or "no message"
    return Cause.of(conditions.READINESS_GATES_NOT_READY, f"pod {name} serves, but is given no traffic: {said}")


def _is_unheard_of(pod: Body) -> bool:
    """Return whether Kubernetes has taken back a pod's readiness, and not the kubelet, which would say of what."""
    return pod_state.condition(pod, "ContainersReady").get("status") == "True"


def _has_served(pod: Body, engine: Body) -> bool:
    """Return whether a pod that is not ready has been so since its engine's container started.

    The runtime takes readiness back for nothing else, and tells why where only the pod's log keeps it.
    """
    started = str(section(engine, "state", "running").get("startedAt") or "")
    return bool(started) and str(pod_state.condition(pod, "Ready").get("lastTransitionTime") or "") > started


def _starting(name: str, complaint: Complaint | None) -> Cause:
    if complaint is not None:
        return Cause.of(complaint.reason, f"pod {name}: {complaint.message}")
    return Cause.of(conditions.PODS_STARTING, f"pod {name} is being started")


def _unschedulable(name: str, message: str) -> Cause:
    if VOLUME_IS_HELD.search(message):
        reason = conditions.VOLUME_IN_USE
    elif re.search(r"persistentvolumeclaim|PersistentVolumeClaims|volume node affinity", message):
        reason = conditions.VOLUME_NOT_READY
    elif re.search(r"Insufficient [\w.-]+/", message):
        reason = conditions.INSUFFICIENT_GPU
    else:
        reason = conditions.UNSCHEDULABLE
    return Cause.of(reason, f"pod {name}: the scheduler says: {message}")


def _of_container(pod: str, container: Body) -> Cause | None:
    waiting = section(container, "state", "waiting")
    ended = section(container, "state", "terminated") or section(container, "lastState", "terminated")
    if ended.get("exitCode") or waiting.get("reason") == "CrashLoopBackOff":
        return ends.of_container(pod, container, ended)
    if waiting.get("reason") in _PULL_REASONS:
        return Cause.of(conditions.IMAGE_PULL_FAILED, f"pod {pod}: {ends.said(waiting)}", pod)
    if waiting.get("reason") == "CreateContainerConfigError" and _MISSING.search(ends.said(waiting)):
        return Cause.of(conditions.SECRET_NOT_FOUND, f"pod {pod}: {ends.said(waiting)}")
    if waiting.get("reason") in ends.START_REASONS:
        return Cause.of(conditions.INVALID_IMAGE, f"pod {pod}: {ends.said(waiting)}", pod)
    doing = _DOING.get(container.get("name", ""))
    if doing is not None and "running" in section(container, "state"):
        return Cause.of(conditions.MODEL_LOADING, f"pod {pod} is {doing} the model")
    return None


def _of_last_end(pod: str, container: Body) -> Cause | None:
    ended = section(container, "lastState", "terminated")
    return ends.of_container(pod, container, ended) if ended.get("exitCode") else None


def _of_deployment(deployment: Body) -> Iterator[Cause]:
    name = deployment["metadata"]["name"]
    if "deletionTimestamp" in deployment["metadata"]:
        yield Cause.of(conditions.CHILD_DELETING, f"Deployment {name} is being deleted")
    if section(deployment, "spec").get("paused"):
        yield Cause.of(conditions.ROLLOUT_PAUSED, f"Deployment {name} is paused")
    failure = pod_state.condition(deployment, "ReplicaFailure")
    if failure.get("status") == "True":
        message = _RANDOM_NAME.sub(r"\1", str(failure.get("message") or "no message"))
        yield Cause.of(_refusal(message), f"pods cannot be made: {message}")


def _refusal(message: str) -> Reason:
    if "exceeded quota" in message:
        return conditions.QUOTA_EXCEEDED
    return conditions.SERVICE_ACCOUNT_NOT_FOUND if _NO_ACCOUNT.search(message) else conditions.FORBIDDEN


def of_autoscaler(hpa: Body | None) -> Cause | None:
    """Return why an autoscaler does nothing, in the words of Kubernetes' own controller; None while it works."""
    active = first(entries(hpa or {}, "status", "conditions"), type="ScalingActive")
    if active.get("status") != "False":
        return None
    reason = conditions.AUTOSCALING_INACTIVE
    return Cause(reason, reason.message(f"{active.get('reason')}: {active.get('message')}"))
