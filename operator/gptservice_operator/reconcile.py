"""One pass over one GPTService: snapshot, resolve, render, plan, write, report."""

import dataclasses
import datetime
from collections.abc import Callable
from dataclasses import dataclass, field

from . import actions, decide, errors, events, keys, names, observe, plan
from .api import kinds
from .census import Census
from .cluster import Cluster
from .config import Config
from .contests import Contests
from .decide import Decision
from .discovery import Discovery
from .extract import Key
from .failures import raise_unless_settled
from .gpu_health import Replacement
from .recorder import Recorder
from .render.resolved import Resolved
from .report import Report
from .skew import Skew
from .store import Snapshot, Store
from .writes import ExistsError, Writes


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
    contests: Contests = field(default_factory=Contests)
    """Children that somebody else keeps changing back."""
    mounts: events.Mounts = field(default_factory=events.Mounts)
    """What Events say of pods that cannot start."""
    discovery: Discovery = field(default_factory=Discovery)
    """Which optional kinds the cluster has."""
    recorder: Recorder = field(default_factory=Recorder)
    """Tells people by Events what changed."""
    census: Census = field(default_factory=Census)
    """Counts services by state, and how long they take."""

    async def reconcile(self, key: Key) -> float | None:
        """Bring one service's children and status to what its spec says; return after how many seconds to look again.

        Raises:
            errors.OperatorError: something could not be done; what could be done is done, and status says so.
        """
        snapshot = self.store.snapshot(key)
        if snapshot is None or "deletionTimestamp" in snapshot.service["metadata"]:
            self.forget(key)
            return None
        now = self.now()
        self.census.see(snapshot.service, now)
        decision, failures = await self._act(snapshot, now)
        stuck = events.Found()
        if isinstance(decision.resolved, Resolved):
            stuck = await self._look_at_stuck_pods(key, decision.resolved, snapshot, now, failures)
        left = await self._report().write(snapshot, decision, failures, stuck, now)
        raise_unless_settled(failures)
        waits = (stuck.again, left, decision.fate.again, decision.replacement.again, self.contests.again(key, now))
        return min((seconds for seconds in waits if seconds is not None), default=None)

    def forget(self, key: Key) -> None:
        """Drop what is remembered of a service that is gone, or is not to be looked at."""
        self.mounts.forget(key)
        self.contests.forget(key)
        self.recorder.forget(key)
        self.census.forget(key)

    async def _act(self, snapshot: Snapshot, now: datetime.datetime) -> tuple[Decision, list[errors.OperatorError]]:
        """Decide, and write what differs.

        For the children of a new service nobody looks first, which would be five requests of fourteen: each is made
        only if there is none of its name. Where there is one, they are all looked for after all.
        """
        key, decision = snapshot.key, self._decide(snapshot, now)
        if snapshot.is_new and isinstance(decision.resolved, Resolved):
            nothing = observe.assumed([actions.child_key(manifest) for manifest in decision.desired])
            failures = await self._write_children(key, decision, decision.resolved, nothing, now)
            if not any(isinstance(failure, ExistsError) for failure in failures):
                return decision, failures
        decision, view = await self._look(snapshot, decision, now)
        failures = await self._stop(key, decision, now)
        if view is not None and isinstance(decision.resolved, Resolved):
            failures += await self._write_children(key, decision, decision.resolved, view, now)
            failures = failures or await self._replace_pod(key[0], decision.replacement)
        return decision, failures

    async def _look(
        self, snapshot: Snapshot, decision: Decision, now: datetime.datetime
    ) -> tuple[Decision, observe.View | None]:
        """Look at the children, and decide again if that shows more; no view of those of a service that is refused."""
        resolved = decision.resolved
        if not isinstance(resolved, Resolved):
            return await self._look_for_what_to_stop(snapshot, decision, now), None
        desired = [actions.child_key(manifest) for manifest in decision.desired]
        also = _autoscaler_out_of_sight(resolved, snapshot)
        view = await observe.complete(self.cluster, self.store, desired, snapshot.children, snapshot.service, also)
        # There after all, but the watches do not show them: their label is gone.
        unseen = view.observed.keys() - snapshot.children.keys()
        if hidden := {key: view.observed[key] for key in unseen if key[0] == kinds.CONTROLLER_REVISION.name}:
            decision = self._decide(dataclasses.replace(snapshot, children={**snapshot.children, **hidden}), now)
        return decision, view

    def _report(self) -> Report:
        return Report(self.store, self.cluster, self.config, self.skew, self.contests, self.recorder, self.census)

    def _decide(self, snapshot: Snapshot, now: datetime.datetime) -> Decision:
        complaints = self.mounts.known(snapshot.key)
        return decide.decide(snapshot, self.config, now, self.discovery.served, complaints)

    async def _look_for_what_to_stop(self, snapshot: Snapshot, refused: Decision, now: datetime.datetime) -> Decision:
        """Decide again with a Deployment that no watch shows: a service that is to stop may have lost its label."""
        key = (kinds.DEPLOYMENT.name, names.deployment(snapshot.service["metadata"]["name"]))
        if not decide.is_to_stop(snapshot.service) or key in snapshot.children:
            return refused
        view = await observe.complete(self.cluster, self.store, [], snapshot.children, snapshot.service, [key])
        if key not in view.observed:
            return refused
        return self._decide(dataclasses.replace(snapshot, children=view.observed), now)

    async def _stop(self, key: Key, decision: Decision, now: datetime.datetime) -> list[errors.OperatorError]:
        """Whoever starts a stopped Deployment again and again is in contest for it, too."""
        child, writes = (kinds.DEPLOYMENT.name, names.deployment(key[1])), Writes(self.cluster, self.store, key[0])
        if not decision.stop or not self.contests.may_repair(key, child, now):
            return []
        try:
            await writes.run(decision.stop)
        except errors.OperatorError as error:
            return [error]
        self.contests.repaired(key, child, now, overruled=writes.overruled)
        return []

    async def _write_children(
        self, key: Key, decision: Decision, resolved: Resolved, view: observe.View, now: datetime.datetime
    ) -> list[errors.OperatorError]:
        """Write what differs. The failure of one child does not stop the others."""
        try:
            if view.absent and not await self._is_live(resolved):
                return []
        except errors.OperatorError as error:
            return [error]
        await self._make_api_key(resolved, view)
        failures = list(view.unknown.values())
        desired = {actions.child_key(manifest): manifest for manifest in decision.desired}
        unknown = plan.held_back(view.unknown, desired)
        seen = [manifest for key, manifest in desired.items() if key not in unknown]
        writes = Writes(self.cluster, self.store, resolved.namespace)
        chains = plan.plan(seen, view.observed, resolved.uid, resolved.initial_replicas, decision.in_use)
        changed = {child for chain in chains if (child := actions.repaired(chain)) is not None}
        for chain in [*chains, *((deletion,) for deletion in decision.expired)]:
            repaired = actions.repaired(chain)
            if repaired is not None and not self.contests.may_repair(key, repaired, now):
                continue
            try:
                await writes.run(chain)
            except errors.OperatorError as error:
                failures.append(error)
            if repaired is not None:
                self.contests.repaired(key, repaired, now, overruled=writes.overruled)
        self.contests.settle(key, changed, now)
        return failures

    async def _replace_pod(self, namespace: str, gpu: Replacement) -> list[errors.OperatorError]:
        """Delete a pod for its GPU, once it is kept that it was: not even a restart may make it two in a row."""
        try:
            if gpu.pod is not None:
                await Writes(self.cluster, self.store, namespace).delete_pod(gpu.pod, gpu.uid)
        except errors.OperatorError as error:
            return [error]
        return []

    async def _make_api_key(self, resolved: Resolved, view: observe.View) -> None:
        """Make the Secret before the Deployment, whose pods wait for it: no Deployment in this pass if that fails."""
        deployment = (kinds.DEPLOYMENT.name, names.deployment(resolved.name))
        if deployment in view.unknown or not keys.is_missing(resolved, view.observed.get(deployment)):
            return
        try:
            await keys.make(self.cluster, resolved)
        except errors.Absent:
            pass  # the namespace is being deleted, and the service with it
        except errors.OperatorError as error:
            view.unknown[deployment] = error

    async def _look_at_stuck_pods(
        self,
        key: Key,
        resolved: Resolved,
        snapshot: Snapshot,
        now: datetime.datetime,
        failures: list[errors.OperatorError],
    ) -> events.Found:
        """Find out why pods do not start; a Secret of ours that somebody deleted is made again, with a new key."""
        deployment = snapshot.deployment.body if snapshot.deployment is not None else None
        found = await self.mounts.look(self.cluster, key, snapshot.pods, deployment, now)
        if resolved.api_keys is None or not resolved.api_keys.generated:
            return found
        if resolved.api_keys.secret in found.fresh:
            try:
                await keys.make(self.cluster, resolved)
            except errors.OperatorError as error:
                failures.append(error)
        return found.without(resolved.api_keys.secret)

    async def _is_live(self, resolved: Resolved) -> bool:
        live = await observe.is_live(self.cluster, resolved.namespace, resolved.name, resolved.uid)
        if not live:
            self.store.discard((kinds.GPT_SERVICE.name, resolved.namespace, resolved.name), resolved.uid)
        return live


def _autoscaler_out_of_sight(resolved: Resolved, snapshot: Snapshot) -> list[actions.ChildKey]:
    """Return the autoscaler's key where it has to be looked for though the spec asks for none.

    One whose label was taken off is in no watch, and would undo the count that is applied.
    """
    live = snapshot.children.get((kinds.DEPLOYMENT.name, names.deployment(resolved.name)))
    key = (kinds.HPA.name, names.hpa(resolved.name))
    handed_over = live is not None and names.MANAGER not in live.replicas_managers
    return [key] if resolved.autoscaling is None and handed_over and key not in snapshot.children else []
