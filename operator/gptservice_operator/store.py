"""All objects that passes look at, kept in memory as small extracts, and frozen snapshots of them."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from . import names
from .api import kinds
from .extract import Entry, EntryKey, Key


@dataclass(frozen=True, slots=True)
class Observed:
    """A child as it is in the cluster."""

    uid: str
    controller_uid: str | None
    body: dict[str, Any]
    replicas_managers: frozenset[str] = frozenset()
    """The field managers that own ``spec.replicas``."""


def observed(entry: Entry) -> Observed:
    """Return the child that an entry holds."""
    return Observed(entry.uid, entry.controller_uid, entry.body(), entry.replicas_managers)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that one pass looks at, as it was when the pass began."""

    service: dict[str, Any]
    models: dict[str, dict[str, Any]]
    """Catalogue entries that the service may refer to, by name; one that does not exist is left out."""
    children: dict[tuple[str, str], Observed]
    """By kind and name."""
    pods: tuple[dict[str, Any], ...]
    """Oldest first."""
    waiting: tuple[tuple[Entry, ...], ...] = ()
    """The pods of each other service of which one has no node; empty unless that is so of this service, too."""

    @property
    def key(self) -> Key:
        """The service's namespace and name."""
        metadata = self.service["metadata"]
        return metadata["namespace"], metadata["name"]

    @property
    def is_new(self) -> bool:
        """Whether nothing was ever made for the service, nor said of it, as far as is known."""
        return not self.children and not self.service.get("status")

    @property
    def deployment(self) -> Observed | None:
        """The service's Deployment if there is one, and it is ours."""
        return self.own_child(kinds.DEPLOYMENT, names.deployment(self.service["metadata"]["name"]))

    def own_child(self, kind: kinds.Kind, name: str) -> Observed | None:
        """Return the live child of that name if it is ours."""
        child = self.children.get((kind.name, name))
        return child if child is not None and child.controller_uid == self.service["metadata"]["uid"] else None


