"""Where the operator looks: in all namespaces or in some, and at the catalogue or not."""

from dataclasses import dataclass

from .api import kinds
from .api.kinds import Kind


@dataclass(frozen=True, slots=True)
class Scope:
    """Which kinds are watched, and where."""

    namespaces: tuple[str, ...] = ()
    """None for all of them."""
    catalogue: bool = True
    """Whether GPTModels, which lie in no namespace, are read."""

    @property
    def watched(self) -> tuple[Kind, ...]:
        """Return the kinds that are watched."""
        return tuple(kind for kind in kinds.WATCHED if self.catalogue or kind is not kinds.GPT_MODEL)

    def places(self, kind: Kind) -> tuple[str | None, ...]:
        """Return the namespaces in which a kind is listed and watched; None stands for all at once."""
        return self.namespaces if self.namespaces and kind.namespaced else (None,)

    def paths(self) -> dict[str, Kind]:
        """Return the path of every list and watch, with its kind."""
        return {kind.path(place): kind for kind in self.watched for place in self.places(kind)}
