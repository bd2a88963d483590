"""What became of a revision, as annotations of its ControllerRevision: neither a restart nor lost pods forget it."""

from collections.abc import Mapping
from dataclasses import dataclass

from . import names

_ANNOTATIONS = {
    "failed": names.FAILED,
    "retry_seen": names.RETRY_SEEN,
    "switched": names.SWITCHED,
    "held": names.HELD,
    "freeing": names.FREEING,
    "tried": names.TRIED,
    "outage": names.OUTAGE,
    "gpu_unhealthy": names.GPU_UNHEALTHY,
}


@dataclass(frozen=True, slots=True)
class Marks:
    """What is known of a revision from earlier passes. Times are RFC 3339."""

    failed: str | None = None
    """Why it was rolled back."""
    retry_seen: str | None = None
    """Value of the annotation that asks for a retry, when it failed."""
    switched: str | None = None
    """Since when its rollout, or its rollback, takes an old pod away first."""
    held: str | None = None
    """For how many of the service's pods there was a node then, or at any time since."""
    freeing: str | None = None
    """Until when pods that are being deleted may hold what a new one waits for: their latest deletionTimestamp."""
    tried: str | None = None
    """When it was given another try, though pods of an earlier one may be left."""
    outage: str | None = None
    """From when to when nothing served after it failed, as ``begin/end``; the end is ``..`` while it lasts."""
    gpu_unhealthy: str | None = None
    """Which pod was taken away last for an unhealthy GPU, and when, as ``uid/time``."""

    @classmethod
    def of(cls, annotations: Mapping[str, str]) -> "Marks":
        """Read the marks off a ControllerRevision's annotations."""
        return cls(**{field: annotations.get(name) for field, name in _ANNOTATIONS.items()})

    @property
    def places(self) -> int | None:
        """The number that ``held`` says; None if nothing does."""
        return int(self.held) if self.held is not None and self.held.isdecimal() else None

    @property
    def annotations(self) -> dict[str, str]:
        """The annotations that carry them."""
        values = ((name, getattr(self, field)) for field, name in _ANNOTATIONS.items())
        return {name: value for name, value in values if value is not None}
