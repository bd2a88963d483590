"""Which namespaces are known in full: one of which a list or a watch is refused is left alone, and no other with it."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from . import metrics
from .scope import Collection, Scope

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Access:
    """What has been read, and what may not be.

    Only an operator that looks after some namespaces leaves one out. One that looks after all of them asks for all at
    once: where that is refused it knows nothing, and is not ready.
    """

    scope: Scope = field(default_factory=Scope)
    opened: Callable[[str], None] = lambda _: None
    """Called with a namespace that is known in full from now on."""
    _read: set[Collection] = field(default_factory=set[Collection])
    _refused: dict[Collection, str] = field(default_factory=dict[Collection, str])
    _unwatched: set[Collection] = field(default_factory=set[Collection])
    """Those of the refused ones that may be listed, for all that is known, but not watched."""
    _open: set[str] = field(default_factory=set[str])

    def may_look(self, namespace: str) -> bool:
        """Return whether passes may run in a namespace: what no list has shown would look as if it were not there."""
        return not self.scope.namespaces or namespace in self._open

    def refused(self) -> dict[str, list[str]]:
        """Return the namespaces that are left out, with the refusals."""
        found: dict[str, list[str]] = {}
        for one, why in self._refused.items():
            found.setdefault(str(one.namespace), []).append(why)
        return found

    def is_refused(self, one: Collection) -> bool:
        """Return whether a collection may not be read, as far as is known."""
        return one in self._refused

    def is_retried(self, one: Collection) -> bool:
        """Return whether a list has to be tried again although nobody asks for it."""
        return one in self._refused and one not in self._unwatched

    def missing(self) -> str:
        """Return what has to be known before any pass may run; empty if nothing more has to be."""
        for one in self.scope.collections():
            if one not in self._read and one not in self._refused:
                return f"the first list of {one}"
        if self.scope.namespaces and not self._open:
            return f"a namespace that may be read, for all are refused: {next(iter(self._refused.values()))}"
        return ""

    def note_read(self, one: Collection) -> None:
        """Take note that a collection was read in full."""
        if one in self._unwatched:
            return
        self._refused.pop(one, None)
        self._read.add(one)
        if one.namespace is not None and one.namespace not in self._open:
            self._open_if_complete(one.namespace)

    def _open_if_complete(self, namespace: str) -> None:
        if not all(Collection(kind, namespace) in self._read for kind in self.scope.watched if kind.namespaced):
            return
        self._open.add(namespace)
        logger.info("namespace %s is read in full", namespace)
        self._measure()
        self.opened(namespace)

    def note_refused(self, one: Collection, why: str) -> None:
        """Take note that a collection may not be listed."""
        namespace = str(one.namespace)
        if namespace not in self.refused():
            logger.error(
                "namespace %s is left out, the others go on: %s. Its services are looked at again once this operator's "
                "Role and RoleBinding are there with the chart's rules (helm upgrade makes them again); a namespace "
                "that is gone for good has to go from the chart's value `namespaces`",
                namespace,
                why,
            )
        self._read.discard(one)
        self._refused[one] = why
        self._open.discard(namespace)
        self._measure()

    def note_unwatched(self, one: Collection) -> None:
        """Take note that a collection may not be watched."""
        self._unwatched.add(one)
        self.note_refused(one, f"watch {one}: forbidden")

    def note_watched(self, one: Collection) -> bool:
        """Take note that a collection is watched; return whether it was not, so that it has to be read anew."""
        if one not in self._unwatched:
            return False
        self._unwatched.discard(one)
        return True

    def _measure(self) -> None:
        metrics.REFUSED_NAMESPACES.set(len(self.refused()))
