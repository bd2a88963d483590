"""The four kinds of error. ``cluster`` maps what the API server and the network say to one of them."""


class OperatorError(Exception):
    """Something went wrong that the operator knows how to go on from."""


class Invalid(OperatorError):
    """The object asks for something that cannot be: a person has to change it."""


class Waiting(OperatorError):
    """A prerequisite is missing (quota, permission, policy); retried with back-off, reported in a condition."""


class Forbidden(Waiting):
    """The API server answers 403: mostly, a right is missing."""


class Conflict(OperatorError):
    """The object is not ours, or not the one that was meant (its UID differs)."""


class Absent(OperatorError):
    """The object, its namespace or its kind does not exist."""


class Transient(OperatorError):
    """The API server or the network failed; retried. ``retry_after`` is the server's wish in seconds, if any."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
