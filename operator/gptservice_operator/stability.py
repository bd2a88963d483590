"""When a revision has proved itself: read off the pods, so that a restart of the operator forgets nothing."""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from . import names, pod_state, revisions
from .api import kinds
from .api.body import Body, section
from .store import Observed


@dataclass(frozen=True, slots=True)
class Proof:
    """What is known about the revisions of a service."""

    name: str | None
    """Name of the ControllerRevision that last proved stable; None if none has, or it is no longer kept."""
    seconds_left: float | None = None
    """After how many seconds the current one will be stable if nothing happens; None if that is not what is waited for.
    """
    calm: bool = False
    """Whether every pod of the current one has been ready for the whole period."""
    settled: frozenset[str] = field(default=frozenset(), compare=False)
    """Names of the service's pods that have been ready for the whole period."""


def prove(
    service: Body,
    children: Mapping[tuple[str, str], Observed],
    pods: Sequence[Body],
    *,
    rolled_out: Body | None,
    now: datetime.datetime,
    period: float,
) -> Proof:
    """Return the stable revision: the Deployment's once all its pods were ready for a while, else the one before.

    Args:
        service: the service, with the status that was last reported.
        children: its children.
        pods: its pods.
        rolled_out: the live Deployment, if its rollout is complete.
        now: the wall clock, with a time zone.
        period: for how many seconds every pod must have been ready.
    """
    proof = _proof(service, children, pods, rolled_out, now, period)
    return replace(proof, settled=pod_state.settled(pods, now, period))


def _proof(
    service: Body,
    children: Mapping[tuple[str, str], Observed],
    pods: Sequence[Body],
    rolled_out: Body | None,
    now: datetime.datetime,
    period: float,
) -> Proof:
    before = section(service, "status").get("stableRevision")
    proven = before if (kinds.CONTROLLER_REVISION.name, before) in children else None
    key = revisions.key_of_template(section(rolled_out, "spec", "template")) if rolled_out is not None else None
    if rolled_out is None or key is None:
        return Proof(proven)
    current = names.controller_revision(service["metadata"]["name"], key)
    if (kinds.CONTROLLER_REVISION.name, current) not in children:
        return Proof(proven)
    left = _seconds_left(rolled_out, pods, now, period)
    if left == 0:
        return Proof(current, calm=True)
    # A failure is remembered until then.
    failed = "lastFailure" in section(service, "status") or any(map(pod_state.has_crashed, pods))
    awaited = current != proven or failed
    return Proof(proven, left if awaited else None)


def _seconds_left(deployment: Body, pods: Sequence[Body], now: datetime.datetime, period: float) -> float | None:
    since = [pod_state.ready_since(pod) for pod in _of_revision(deployment, pods)]
    known = [moment for moment in since if moment is not None]
    # The Deployment may be heard of before its pods are.
    made = section(deployment, "status").get("updatedReplicas", 0)
    if not known or len(known) < max(len(since), made):
        return None
    # A node's clock may be ahead of ours.
    return min(period, max(0.0, period - (now - max(known)).total_seconds()))


def _of_revision(deployment: Body, pods: Sequence[Body]) -> list[Body]:
    """Return the pods that the Deployment's template made; in place of those that failed, there are others."""
    key = revisions.key_of_template(deployment["spec"]["template"])
    ours = [pod for pod in pod_state.of_deployment(pods, deployment) if not pod_state.has_failed(pod)]
    return [pod for pod in ours if revisions.key_of_template(pod) == key]
