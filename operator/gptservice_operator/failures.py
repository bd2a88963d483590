"""What could not be done in a pass: which of it is told, and which has the pass retried."""

from collections.abc import Sequence

from . import errors, wording
from .api import conditions
from .cause import Cause
from .writes import ChildDeletingError, ChildRejectedError, NameTakenError, StaleChildError

MAX_API_MESSAGE = 1024
"""What of the API server's words goes into a condition, in characters."""


def cause(failures: Sequence[errors.OperatorError]) -> Cause | None:
    """Return the gravest failure as a condition's reason: while one lasts, the service is not what its spec says."""
    told = [error for error in failures if not isinstance(error, StaleChildError)]
    for error in sorted(told, key=lambda error: isinstance(error, errors.Transient)):
        text = wording.bounded(wording.settled(str(error)), MAX_API_MESSAGE)
        if isinstance(error, NameTakenError):
            return Cause(conditions.NAME_CONFLICT, conditions.NAME_CONFLICT.message(text))
        if isinstance(error, ChildRejectedError):
            return Cause(conditions.CHILD_REJECTED, conditions.CHILD_REJECTED.message(f"the API server refused {text}"))
        if isinstance(error, errors.Invalid):
            return Cause(conditions.INVALID_SPEC, conditions.INVALID_SPEC.message(f"the API server refused {text}"))
        if isinstance(error, ChildDeletingError):
            return Cause(conditions.CHILD_DELETING, conditions.CHILD_DELETING.message(text))
        if isinstance(error, errors.Waiting):
            reason = conditions.QUOTA_EXCEEDED if "exceeded quota" in text else conditions.FORBIDDEN
            return Cause(reason, reason.message(text))
        return Cause(conditions.APPLY_FAILED, conditions.APPLY_FAILED.message(text))
    return None


def raise_unless_settled(failures: Sequence[errors.OperatorError]) -> None:
    """Have the pass retried for what it could not do. A transient failure first: it may end soonest."""
    for error in sorted(failures, key=lambda error: not isinstance(error, errors.Transient)):
        raise error
