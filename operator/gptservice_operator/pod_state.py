"""What pods say of themselves, whoever asks: whose they are, whether they take traffic, and since when."""

import datetime
import re
from collections.abc import Collection, Sequence
from typing import Any

from .api.body import Body, entries, first, section

_WINDOW = datetime.timedelta(minutes=10)
"""A pod that failed so long before another was made was not replaced by that one; such pods stay for days."""


def of_deployment(pods: Sequence[Body], deployment: Body | None) -> list[Body]:
    """Return the pods that stay and that a ReplicaSet of the Deployment made."""
    return [pod for pod in made_by(pods, deployment) if not is_leaving(pod)]


def made_by(pods: Sequence[Body], deployment: Body | None) -> list[Body]:
    """Return the pods that a ReplicaSet of the Deployment made, the oldest first.

    Anybody can put labels on a pod. The order must not be the store's, or a message would change without a reason.
    """
    ordered = sorted(pods, key=lambda pod: (str(pod["metadata"].get("creationTimestamp")), pod["metadata"]["name"]))
    if deployment is None:
        return ordered
    return [pod for pod in ordered if replica_set(pod).startswith(f"{deployment['metadata']['name']}-")]


def replica_set(pod: Body) -> str:
    """Return the name of the ReplicaSet that made a pod; empty if none did."""
    owner = first(entries(pod, "metadata", "ownerReferences"), kind="ReplicaSet")
    return str(owner.get("name") or "")


_NEWEST = re.compile(r'(?i)\breplica ?set "([^"]+)"')
"""How the Deployment's controller names the ReplicaSet of the newest template, in ``Progressing``."""


def of_newest_replica_set(pods: Sequence[Body], deployment: Body | None) -> list[Body]:
    """Return those that were made of the Deployment's template as it is now, and not of the same revision's before.

    `kubectl rollout restart`, or a container that somebody adds, makes another ReplicaSet of the same revision. A pod
    of the older one may well be the youngest: it stands in for one that was lost.

    Args:
        pods: those of the revision, the oldest first.
        deployment: the live Deployment.
    """
    told = _NEWEST.search(str(condition(deployment or {}, "Progressing").get("message") or ""))
    # What an apply has changed since, the controller has not seen.
    if told is not None and any(replica_set(pod) == told.group(1) for pod in pods):
        return [pod for pod in pods if replica_set(pod) == told.group(1)]
    return [pod for pod in pods if replica_set(pod) == replica_set(pods[-1])]


def is_leaving(pod: Body) -> bool:
    """Return whether the pod is being deleted."""
    return "deletionTimestamp" in pod["metadata"]


def has_node(pod: Body) -> bool:
    """Return whether the scheduler has placed the pod, so that it holds what it asks for."""
    return condition(pod, "PodScheduled").get("status") == "True"


def is_ready(pod: Body) -> bool:
    """Return whether the pod takes traffic."""
    return condition(pod, "Ready").get("status") == "True"


def waits_for_gates(pod: Body) -> bool:
    """Return whether the pod's containers are ready, and it takes no traffic for a gate that somebody has put there."""
    return condition(pod, "Ready").get("reason") == "ReadinessGatesNotReady"


def is_unseen(pod: Body) -> bool:
    """Return whether no scheduler has looked at the pod: one that finds no node says so."""
    return section(pod, "status").get("phase") == "Pending" and not condition(pod, "PodScheduled")


def has_failed(pod: Body) -> bool:
    """Return whether the pod is over: the kubelet refused or evicted it, and it never starts again."""
    return section(pod, "status").get("phase") == "Failed"


def has_crashed(pod: Body) -> bool:
    """Return whether a container of the pod ended with an error before the one that runs."""
    ended = (section(container, "lastState", "terminated") for container in entries(pod, "status", "containerStatuses"))
    return any(end.get("exitCode") for end in ended)


def container_statuses(pod: Body) -> list[dict[str, Any]]:
    """Return what the kubelet says of each container, those first that run before the others."""
    return entries(pod, "status", "initContainerStatuses") + entries(pod, "status", "containerStatuses")


def only(pod: Body, containers: Collection[str], *, others: bool = False) -> Body:
    """Return what a pod says of these containers alone, or of all others.

    Args:
        pod: the pod.
        containers: their names.
        others: whether the others are meant.
    """
    listed = ("initContainerStatuses", "containerStatuses")
    kept = {
        field: [one for one in entries(pod, "status", field) if (one.get("name") in containers) is not others]
        for field in listed
    }
    return {**pod, "status": {**section(pod, "status"), **kept}}


def unhealthy_devices(pod: Body) -> list[str]:
    """Return the devices that the pod was given and that are called unhealthy, each with its resource's name."""
    return [
        f"{device.get('resourceID')} ({resource.get('name')})"
        for container in entries(pod, "status", "containerStatuses")
        for resource in entries(container, "allocatedResourcesStatus")
        for device in entries(resource, "resources")
        if device.get("health") == "Unhealthy"
    ]


def condition(body: Body, kind: str) -> Body:
    """Return a condition of an object; an empty mapping if it has none of that type."""
    return first(entries(body, "status", "conditions"), type=kind)


def instant(text: object) -> datetime.datetime | None:
    """Return a time that Kubernetes wrote, which is UTC where it names no zone; None if it is none."""
    try:
        moment = datetime.datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=datetime.UTC)


def ready_since(pod: Body) -> datetime.datetime | None:
    """Return since when the pod takes traffic; None if it does not."""
    return instant(condition(pod, "Ready").get("lastTransitionTime")) if is_ready(pod) else None


def settled(pods: Sequence[Body], now: datetime.datetime, period: float) -> frozenset[str]:
    """Return the names of the pods that have been ready for so many seconds: what was before is over for them."""
    since = {pod["metadata"]["name"]: ready_since(pod) for pod in pods}
    return frozenset(name for name, at in since.items() if at is not None and (now - at).total_seconds() >= period)


def unsettled(pods: Sequence[Body], settled: frozenset[str]) -> list[Body]:
    """Return the pods that have not failed and have not been ready for long."""
    return [pod for pod in pods if not has_failed(pod) and pod["metadata"]["name"] not in settled]


def recently_failed(pods: Sequence[Body], settled: frozenset[str]) -> list[Body]:
    """Return the failed pods in whose place others are not settled yet, the oldest first."""
    failed, open_ended = [pod for pod in pods if has_failed(pod)], unsettled(pods, settled)
    if not open_ended and len(failed) < len(pods):
        return []
    made = [at for pod in open_ended or failed if (at := created(pod)) is not None]
    return [pod for pod in failed if (at := created(pod)) is None or not made or max(made) - at <= _WINDOW]


def created(pod: Body) -> datetime.datetime | None:
    """Return when the pod was made; None if nothing tells."""
    return instant(pod["metadata"].get("creationTimestamp"))
