"""One reason why something is not as it should be, and what was seen or said of it."""

import re
from dataclasses import dataclass

from . import wording
from .api.conditions import Reason

_MAX_MESSAGE = 600
VOLUME_IS_HELD = re.compile(r"Multi-Attach error|ReadWriteOncePod access mode")
"""In the words of the controller that attaches volumes, of the scheduler and of the kubelet: while another pod has the
volume, waiting does not help."""


@dataclass(frozen=True, slots=True)
class Complaint:
    """What an Event says of a pod that does not start."""

    reason: Reason
    message: str
    """In whosever words."""
    secret: str | None = None
    """The Secret that a volume needs and that is missing; empty where a key of one is. None where it is not that."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason, and what was seen."""

    reason: Reason
    message: str
    pod: str = ""
    """In which pod it was seen, if in one."""
    exit_code: int | None = None
    """Of the container that ended, if one did."""

    @classmethod
    def of(cls, reason: Reason, what: str, pod: str = "", exit_code: int | None = None) -> "Cause":
        """Return a cause from what was seen, in words that stay the same while it lasts, with the reason's remedy.

        Args:
            reason: the reason.
            what: what was seen, in whosever words.
            pod: in which pod, if in one.
            exit_code: of the container that ended, if one did.
        """
        return cls(reason, reason.message(wording.bounded(wording.settled(what), _MAX_MESSAGE)), pod, exit_code)

    @property
    def lasting(self) -> str:
        """The message without a remedy that needs the pod."""
        return self.reason.lasting(self.message)
