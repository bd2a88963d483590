"""Carries out what was planned: the only writes of children."""

import logging
from dataclasses import dataclass

from . import contained, errors, extract, names, takeover
from .actions import Action, Apply, Chain, Delete, Foreign, Manifest, SetReplicas, child_key
from .api import kinds
from .cluster import Cluster
from .store import Store

logger = logging.getLogger(__name__)


class StaleChildError(errors.Transient):
    """What the store knows of the child is no more so: it is gone, say; the next pass, soon, sets it right."""


class ExistsError(StaleChildError):
    """An object of the child's name is there, which nobody has looked at: the next look says whose it is."""


class ChildRejectedError(errors.Invalid):
    """The API server refuses the manifest for a child that exists; it need not be the spec that is to blame."""


class ChildDeletingError(errors.Transient):
    """A child was deleted and is still there, for somebody's finalizer holds it."""


class NameTakenError(errors.Conflict):
    """A child's name is taken by an object that is not ours.

    Args:
        what: kind and name of the object.
        whose: what is known of its owner.
    """

    def __init__(self, what: str, whose: str) -> None:
        super().__init__(f"{what} {whose}")
        self.what = what
        self.whose = whose


@dataclass(slots=True)
class Writes:
    """Writes the children of one service. The reply of each write is in the store before the next."""

    cluster: Cluster
    store: Store
    namespace: str
    overruled: bool = False
    """Whether an apply of the last chain was taken, but something else was stored: a policy changes what we write."""

    async def run(self, chain: Chain) -> None:
        """Carry out a chain up to its end or its first failure.

        Raises:
            errors.OperatorError: the failure.
        """
        self.overruled = False
        for action in chain:
            try:
                await self._do(action)
            except errors.Absent:
                return  # the namespace is being deleted, and the service with it; or the kind is

    async def delete_pod(self, name: str, uid: str) -> None:
        """Delete a pod, which has its grace period: nobody waits for its end.

        Raises:
            errors.OperatorError: it is still there.
        """
        await self.cluster.delete(kinds.POD, self.namespace, name, uid)
        logger.warning("%s/%s: deleted Pod: its GPU is called unhealthy", self.namespace, name)

    async def _do(self, action: Action) -> None:
        match action:
            case Foreign(kind, name, whose):
                raise NameTakenError(f"{kind} {name}", whose)
            case Apply(manifest, uid):
                await self._apply(manifest, names.MANAGER, uid)
            case SetReplicas(name, count):
                await self._set_replicas(name, count)
            case Delete(kind, name, uid):
                await self._delete(kinds.BY_NAME[kind], name, uid)

    async def _apply(self, manifest: Manifest, manager: str, uid: str | None) -> None:
        try:
            live = await self.cluster.apply(manifest, manager=manager, uid=uid)
        except errors.Invalid as error:
            if uid is None:
                raise
            live = await self._apply_after_takeover(manifest, manager, uid, error)
        except errors.Conflict as error:
            if uid is None:
                raise ExistsError(str(error)) from error
            # The stored child is gone or was replaced: forget it, so that the next pass asks the API server.
            self.store.discard((manifest["kind"], self.namespace, manifest["metadata"]["name"]), uid)
            raise StaleChildError(str(error)) from error
        kind = kinds.BY_NAME[manifest["kind"]]
        self.store.put(extract.entry(kind, live))
        self.overruled |= not contained.contains(live, manifest)
        logger.info("%s/%s: applied %s", manifest["metadata"]["namespace"], manifest["metadata"]["name"], kind.name)

    async def _apply_after_takeover(
        self, manifest: Manifest, manager: str, uid: str, refusal: errors.Invalid
    ) -> dict[str, object]:
        """Apply again without what somebody else set beside our fields; with nothing of that kind, it stays refused."""
        kind, name = child_key(manifest)
        namespace = self.namespace
        live = await self.cluster.get(kinds.BY_NAME[kind], namespace, name)
        managed = takeover.taken_over(live) if live is not None else None
        if live is None or managed is None or live["metadata"]["uid"] != uid:
            raise ChildRejectedError(str(refusal)) from refusal
        version = live["metadata"]["resourceVersion"]
        try:
            await self.cluster.set_managed_fields(kinds.BY_NAME[kind], namespace, name, version, managed)
            applied = await self.cluster.apply(manifest, manager=manager, uid=uid)
        except (errors.Invalid, errors.Conflict) as error:
            raise ChildRejectedError(str(refusal)) from error
        logger.warning("%s/%s: %s: removed what somebody else had set beside our fields", namespace, name, kind)
        return applied

    async def _set_replicas(self, name: str, count: int | None) -> None:
        kind = kinds.DEPLOYMENT
        stored = self.store.get((kind.name, self.namespace, name))
        if stored is None:
            raise StaleChildError(f"apply {kind.name}: {name} is not there")
        manifest: Manifest = {
            "apiVersion": kind.api_version,
            "kind": kind.name,
            "metadata": {"name": name, "namespace": self.namespace},
        }
        if count is not None:
            manifest["spec"] = {"replicas": count}
        await self._apply(manifest, names.REPLICAS_MANAGER, stored.uid)

    async def _delete(self, kind: kinds.Kind, name: str, uid: str) -> None:
        namespace = self.namespace
        await self.cluster.delete(kind, namespace, name, uid)
        left = await self.cluster.get(kind, namespace, name)
        if left is not None and left["metadata"]["uid"] == uid:
            self.store.put(extract.entry(kind, left))
            held = ", ".join(left["metadata"].get("finalizers", [])) or "none"
            raise ChildDeletingError(f"{kind.name} {name} was deleted and is still there (finalizers: {held})")
        self.store.discard((kind.name, namespace, name), uid)
        logger.info("%s/%s: deleted %s", namespace, name, kind.name)
