"""Where the operator looks: in all namespaces or in some, and at the catalogue or not."""

from dataclasses import dataclass

from .api import kinds
from .api.kinds import Kind


@dataclass(frozen=True, slots=True)
class Collection:
    """What is listed and watched at once: the objects of a kind, in one namespace or wherever they are."""

    kind: Kind
    namespace: str | None = None

    @property
    def path(self) -> str:
        """Return the REST path."""
        return self.kind.path(self.namespace)

    def __str__(self) -> str:
        """Return it as people name it."""
        return self.kind.plural if self.namespace is None else f"{self.kind.plural} in namespace {self.namespace}"


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

    def of(self, kind: Kind) -> tuple[Collection, ...]:
        """Return what is listed and watched of a kind."""
        if not self.namespaces or not kind.namespaced:
            return (Collection(kind),)
        return tuple(Collection(kind, namespace) for namespace in self.namespaces)

    def collections(self) -> tuple[Collection, ...]:
        """Return everything that is listed and watched."""
        return tuple(one for kind in self.watched for one in self.of(kind))

    def paths(self) -> dict[str, Collection]:
        """Return the same by path."""
        return {one.path: one for one in self.collections()}
