"""What a pass could not do, as the reason of a condition and as what it is retried for."""

from collections.abc import Iterable, Sequence

from . import errors, wording
from .api import conditions
from .cause import Cause
from .writes import ChildDeletingError, ChildRejectedError, NameTakenError, StaleChildError

MAX_API_MESSAGE = 1024
"""What of the API server's words goes into a condition, in characters."""


def cause_of(failures: Sequence[errors.OperatorError]) -> Cause | None:
    """Return the gravest failure as a condition's reason: while one lasts, the service is not what its spec says."""
    told = [error for error in failures if not isinstance(error, StaleChildError)]
    if not told:
        return None
    gravest = min(told, key=lambda error: isinstance(error, errors.Transient))
    if isinstance(gravest, NameTakenError):
        # All at once: whoever cleans up after a deletion without children would else find them one by one.
        text = _taken(error for error in told if isinstance(error, NameTakenError))
    else:
        text = str(gravest)
    return _cause(gravest, wording.bounded(wording.settled(text), MAX_API_MESSAGE))


def raise_unless_settled(failures: Sequence[errors.OperatorError]) -> None:
    """Have the pass retried for what it could not do. A transient failure first: it may end soonest.

    Raises:
        errors.OperatorError: one of the failures.
    """
    for error in sorted(failures, key=lambda error: not isinstance(error, errors.Transient)):
        raise error


def _taken(failures: Iterable[NameTakenError]) -> str:
    """Return one sentence for all the objects that are in the way for the same reason."""
    by_owner: dict[str, list[str]] = {}
    for error in failures:
        by_owner.setdefault(error.whose, []).append(error.what)
    return "; ".join(f"{', '.join(what)} {whose}" for whose, what in by_owner.items())


def _cause(error: errors.OperatorError, text: str) -> Cause:
    match error:
        case NameTakenError():
            return Cause(conditions.NAME_CONFLICT, conditions.NAME_CONFLICT.message(text))
        case ChildRejectedError():
            return Cause(conditions.CHILD_REJECTED, conditions.CHILD_REJECTED.message(f"the API server refused {text}"))
        case errors.Invalid():
            return Cause(conditions.INVALID_SPEC, conditions.INVALID_SPEC.message(f"the API server refused {text}"))
        case ChildDeletingError():
            return Cause(conditions.CHILD_DELETING, conditions.CHILD_DELETING.message(text))
        case errors.Waiting():
            reason = conditions.QUOTA_EXCEEDED if "exceeded quota" in text else conditions.FORBIDDEN
            return Cause(reason, reason.message(text))
        case _:
            return Cause(conditions.APPLY_FAILED, conditions.APPLY_FAILED.message(text))
