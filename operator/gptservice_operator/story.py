"""What is worth an Event: the transitions between two statuses, each in the words of its condition."""

from collections.abc import Iterator
from dataclasses import dataclass

from .api import conditions
from .api.body import Body, entries, first, section

_TOLD = (conditions.ACCEPTED, conditions.AVAILABLE, conditions.READY, conditions.DEGRADED)
"""Progressing has Ready's reason. Degraded comes last: its message is the cause, without Ready's figures before it."""
_ONLY_AFTER_TRUE = (conditions.AVAILABLE, conditions.DEGRADED)
"""That nothing answers yet, or that nothing is wrong, is no news of a service that has just been made."""
_PLACES = {name: place for place, name in enumerate(conditions.REASONS)}


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the story."""

    reason: str
    message: str
    warning: bool = False
    place: int = 0
    """Its place among lines of the same time."""


def tell(old: Body, new: Body) -> list[Line]:
    """Return what has changed from one status to the next, one line for each reason, in order.

    Another message alone is no change.

    Args:
        old: the status that was written before; empty if none was.
        new: the one that was written now, with the same secrets masked in it as people see.
    """
    found = dict((*_failure(old, new), *_transitions(old, new), *_stable(old, new)))
    lines = [Line(reason, said, _is_warning(reason), _PLACES.get(reason, 0)) for reason, said in found.items()]
    return sorted(lines, key=lambda line: line.place)


def _transitions(old: Body, new: Body) -> Iterator[tuple[str, str]]:
    for kind in _TOLD:
        before, after = first(entries(old, "conditions"), type=kind), first(entries(new, "conditions"), type=kind)
        if not after or (before.get("status"), before.get("reason")) == (after["status"], after["reason"]):
            continue
        if kind in _ONLY_AFTER_TRUE and "True" not in (before.get("status"), after["status"]):
            continue
        yield after["reason"], after["message"]


def _failure(old: Body, new: Body) -> Iterator[tuple[str, str]]:
    """A container that crashes again changes no condition."""
    failure = section(new, "lastFailure")
    if failure and failure.get("time") != section(old, "lastFailure").get("time"):
        yield str(failure.get("reason")), str(failure.get("message"))


def _stable(old: Body, new: Body) -> Iterator[tuple[str, str]]:
    name = new.get("stableRevision")
    if name and name != old.get("stableRevision"):
        yield conditions.REVISION_STABLE.name, f"revision {name} has proved stable: its pods stayed ready"


def _is_warning(reason: str) -> bool:
    known = conditions.REASONS.get(reason)
    if known is None or known is conditions.STOPPED:
        return False
    return known.failing or bool(known.remedy) or known is conditions.NO_REPLICA
