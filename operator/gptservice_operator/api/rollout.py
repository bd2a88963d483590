"""``spec.rollout``: how a change reaches the pods."""

import re
from typing import Annotated, ClassVar

from pydantic import Field

from .base import ApiModel, Rule

_COUNT = Annotated[int, Field(ge=0, le=1000)]
SURGE_WAIT_SECONDS = 60

Surge = _COUNT | Annotated[str, Field(pattern=r"^[0-9]{1,3}%$", max_length=4)]
Unavailable = _COUNT | Annotated[str, Field(pattern=r"^([0-9]|[1-9][0-9]|100)%$", max_length=4)]


def _zero_in_cel(field: str) -> str:
    return f"(type(self.{field}) == int ? self.{field} == 0 : self.{field}.matches('^0+%$'))"


def is_zero(value: int | str | None) -> bool:
    """Return whether a surge or unavailability is none at all, as ``0``, ``0%`` or ``00%``."""
    return value is not None and re.fullmatch(r"0+%?", str(value)) is not None


class Rollout(ApiModel):
    """How a change reaches the pods."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!(has(self.maxSurge) && has(self.maxUnavailable)) || "
            f"!({_zero_in_cel('maxSurge')} && {_zero_in_cel('maxUnavailable')})",
            "maxSurge and maxUnavailable must not both be 0: no pod could ever be replaced",
            lambda rollout: not (is_zero(rollout.max_surge) and is_zero(rollout.max_unavailable)),
        ),
    )

    max_surge: Surge | None = None
    """Pods above replicas during a rolling update, as a number or a percentage; implies RollingUpdate.

    If only maxUnavailable is given: 0, or 1 if that is 0."""
    max_unavailable: Unavailable | None = None
    """Pods below replicas during a rolling update, as a number or a percentage; implies RollingUpdate.

    If only maxSurge is given: 0, or 1 if that is 0."""
    surge_wait_seconds: Annotated[int, Field(ge=0, le=86400)] | None = None
    """Seconds to wait for a GPU before an old pod is taken away to free one; 60 if absent.

    Only without upgradeStrategy, maxSurge and maxUnavailable, and only where the old pod's GPUs are enough. With them
    it is the time after which the rollout is said to be blocked."""
    auto_rollback: bool | None = None
    """Whether a revision whose pods fail is rolled back to the last one that was stable; true if absent."""
    ready_latency_milliseconds: Annotated[int, Field(ge=1, le=600000)] | None = None
    """A small request must be answered within this before a new pod takes traffic; not asked for if absent."""
