"""One pass over one GPTService: snapshot, resolve, render, plan, write, report."""

import datetime
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from . import companions, errors, extract, names, observe, parse, plan, render, resolve, status, wording
from .api import conditions, kinds
from .causes import Cause
from .cluster import Cluster
from .config import Config
from .discovery import Discovery
from .extract import Key
from .render.resolved import Refusal, Resolved
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
    discovery: Discovery = field(default_factory=Discovery)
    """Which optional kinds the cluster has."""

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
        resolved = _decide(snapshot, self.config, self.discovery.served)
        failures: list[errors.OperatorError] = []
        if isinstance(resolved, Resolved):
            failures = await self._write_children(resolved, snapshot)
        await self._write_status(key, snapshot, resolved, failures)
        _raise_unless_settled(failures)
        return None

    async def _write_children(self, resolved: Resolved, snapshot: Snapshot) -> list[errors.OperatorError]:
        """Write what differs. The failure of one child does not stop the others."""
        desired = render.render(resolved)
        view = await observe.complete(self.cluster, self.store, desired, snapshot.children, resolved.uid)
        try:
            if view.absent and not await self._is_live(resolved):
                return []
        except errors.OperatorError as error:
            return [error]
        failures = list(view.unknown.values())
        seen = [manifest for manifest in desired if plan.child_key(manifest) not in view.unknown]
        for action in plan.plan(seen, view.observed, resolved.uid):
            try:
                await self._write(action)
            except errors.Absent:
                pass  # the namespace is being deleted, and the service with it; or the kind is
            except errors.OperatorError as error:
                failures.append(error)
        return failures

    async def _is_live(self, resolved: Resolved) -> bool:
        live = await observe.is_live(self.cluster, resolved.namespace, resolved.name, resolved.uid)
        if not live:
            self.store.discard((kinds.GPT_SERVICE.name, resolved.namespace, resolved.name), resolved.uid)
        return live

    async def _write(self, action: plan.Action) -> None:
        if isinstance(action, plan.Foreign):
            raise NameTakenError(f"{action.kind} {action.name} exists and belongs to somebody else")
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

    async def _write_status(
        self,
        key: Key,
        begun: Snapshot,
        resolved: Resolved | Refusal,
        failures: Sequence[errors.OperatorError],
    ) -> None:
        """Report on the spec that the pass began with, and on the children as they are after its writes."""
        latest = self.store.snapshot(key)
        if latest is None:
            return
        metadata = begun.service["metadata"]
        deployment = latest.children.get((kinds.DEPLOYMENT.name, names.deployment(metadata["name"])))
        facts = status.Facts(
            service=begun.service,
            resolved=resolved,
            failure=_cause(failures),
            deployment=deployment.body if deployment and deployment.controller_uid == metadata["uid"] else None,
            pods=latest.pods,
            warnings=self.skew.warnings(),
        )
        wanted = self.skew.storable(status.compute(facts, self.now().strftime("%Y-%m-%dT%H:%M:%SZ")))
        if not status.is_news(wanted, begun.service):
            return
        try:
            namespace, name = key
            live = await self.cluster.apply_status(namespace=namespace, name=name, uid=metadata["uid"], status=wanted)
        except (errors.Absent, errors.Conflict):
            return  # deleted, or made again under the same name, since the pass began: that is another event
        self.store.put(extract.entry(kinds.GPT_SERVICE, live))


class StaleChildError(errors.Transient):
    """The child that the store knows is gone; the next pass, soon, makes it again."""


class ChildRejectedError(errors.Invalid):
    """The API server refuses the manifest for a child that exists; it need not be the spec that is to blame."""


class NameTakenError(errors.Conflict):
    """A child's name is taken by an object that is not ours."""


def _decide(snapshot: Snapshot, config: Config, served: frozenset[kinds.Kind]) -> Resolved | Refusal:
    spec = parse.parse(snapshot.service)
    if isinstance(spec, Refusal):
        return spec
    return resolve.resolve(snapshot.service, spec, snapshot.models, config, companions.Seen(snapshot.children, served))


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
