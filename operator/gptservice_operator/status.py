"""The status of a GPTService: a pure function of what was decided and what was observed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import causes, fate, fetched, last_failure, names, pod_state, revisions, wording
from .api import conditions
from .api.body import Body, entries, first, section
from .api.conditions import Reason
from .cause import Cause, Complaint
from .counts import Counts, count
from .render.resolved import Refusal, Resolved

_MAX_WARNINGS = 24
MAX_MESSAGE = 4096
"""Longest message of a condition, in characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What one pass knows when it has written what it could."""

    service: Body
    resolved: Resolved | Refusal
    failure: Cause | None
    """Why a child could not be written."""
    deployment: Body | None
    """The live Deployment, if it is ours."""
    hpa: Body | None = None
    """The live HorizontalPodAutoscaler, if it is ours."""
    pods: Sequence[Body]
    warnings: Sequence[str] = ()
    """What does not stop the service, beyond what was found when it was resolved."""
    effective: Body | None = None
    """What the layers came to when the revision was made; None if nothing could be decided."""
    rollout: Cause | None = None
    """What was decided about the rollout, where it does not simply go on."""
    stable_revision: str | None = None
    """Name of the ControllerRevision that last proved stable."""
    settled: frozenset[str] = frozenset()
    """Names of the pods that have been ready for the stable period."""
    calm: bool = False
    """Whether every pod of the newest revision has been ready for the stable period."""
    complaints: Mapping[str, Complaint] = field(default_factory=dict[str, Complaint])
    """What Events say of pods that do not start, by pod UID."""


def compute(facts: Facts, now: str) -> dict[str, Any]:
    """Return the whole status.

    Args:
        facts: what the pass knows.
        now: start of the pass, RFC 3339.
    """
    counts = _counts(facts)
    generation = facts.service["metadata"].get("generation", 0)
    seen = None
    if not counts.complete:
        seen = causes.find(facts.pods, facts.deployment, facts.complaints, facts.settled)
    listed = _conditions(facts, counts, seen)
    old = section(facts.service, "status")
    status: dict[str, Any] = {
        "phase": phase(listed, counts.ready),
        "conditions": [_stamped(condition, facts.service, generation, now) for condition in listed],
        "observedGeneration": generation,
        "replicas": counts.replicas,
        "readyReplicas": counts.ready,
        "availableReplicas": counts.available,
        "updatedReplicas": counts.updated,
        "selector": names.selector_text(facts.service["metadata"]["name"]),
    }
    if isinstance(facts.resolved, Resolved):
        status["endpoint"] = facts.resolved.endpoint
        if facts.resolved.api_keys is not None:
            status["authSecret"] = facts.resolved.api_keys.secret
        if facts.effective is not None:
            running = revisions.key_of_template(section(facts.deployment or {}, "spec", "template"))
            key, before = running or facts.resolved.origin.key, section(old, "effective")
            status["effective"] = fetched.effective(facts.effective, facts.pods, key, before)
    else:
        # What runs goes on as it was decided before the refused edit.
        status.update({key: old[key] for key in ("endpoint", "effective", "authSecret") if key in old})
    if facts.stable_revision is not None:
        status["stableRevision"] = facts.stable_revision
    if failure := _last_failure(facts, counts, seen, now):
        status["lastFailure"] = failure
    return {**status, "lastSyncTime": now}


def _last_failure(facts: Facts, counts: Counts, seen: Cause | None, now: str) -> dict[str, Any]:
    """A stop forgets it, and so does a period in which every pod was ready."""
    if facts.calm or counts.desired == 0:
        return {}
    pods, old = pod_state.made_by(facts.pods, facts.deployment), section(facts.service, "status", "lastFailure")
    found = last_failure.last_failure(pods, seen, old, now, facts.settled)
    return {**found, "message": _masked(str(found["message"]), facts.service)} if found else {}


def is_news(status: Body, service: Body) -> bool:
    """Return whether a service's status has to be written; the time of the pass alone is no reason."""
    return _comparable(status) != _comparable(section(service, "status"))


def _comparable(status: Body) -> dict[str, Any]:
    """Leave out the time of the pass, and conditions of others, which an apply of ours could not remove."""
    ours = [condition for condition in entries(status, "conditions") if condition.get("type") in conditions.TYPES]
    return {**{key: value for key, value in status.items() if key != "lastSyncTime"}, "conditions": ours}


def is_complete(facts: Facts) -> bool:
    """Return whether every pod that is wanted is of the newest revision and answers, and no other is left."""
    return _counts(facts).complete


def _counts(facts: Facts) -> Counts:
    return count(facts.service, facts.resolved, facts.deployment)


_OWN_WORDS = (
    conditions.ACCEPTED_OK,
    conditions.ALL_REPLICAS_READY,
    conditions.MINIMUM_REPLICAS,
    conditions.NO_REPLICA,
    conditions.NOT_DEGRADED,
    conditions.STOPPED,
)
"""Reasons whose message quotes nobody, so that it can hold no secret."""

_Condition = tuple[str, bool, Reason, str]
"""Type, whether it holds, reason, message."""


