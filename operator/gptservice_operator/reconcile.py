"""One pass over one GPTService: snapshot, resolve, render, plan, write, report."""

import dataclasses
import datetime
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from . import decide, errors, extract, names, observe, plan, stability, status, wording
from .api import conditions, kinds
from .causes import Cause
from .cluster import Cluster
from .config import Config
from .decide import Decision
from .extract import Key
from .render.resolved import Resolved
from .skew import Skew
from .store import Snapshot, Store

logger = logging.getLogger(__name__)

MAX_API_MESSAGE = 1024
"""What of the API server's words goes into a condition, in characters."""


@dataclass(frozen=True, slots=True)
class Reconciler:
    """What every pass needs."""

    store: Store
    cluster: Cluster
    config: Config
    now: Callable[[], datetime.datetime]
    """The wall clock, with a time zone."""
    skew: Skew = field(default_factory=Skew)
    """What the cluster's CRDs lack."""

    async def reconcile(self, key: Key) -> float | None:
        """Bring one service's children and status to what its spec says.

        Returns:
            Seconds after which the pass wants to look again, or None.

        Raises:
            errors.OperatorError: something could not be done; what could be done is done, and status says so.
        """
        snapshot = self.store.snapshot(key)
        if snapshot is None or "deletionTimestamp" in snapshot.service["metadata"]:
            return None
        decision, view = await self._look(snapshot)
        failures = await self._write_children(decision, view) if view is not None else []
        again = await self._write_status(key, snapshot, decision, failures)
        _raise_unless_settled(failures)
        return again

    async def _look(self, snapshot: Snapshot) -> tuple[Decision, observe.View | None]:
        """Decide, and look at the children; None instead of a view if the service is refused."""
        decision = decide.decide(snapshot, self.config)
        if not isinstance(decision.resolved, Resolved):
            return decision, None
        uid = decision.resolved.uid
        view = await observe.complete(self.cluster, self.store, decision.desired, snapshot.children, uid)
        found = view.observed.get(decision.revision)
        if found is not None and not decision.is_kept:
            # There after all, but the watches do not show it: its label is gone.
            children = {**snapshot.children, decision.revision: found}
            decision = decide.decide(dataclasses.replace(snapshot, children=children), self.config)
        return decision, view

    async def _write_children(self, decision: Decision, view: observe.View) -> list[errors.OperatorError]:
        """Write what differs. The failure of one child does not stop the others; only the Deployment waits until the
        revision that it is to run is kept.
        """
        resolved = decision.resolved
        if not isinstance(resolved, Resolved):
            return []
        try:
            if view.absent and not await self._is_live(resolved):
                return []
        except errors.OperatorError as error:
            return [error]
        failures, is_kept = list(view.unknown.values()), decision.is_kept
        seen = [manifest for manifest in decision.desired if plan.child_key(manifest) not in view.unknown]
        for action in [*plan.plan(seen, view.observed, resolved.uid), *decision.expired]:
            if not is_kept and plan.concerns(action, kinds.DEPLOYMENT.name):
                continue
            try:
                await self._write(action, resolved.namespace)
                is_kept = is_kept or plan.concerns(action, kinds.CONTROLLER_REVISION.name)
            except errors.Absent:
                pass  # the namespace is being deleted, and the service with it
            except errors.OperatorError as error:
                failures.append(error)
        return failures

    async def _is_live(self, resolved: Resolved) -> bool:
        live = await observe.is_live(self.cluster, resolved.namespace, resolved.name, resolved.uid)
        if not live:
            self.store.discard((kinds.GPT_SERVICE.name, resolved.namespace, resolved.name), resolved.uid)
        return live

    async def _write(self, action: plan.Action, namespace: str) -> None:
        if isinstance(action, plan.Foreign):
            raise NameTakenError(f"{action.kind} {action.name} exists and belongs to somebody else")
        if isinstance(action, plan.Delete):
            await self._delete(action, namespace)
            return
        manifest = action.manifest
        kind = kinds.BY_NAME[manifest["kind"]]
        try:
            live = await self.cluster.apply(manifest, manager=names.MANAGER, uid=action.uid)
        except errors.Invalid as error:
            if action.uid is None:
                raise
            raise ChildRejectedError(str(error)) from error
        except errors.Conflict as error:
            # The stored child is gone or was replaced: forget it, so that the next pass asks the API server.
            self.store.discard(extract.key_of(kind, manifest["metadata"]), action.uid)
            raise StaleChildError(str(error)) from error
        self.store.put(extract.entry(kind, live))
        logger.info("%s/%s: applied %s", manifest["metadata"]["namespace"], manifest["metadata"]["name"], kind.name)

    async def _delete(self, action: plan.Delete, namespace: str) -> None:
        kind = kinds.BY_NAME[action.kind]
        await self.cluster.delete(kind, namespace, action.name, action.uid)
        self.store.discard((kind.name, namespace, action.name), action.uid)
        logger.info("%s/%s: deleted %s", namespace, action.name, kind.name)

    async def _write_status(
        self, key: Key, begun: Snapshot, decision: Decision, failures: Sequence[errors.OperatorError]
    ) -> float | None:
        """Report on the spec that the pass began with, and on the children as they are after its writes.

        Returns:
            Seconds after which the status may be another, though nothing happens.
        """
        latest = self.store.snapshot(key)
        if latest is None:
            return None
        metadata = begun.service["metadata"]
        deployment = latest.children.get((kinds.DEPLOYMENT.name, names.deployment(metadata["name"])))
        facts = status.Facts(
            service=begun.service,
            resolved=decision.resolved,
            failure=_cause(failures),
            deployment=deployment.body if deployment and deployment.controller_uid == metadata["uid"] else None,
            pods=latest.pods,
            warnings=[*decision.warnings, *self.skew.warnings()],
            effective=decision.effective,
        )
        now = self.now()
        proof = stability.prove(
            begun.service,
            latest.children,
            latest.pods,
            rolled_out=facts.deployment if status.is_complete(facts) else None,
            now=now,
            period=self.config.stable_seconds,
        )
        facts = dataclasses.replace(facts, stable_revision=proof.name)
        wanted = self.skew.storable(status.compute(facts, now.strftime("%Y-%m-%dT%H:%M:%SZ")))
        if not status.is_news(wanted, begun.service):
            return proof.seconds_left
        try:
            namespace, name = key
            live = await self.cluster.apply_status(namespace=namespace, name=name, uid=metadata["uid"], status=wanted)
        except (errors.Absent, errors.Conflict):
            return None  # deleted, or made again under the same name, since the pass began: that is another event
        self.store.put(extract.entry(kinds.GPT_SERVICE, live))
        return proof.seconds_left


class StaleChildError(errors.Transient):
    """The child that the store knows is gone; the next pass, soon, makes it again."""


class ChildRejectedError(errors.Invalid):
    """The API server refuses the manifest for a child that exists; it need not be the spec that is to blame."""


class NameTakenError(errors.Conflict):
    """A child's name is taken by an object that is not ours."""


def _cause(failures: Sequence[errors.OperatorError]) -> Cause | None:
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
        if isinstance(error, errors.Waiting):
            reason = conditions.QUOTA_EXCEEDED if "exceeded quota" in text else conditions.FORBIDDEN
            return Cause(reason, reason.message(text))
        return Cause(conditions.APPLY_FAILED, conditions.APPLY_FAILED.message(text))
    return None


def _raise_unless_settled(failures: Sequence[errors.OperatorError]) -> None:
    """Have the pass retried for what it could not do. A transient failure first: it may end soonest."""
    for error in sorted(failures, key=lambda error: not isinstance(error, errors.Transient)):
        raise error