class Store:
    """Entries by (kind, namespace, name).

    An entry replaces another only if its resourceVersion is newer, and never one known to be deleted, so that
    watch events, lists and the replies of writes may arrive in any order. One of the same version counts if it differs:
    a watch that began before the CRD was changed shows objects without the fields that its old schema lacks.

    A list also says of which version it is, up to which it knows everything. An older entry in a list that is newer
    than the stored one contradicts that: etcd was restored, and what is stored never was, as far as anybody knows.
    """

    def __init__(self) -> None:
        self._entries: dict[EntryKey, Entry] = {}
        self._owned: dict[Key, set[EntryKey]] = {}
        self._unplaced: dict[Key, set[EntryKey]] = {}
        self._deleted: dict[EntryKey, int] = {}
        self._touched: dict[EntryKey, int] = {}
        self._clock = 0

    def mark(self) -> int:
        """Return a point in time for :meth:`sweep`, later than everything put so far."""
        self._clock += 1
        return self._clock

    def put(self, new: Entry, as_of: int = -1) -> bool:
        """Store an entry; return whether it was news.

        Args:
            new: the entry.
            as_of: the resourceVersion of the list that shows it.
        """
        self._touched[new.key] = self._clock
        old = self._entries.get(new.key)
        if old is not None and (old.resource_version > max(new.resource_version, as_of) or old == new):
            return False
        if self._deleted.get(new.key, -1) >= max(new.resource_version, as_of + 1):
            return False
        if old is not None:
            self._forget(old)
        self._entries[new.key] = new
        if new.owner is not None:
            self._owned.setdefault(new.owner, set()).add(new.key)
            if new.unplaced:
                self._unplaced.setdefault(new.owner, set()).add(new.key)
        return True

    def remove(self, gone: Entry) -> bool:
        """Take out an entry that the API server says is deleted; return whether it was there."""
        self._deleted[gone.key] = max(self._deleted.get(gone.key, -1), gone.resource_version)
        self._touched[gone.key] = self._clock
        old = self._entries.get(gone.key)
        if old is None or old.resource_version > gone.resource_version:
            return False
        self._forget(old)
        return True

    def get(self, key: EntryKey) -> Entry | None:
        """Return what is stored under a key."""
        return self._entries.get(key)

    def discard(self, key: EntryKey, uid: str | None) -> None:
        """Forget the object of that UID, which the API server has shown to be gone; its successor stays."""
        entry = self._entries.get(key)
        if entry is not None and entry.uid == uid:
            self._forget(entry)

    def sweep(
        self, kind: kinds.Kind, listed: Iterable[EntryKey], since: int, namespace: str | None = None
    ) -> list[Entry]:
        """Drop the entries of a kind that a complete list lacks and that nothing touched since it began.

        Args:
            kind: what was listed.
            listed: what there is.
            since: when the list began, by :meth:`mark`.
            namespace: where it was listed; None for everywhere.
        """
        present = set(listed)

        def is_concerned(key: EntryKey) -> bool:
            return key[0] == kind.name and namespace in (None, key[1])

        stale = [
            entry
            for key, entry in self._entries.items()
            if is_concerned(key) and key not in present and self._touched.get(key, 0) < since
        ]
        for entry in stale:
            self._forget(entry)
        for memory in (self._deleted, self._touched):
            for key in [key for key in memory if is_concerned(key) and key not in self._entries]:
                if self._touched.get(key, 0) < since:
                    del memory[key]
        return stale

    def _forget(self, entry: Entry) -> None:
        del self._entries[entry.key]
        if entry.owner is not None:
            _drop(self._owned, entry.owner, entry.key)
            _drop(self._unplaced, entry.owner, entry.key)

    def services(self, namespace: str | None = None) -> list[Key]:
        """Return the keys of all services, or of those in one namespace."""
        kind = kinds.GPT_SERVICE.name
        found = [entry.owner for key, entry in self._entries.items() if key[0] == kind and entry.owner is not None]
        return [key for key in found if namespace in (None, key[0])]

    def newest(self, kind: kinds.Kind, namespace: str | None = None) -> int:
        """Return the newest resourceVersion that was told of a kind, in one namespace or in all; -1 if none was."""
        told = [*((key, one.resource_version) for key, one in self._entries.items()), *self._deleted.items()]
        versions = (version for key, version in told if key[0] == kind.name and namespace in (None, key[1]))
        return max(versions, default=-1)

    def count(self, kind: kinds.Kind) -> int:
        """Return how many objects of a kind are stored."""
        return sum(1 for key in self._entries if key[0] == kind.name)

    def users_of(self, model_name: str) -> list[Key]:
        """Return the services that may refer to a catalogue entry."""
        return [entry.owner for entry in self._entries.values() if model_name in entry.models and entry.owner]

    def service(self, key: Key) -> dict[str, Any] | None:
        """Return a GPTService, or None if there is none of that name."""
        entry = self._entries.get((kinds.GPT_SERVICE.name, *key))
        return None if entry is None else entry.body()

    def snapshot(self, key: Key) -> Snapshot | None:
        """Return what a pass over a service looks at, or None if there is no such service."""
        service = self._entries.get((kinds.GPT_SERVICE.name, *key))
        if service is None:
            return None
        owned = [self._entries[entry_key] for entry_key in sorted(self._owned.get(key, ()))]
        models = {name: self._entries.get((kinds.GPT_MODEL.name, "", name)) for name in service.models}
        pods = [entry.body() for entry in owned if entry.key[0] == kinds.POD.name]
        return Snapshot(
            service=service.body(),
            models={name: entry.body() for name, entry in models.items() if entry is not None},
            children={
                (entry.key[0], entry.key[2]): observed(entry)
                for entry in owned
                if entry.key[0] not in (kinds.POD.name, kinds.GPT_SERVICE.name)
            },
            pods=tuple(sorted(pods, key=_age)),
            waiting=self._waiting_besides(key) if key in self._unplaced else (),
        )

    def _waiting_besides(self, key: Key) -> tuple[tuple[Entry, ...], ...]:
        """Entries, for to read them all in each pass would be much where a full cluster has many that wait."""
        owned = (self._owned[owner] for owner in self._unplaced if owner != key)
        return tuple(tuple(self._entries[one] for one in keys if one[0] == kinds.POD.name) for keys in owned)


def _drop(index: dict[Key, set[EntryKey]], owner: Key, key: EntryKey) -> None:
    keys = index.get(owner)
    if keys is not None:
        keys.discard(key)
        if not keys:
            del index[owner]


def _age(pod: dict[str, Any]) -> tuple[str, str]:
    return pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]