def _conditions(facts: Facts, counts: Counts, seen: Cause | None) -> list[_Condition]:
    """Return the five; ``seen`` is what keeps the service from being complete, as far as pods and Deployment tell."""
    if isinstance(facts.resolved, Refusal):
        return _refused(facts, facts.resolved.reason, facts.resolved.message, counts)
    if facts.failure is not None and facts.failure.reason in (
        conditions.NAME_CONFLICT,
        conditions.INVALID_SPEC,
    ):
        return _refused(facts, facts.failure.reason, facts.failure.message, counts)
    differing = fetched.disagreement(facts.pods, facts.resolved.origin.key)
    accepted = _accepted([*facts.resolved.warnings, *facts.warnings, *differing])
    if counts.desired == 0 and facts.failure is None:
        return [accepted, *_stopped(counts)]
    if counts.complete and facts.failure is None:
        fault = causes.relapse(facts.pods, facts.deployment, facts.settled) or causes.of_autoscaler(facts.hpa)
        return [accepted, _available(counts), *_all_ready(counts, fault)]
    cause = facts.failure or fate.gravest(facts.rollout, seen)
    numbers = f"{counts.ready} of {counts.desired} replicas are ready, {counts.updated} of the newest revision"
    message = f"{numbers}; {cause.message}"
    failing = cause.reason.failing
    return [
        accepted,
        _available(counts),
        (conditions.PROGRESSING, not failing, cause.reason, message),
        (conditions.DEGRADED, True, cause.reason, cause.message) if failing else _not_degraded(),
        (conditions.READY, False, cause.reason, message),
    ]


def _accepted(warnings: Sequence[str]) -> _Condition:
    if not warnings:
        return conditions.ACCEPTED, True, conditions.ACCEPTED_OK, "the spec is valid"
    listed = "; ".join(warnings[:_MAX_WARNINGS])
    more = f"; and {len(warnings) - _MAX_WARNINGS} more" if len(warnings) > _MAX_WARNINGS else ""
    reason = conditions.ACCEPTED_WITH_WARNINGS
    return conditions.ACCEPTED, True, reason, reason.message(listed + more)


def _refused(facts: Facts, reason: Reason, message: str, counts: Counts) -> list[_Condition]:
    if counts.desired == 0 and facts.deployment is not None:
        message = f"{message}; spec.replicas is 0, so that no pod is left to run all the same"
    return [
        (conditions.ACCEPTED, False, reason, message),
        _available(counts),
        (conditions.PROGRESSING, False, reason, message),
        (conditions.DEGRADED, True, reason, message) if reason.failing else _not_degraded(),
        (conditions.READY, False, reason, message),
    ]


def _stopped(counts: Counts) -> list[_Condition]:
    left = f", and {counts.replicas} pods have still to go" if counts.replicas else ""
    message = conditions.STOPPED.message(f"spec.replicas is 0{left}")
    kinds = (conditions.AVAILABLE, conditions.PROGRESSING)
    stopped: list[_Condition] = [(kind, False, conditions.STOPPED, message) for kind in kinds]
    return [*stopped, _not_degraded(), (conditions.READY, False, conditions.STOPPED, message)]


def _all_ready(counts: Counts, fault: Cause | None) -> list[_Condition]:
    message = f"{counts.ready} of {counts.desired} replicas are ready"
    return [
        (conditions.PROGRESSING, False, conditions.ALL_REPLICAS_READY, message),
        _not_degraded() if fault is None else (conditions.DEGRADED, True, fault.reason, fault.message),
        (conditions.READY, True, conditions.ALL_REPLICAS_READY, message),
    ]


def _available(counts: Counts) -> _Condition:
    if counts.ready > 0:
        return conditions.AVAILABLE, True, conditions.MINIMUM_REPLICAS, "at least one replica answers"
    return conditions.AVAILABLE, False, conditions.NO_REPLICA, "no replica answers"


def _not_degraded() -> _Condition:
    return conditions.DEGRADED, False, conditions.NOT_DEGRADED, "nothing is known to be wrong"


def phase(listed: Sequence[_Condition], ready: int) -> str:
    """Return the summary for people, from the conditions and whether anything serves."""
    holds = {kind: value for kind, value, _, _ in listed}
    reasons = {kind: reason for kind, _, reason, _ in listed}
    if not holds[conditions.ACCEPTED]:
        return "Degraded" if ready > 0 else "Pending"
    if holds[conditions.DEGRADED]:
        return "Degraded"
    if reasons[conditions.READY] is conditions.STOPPED:
        return "Stopped"
    return "Ready" if holds[conditions.READY] else "Progressing"


def _masked(message: str, service: Body) -> str:
    return wording.without(message, wording.env_values(service))


def _stamped(condition: _Condition, service: Body, generation: int, now: str) -> dict[str, Any]:
    """The transition time moves only when the condition's status does."""
    kind, holds, reason, message = condition
    status = "True" if holds else "False"
    before = first(entries(service, "status", "conditions"), type=kind)
    return {
        "type": kind,
        "status": status,
        "reason": reason.name,
        "message": wording.bounded(message if reason in _OWN_WORDS else _masked(message, service), MAX_MESSAGE),
        "observedGeneration": generation,
        "lastTransitionTime": (before.get("status") == status and before.get("lastTransitionTime")) or now,
    }
