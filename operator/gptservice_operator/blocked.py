"""What people are told of a rollout whose new pod finds no node: why, and what they can do."""

from collections.abc import Sequence

from . import revisions, wording
from .api import conditions
from .capacity import Stuck
from .case import Case
from .cause import Cause

_FREE = "Free or add what the scheduler names"


def by_shortage(case: Case, stuck: Stuck) -> Cause:
    """Return that the old pods stay: the strategy was chosen, or their places would not do."""
    needed = _needed(case)
    if not _is_zero(case.rollout.max_surge):
        first = f"if the old pods hold it, have one taken away first ({_choice(needed)})"
        return _told(case, stuck, remedy=f"{_FREE}; or, {first}; or {_undo(case)}")
    if _resolved(case.rollout.max_unavailable, case.wanted) >= needed:
        return _told(case, stuck)
    why = "pods that have no node count as unavailable, so that no other one goes"
    return _told(case, stuck, why, remedy=f"{_FREE}, or set spec.rollout.maxUnavailable to {needed}, or {_undo(case)}")


def by_closed_nodes(case: Case, stuck: Stuck, closed: Sequence[str]) -> Cause:
    """Return that no old pod goes, as its node may be one that takes no new one."""
    why = f"if an old pod's node is among those ({', '.join(closed)}), what it gave up would be of no use"
    first = f"have an old pod taken away all the same ({_choice(_needed(case))})"
    remedy = f"Open that node again (`kubectl uncordon`) or drain it; or {first}; or {_undo(case)}"
    return _told(case, stuck, why, remedy=remedy)


def by_others(case: Case, stuck: Stuck, ahead: str) -> Cause:
    """Return that others would get what an old pod gives up.

    Args:
        case: the facts.
        stuck: the pod that waits.
        ahead: who they are.
    """
    return _told(case, stuck, ahead)


def in_vain(case: Case, stuck: Stuck, closed: Sequence[str]) -> Cause:
    """Return that the new pod finds no node, though an old one went.

    Args:
        case: the facts.
        stuck: the pod that waits.
        closed: which nodes were closed since, so that another revision would find none either.
    """
    if closed:
        why = f"the place that an old pod has given up may be among those ({', '.join(closed)})"
        return _told(case, stuck, why, remedy="Open that node again (`kubectl uncordon`), or add another")
    if not _is_restart(case):
        return _told(case, stuck)
    why = "there is nothing to roll back to, as the pods before were of the same revision"
    return _told(case, stuck, why, remedy=_FREE)


def _told(case: Case, stuck: Stuck, why: str = "", *, remedy: str = "") -> Cause:
    origin = ", which a restart has made," if _is_restart(case) else " of the new revision"
    what = f"pod {stuck.pod}{origin} finds no node; the scheduler says: {wording.settled(stuck.words)}".rstrip(".")
    what = f"{what}; {why}" if why else what
    return Cause(conditions.ROLLOUT_BLOCKED, f"{what}. {remedy or f'{_FREE}, or {_undo(case)}'}")


def _is_restart(case: Case) -> bool:
    """Return whether the older pods are, or were, of the same revision: only what others have put on it is new."""
    older = case.older()
    if older:
        return all(revisions.key_of_template(pod) == case.current.key for pod in older)
    return case.stable is not None and case.stable.key == case.current.key


def _undo(case: Case) -> str:
    name = (case.deployment or {}).get("metadata", {}).get("name")
    return f"undo it (`kubectl rollout undo deployment {name}`)" if _is_restart(case) else "undo the edit"


def _needed(case: Case) -> int:
    """Return how many pods have to be allowed to be unavailable for an old one to go: those without a node are."""
    return 1 + max(0, case.wanted - case.placed)


def _choice(unavailable: int) -> str:
    return f"spec.rollout: {{maxSurge: 0, maxUnavailable: {unavailable}}}"


def _is_zero(bound: int | str) -> bool:
    return not int(str(bound).removesuffix("%"))


def _resolved(bound: int | str, wanted: int) -> int:
    """Return what may be unavailable, as Kubernetes rounds it where there is no surge."""
    return bound if isinstance(bound, int) else max(1, wanted * int(bound.removesuffix("%")) // 100)
