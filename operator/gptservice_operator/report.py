"""Reports on a service at the end of a pass: its status, and the Events of what changed."""

import dataclasses
import datetime
from collections.abc import Sequence
from dataclasses import dataclass

from . import errors, events, extract, names, stability, status
from .api import kinds
from .api.body import Body, section
from .census import Census
from .cluster import Cluster
from .config import Config
from .contests import Contests
from .counts import is_told_already
from .decide import Decision
from .failures import cause_of
from .recorder import Recorder
from .skew import Skew
from .store import Observed, Snapshot, Store

STATUS_AGAIN_SECONDS = 1.0
"""A status in conflict is tried again: if the service was not made anew, which is an event, nothing else would."""


@dataclass(frozen=True, slots=True)
class Report:
    """What it needs; see `reconcile.Reconciler`."""

    store: Store
    cluster: Cluster
    config: Config
    skew: Skew
    contests: Contests
    recorder: Recorder
    census: Census

    async def write(
        self,
        begun: Snapshot,
        decision: Decision,
        failures: Sequence[errors.OperatorError],
        stuck: events.Found,
        now: datetime.datetime,
    ) -> float | None:
        """Report on the spec that the pass began with, and on the children as they are after its writes.

        Returns:
            Seconds after which the status may be another, though nothing happens.
        """
        key = begun.key
        latest = self.store.snapshot(key)
        if latest is None:
            return None
        metadata = begun.service["metadata"]
        if not failures and latest.deployment is not None and is_told_already(begun.service, latest.deployment.body):
            return None
        facts = self._facts(begun, latest, decision, failures, stuck)
        proof = self._prove(facts, latest, now)
        # What only the former one needed may go as soon as another is stable.
        former = section(begun.service, "status").get("stableRevision")
        again = proof.seconds_left if former in (None, proof.name) else 0.0
        facts = dataclasses.replace(facts, stable_revision=proof.name, calm=proof.calm, settled=proof.settled)
        wanted = self.skew.storable(status.compute(facts, now.strftime("%Y-%m-%dT%H:%M:%SZ")))
        self.census.count(key, wanted)
        if not status.is_news(wanted, begun.service):
            return again
        try:
            live = await self.cluster.apply_status(namespace=key[0], name=key[1], uid=metadata["uid"], status=wanted)
        except errors.Absent:
            return None  # deleted since the pass began: that is another event
        except errors.Conflict:
            return STATUS_AGAIN_SECONDS
        entry = extract.entry(kinds.GPT_SERVICE, live)
        if _is_as_it_was(entry.body(), begun.service):
            self.store.put(entry)
        self.census.told(begun.service, wanted, now)
        await self.recorder.record(self.cluster, begun.service, wanted, now)
        return again

    def _facts(
        self,
        begun: Snapshot,
        latest: Snapshot,
        decision: Decision,
        failures: Sequence[errors.OperatorError],
        stuck: events.Found,
    ) -> status.Facts:
        key = begun.key
        return status.Facts(
            service=begun.service,
            resolved=decision.resolved,
            failure=cause_of(failures),
            deployment=_body(latest.deployment),
            hpa=_body(latest.own_child(kinds.HPA, names.hpa(key[1]))),
            pods=latest.pods,
            warnings=[*decision.warnings, *self.contests.warnings(key), *self.skew.warnings()],
            complaints=stuck.complaints,
            effective=decision.effective,
            rollout=decision.fate.cause,
        )

    def _prove(self, facts: status.Facts, latest: Snapshot, now: datetime.datetime) -> stability.Proof:
        return stability.prove(
            facts.service,
            latest.children,
            latest.pods,
            rolled_out=facts.deployment if status.is_complete(facts) else None,
            now=now,
            period=self.config.stable_seconds,
        )


def _is_as_it_was(live: Body, begun: Body) -> bool:
    """Whether nobody has edited the service since the pass began.

    An edit that the store took from the reply to a status would be no news when its event comes, and wake nobody.
    """
    return {**live, "status": None} == {**begun, "status": None}


def _body(child: Observed | None) -> Body | None:
    return child.body if child is not None else None
