"""Whether a new pod waits for what an old one holds: what the scheduler says, and what both revisions ask for."""

import datetime
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from . import pod_state
from .api.body import Body, entries, first, section
from .api.quantity import quantity

_MUST_BE_SAME = ("affinity", "topologySpreadConstraints")
"""What narrows the choice of nodes in ways that are not compared: the same, or none."""
_NOTHING: tuple[Any, ...] = (None, {}, [])

_CORDONED = re.compile(r"\d+ node\(s\) (?:were unschedulable|had unknown conditions)")
_TAINTED = re.compile(
    r"\d+ node\(s\) had untolerated taint \{(?:node\.kubernetes\.io/(?!not-ready|unreachable)"
    r"|node\.cloudprovider\.kubernetes\.io/|ToBeDeletedByClusterAutoscaler|karpenter\.sh/"
    r"|cloud\.google\.com/impending-node-termination|aws-node-termination-handler/)[^}]*\}"
)
"""Taints that come to a node while pods run there. Of others, the old pods' nodes have none that these do not tolerate,
and on a node that is lost no pod is ready. Kubernetes 1.36's scheduler names no taint."""
_UNMATCHED = re.compile(r"\d+ node\(s\) didn't match Pod's node affinity/selector")


@dataclass(frozen=True, slots=True)
class Stuck:
    """A pod that the scheduler cannot place."""

    pod: str
    words: str
    """The scheduler's."""
    since: datetime.datetime

    def lacks(self, resource: str) -> bool:
        """Return whether the scheduler names this resource as one that is short."""
        return f"Insufficient {resource}" in self.words

    def closed(self, *, is_narrowed: bool) -> list[str]:
        """Return for what else than a shortage nodes are closed to the pod among which an old pod's may be.

        A node is told of for the first thing that the scheduler finds, and a shortage comes after these: a node that is
        short of a GPU and cordoned is cordoned, and what comes free there is of no use.

        Args:
            is_narrowed: whether somebody has narrowed the choice of nodes beyond what the revision says.
        """
        patterns = [_CORDONED, _TAINTED, *([_UNMATCHED] if is_narrowed else [])]
        # What the scheduler says of preemption behind it is of the same nodes once more.
        told = self.words.partition(" preemption: ")[0]
        return [found.group() for pattern in patterns for found in pattern.finditer(told)]


def stuck(pods: Sequence[Body]) -> Stuck | None:
    """Return the pod that waits longest for a node; None if none does."""
    found: list[Stuck] = []
    for pod in pods:
        scheduled = first(entries(pod, "status", "conditions"), type="PodScheduled")
        if scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable":
            since = pod_state.instant(scheduled.get("lastTransitionTime")) or pod_state.instant(
                pod["metadata"].get("creationTimestamp")
            )
            if since is not None:
                words = str(scheduled.get("message") or "no message")
                found.append(Stuck(str(pod["metadata"]["name"]), words, since))
    return min(found, key=lambda one: one.since, default=None)


def frees_enough(old: Body, new: Body) -> bool:
    """Return whether a new pod fits where an old one was: no more GPUs, of the same kind, and nothing else in its way.

    Args:
        old: what the revision of the old pods keeps.
        new: what the revision of the new ones keeps.
    """
    before, after = section(old, "effective"), section(new, "effective")
    if not 0 < _count(after) <= _count(before) or before.get("gpuResourceName") != after.get("gpuResourceName"):
        return False
    held, asked = section(old, "template", "spec"), section(new, "template", "spec")
    return _asks_no_more(held, asked) and _goes_wherever(held, asked)


def is_narrowed(live: Body, kept: Body) -> bool:
    """Return whether somebody has narrowed the choice of nodes of a Deployment's pods beyond what we keep.

    Args:
        live: the spec of the Deployment's pod template.
        kept: the same of the revision.
    """
    has_affinity = live.get("affinity") not in _NOTHING and kept.get("affinity") in _NOTHING
    return has_affinity or section(live, "nodeSelector") != section(kept, "nodeSelector")


def has_grown(pod: Body, kept: Body, old: Sequence[Body]) -> bool:
    """Return whether others' containers make a new pod ask for more than the old ones hold: they have fewer of them.

    Args:
        pod: the new one, which has no node.
        kept: the spec of its revision's pod template.
        old: the pods whose places are to do.
    """
    spec, held = section(pod, "spec"), requests(kept)
    if all(wanted <= held.get(name, Decimal(0)) for name, wanted in requests(spec).items()):
        return False
    counts = [len(entries(one, "status", "containerStatuses")) for one in old]
    # A pod without a node has none yet, and holds nothing.
    return any(0 < count < len(entries(spec, "containers")) for count in counts)


def _count(effective: Body) -> int:
    count = effective.get("gpuCount")
    return count if isinstance(count, int) else 0


def _asks_no_more(held: Body, asked: Body) -> bool:
    limits = requests(held)
    return all(wanted <= limits.get(name, Decimal(0)) for name, wanted in requests(asked).items())


def requests(spec: Body) -> Mapping[str, Decimal]:
    """Return what the scheduler counts: the containers together, or the largest of those that run before them.

    Args:
        spec: a pod's.
    """
    total: dict[str, Decimal] = {}
    for container in entries(spec, "containers"):
        for name, value in _of_container(container).items():
            total[name] = total.get(name, Decimal(0)) + value
    for container in entries(spec, "initContainers"):
        for name, value in _of_container(container).items():
            total[name] = max(total.get(name, Decimal(0)), value)
    return total


def _of_container(container: Body) -> dict[str, Decimal]:
    """What has a limit and no request is asked for as its limit says."""
    asked = {**section(container, "resources", "limits"), **section(container, "resources", "requests")}
    return {name: number for name, value in asked.items() if (number := quantity(value)) is not None}


def _goes_wherever(held: Body, asked: Body) -> bool:
    """Return whether a node that took the old pod takes the new one, as far as the two templates tell."""
    selector = section(held, "nodeSelector")
    tolerated = entries(asked, "tolerations")
    claims = _claims(held)
    return (
        all(asked.get(part) in (*_NOTHING, held.get(part)) for part in _MUST_BE_SAME)
        and asked.get("runtimeClassName") == held.get("runtimeClassName")
        and all(selector.get(label) == value for label, value in section(asked, "nodeSelector").items())
        and all(toleration in tolerated for toleration in entries(held, "tolerations"))
        and all(claim in claims for claim in _claims(asked))
    )


def _claims(spec: Body) -> list[Any]:
    named = (section(volume, "persistentVolumeClaim").get("claimName") for volume in entries(spec, "volumes"))
    return [claim for claim in named if claim is not None]
