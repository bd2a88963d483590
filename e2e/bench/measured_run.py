"""One run of one operator on a cluster of its own: what it costs to make many services, edit them, and start again."""

import os
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from e2e.bench import requests
from e2e.bench.figures import percentile, slope
from e2e.bench.population import FAILING, Population
from e2e.bench.subjects import SUBJECTS, Subject
from e2e.cluster import lifecycle, records
from e2e.kube import FIELD_MANAGER, Kube, wait_until

ROLLED = 100
"""How many services get an edit that rolls their pods."""
EDITS_PER_SECOND = 5
CYCLES = 3
"""How often all services are edited to see whether memory grows."""
_QUIET_SECONDS = 3.0
_MOST_SECONDS = 600.0
_PODS_PER_NODE = 200
_SECRET_BYTES = 10**6
_MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class Plan:
    """What one run does."""

    operator: str
    services: int
    replicas: int = 0
    create_only: bool = False
    """Whether nothing is measured beyond the services' making, and one edit that rolls them."""
    idle_seconds: float = 20
    edit_seconds: float = 20
    """How long there are edits at a steady rate: once alone, once beside a service that fails."""
    secrets: int = 0
    """Foreign Secrets of 1 MB that come at the end, after `CYCLES` further edits of all services; 0 leaves both out."""


@dataclass
class Span:
    """A part of a run."""

    position: int
    """Of its first request in the log."""
    cpu_seconds: float = 0.0
    """What the operator has used in it."""


@dataclass
class Run:
    """A run under way; `figures` is what it has found so far."""

    plan: Plan
    population: Population
    subject: Subject
    log: requests.Reader
    figures: dict[str, float] = field(default_factory=dict[str, float])

    def measure(self) -> None:
        """All of it, in the order in which a service lives."""
        process, services = self.subject.process, self.plan.services
        process.start()
        self._await_quiet()
        self.figures["idle_rss_mib"] = process.resident_bytes() / _MEBIBYTE
        self._create()
        if not self.plan.create_only:
            self._edit("edit", self.population.another_limit(), services)
        self._edit("roll", {"drainTimeoutSeconds": 61}, min(ROLLED, services))
        if not self.plan.create_only:
            self._idle()
            self._edit_steadily("edit_to_write")
            self._edit_beside_failing()
        self.figures["peak_rss_mib"] = process.resident_bytes(peak=True) / _MEBIBYTE
        if not self.plan.create_only:
            self._restart()
        if self.plan.secrets:
            self._grow()
            self._add_secrets()
        process.stop()

    def _create(self) -> None:
        """From nothing to as many services as the plan has, all with the status that says so."""
        services = self.plan.services
        with self._counted() as span:
            self.population.create()
        found = self._note("create", span, services)
        gets = [one for one in found if one.user == self.subject.user and one.verb == "get" and not one.is_lease]
        self.figures["create_reads"] = len(gets) / services
        self.figures["create_server_writes"] = requests.count(found, requests.API_SERVER).children / services

    def _edit(self, name: str, change: dict[str, object], services: int) -> None:
        """Edit so many services, as fast as that goes."""
        with self._counted() as span:
            self.population.edit_many(change, services)
        self._note(name, span, services)

    def _idle(self) -> None:
        """What is asked while nothing happens."""
        position, used, seconds = len(self.log.read()), self.subject.process.cpu_seconds, self.plan.idle_seconds
        time.sleep(seconds)
        counts = requests.count(self.log.read()[position:], self.subject.user)
        self.figures["idle_requests"] = counts.requests * 60 / seconds
        self.figures["idle_leases"] = counts.leases * 60 / seconds
        self.figures["idle_cpu_percent"] = (self.subject.process.cpu_seconds - used) / seconds * 100

    def _edit_steadily(self, name: str) -> None:
        """Edits at a steady rate, each of another service: how soon the child is written that it changes."""
        position, begun = len(self.log.read()), time.monotonic()
        count = min(self.plan.services, int(self.plan.edit_seconds * EDITS_PER_SECOND))
        chosen = random.Random(name).sample(range(self.plan.services), count)
        for at, number in enumerate(chosen):
            time.sleep(max(0.0, begun + at / EDITS_PER_SECOND - time.monotonic()))
            self.population.edit(number, self.population.another_limit())
        self._await_quiet(ignoring=FAILING)
        delays = requests.delays(
            (one for one in self.log.read()[position:] if one.place[0] != FAILING),
            editor=FIELD_MANAGER,
            user=self.subject.user,
            resource="configmaps",
            suffix="-limits",
        )
        for percent in (50, 99):
            self.figures[f"{name}_p{percent}_ms"] = 1000 * percentile(delays, percent)

    def _edit_beside_failing(self) -> None:
        position = len(self.log.read())
        with self.population.failing():
            self._edit_steadily("edit_beside_failing")
        self._await_quiet()
        refused = sum(one.place[0] == FAILING and one.code == 403 for one in self.log.read()[position:])
        if not refused:
            raise RuntimeError("no pass of the service that was to fail has failed")
        self.figures["refusals"] = refused

    def _restart(self) -> None:
        """Stop it in an orderly way and start it again: what it asks for, and when it knows everything."""
        process, position = self.subject.process, len(self.log.read())
        process.stop()
        begun = time.monotonic()
        process.start()
        self.figures["restart_ready_s"] = time.monotonic() - begun
        self._await_quiet()
        counts = requests.count(self.log.read()[position:], self.subject.user)
        self.figures["restart_cpu_s"] = process.cpu_seconds
        self.figures["restart_requests"] = counts.requests
        self.figures["restart_requests_of_a_kind"] = max(counts.by_kind.values())
        self.figures["restart_writes"] = counts.writes
        self.figures["restart_peak_rss_mib"] = process.resident_bytes(peak=True) / _MEBIBYTE

    def _grow(self) -> None:
        """Whether each further edit costs memory for good."""
        points: list[tuple[float, float]] = []
        for cycle in range(CYCLES):
            self.population.edit_many(self.population.another_limit(), self.plan.services)
            self._await_quiet()
            points.append((cycle * self.plan.services, self.subject.process.resident_bytes() / 1024))
        # The first cycle after a start fills what the process keeps for itself.
        self.figures["slope_kib"] = 1000 * slope(points[1:])

    def _add_secrets(self) -> None:
        process = self.subject.process
        before = process.resident_bytes(peak=True)
        self.population.add_secrets(self.plan.secrets, _SECRET_BYTES)
        self._await_quiet()
        self.figures["secrets_mib"] = (process.resident_bytes(peak=True) - before) / _MEBIBYTE
        process.restart()
        self._await_quiet()
        self.figures["secrets_restart_peak_rss_mib"] = process.resident_bytes(peak=True) / _MEBIBYTE

    @contextmanager
    def _counted(self) -> Iterator[Span]:
        """What happens inside and until the operator is quiet again."""
        span, before = Span(len(self.log.read())), self.subject.process.cpu_seconds
        yield span
        self._await_quiet()
        span.cpu_seconds = self.subject.process.cpu_seconds - before

    def _note(self, name: str, span: Span, services: int) -> Sequence[requests.Request]:
        """Take the time from the first request of a user to the operator's last write, its writes, and its CPU time."""
        self.population.check_converged()
        found = self.log.requests[span.position :]
        first = min(one.received for one in found if one.agent.startswith(FIELD_MANAGER) and one.is_write)
        last = requests.last_write(found, self.subject.user)
        if last is None:
            raise RuntimeError(f"{name}: nothing was written:\n{self.subject.process.tail()}")
        counts = requests.count(found, self.subject.user)
        self.figures |= {
            f"{name}_s": last - first,
            f"{name}_cpu_ms": 1000 * span.cpu_seconds / services,
            f"{name}_child_writes": counts.children / services,
            f"{name}_status_writes": counts.status / services,
            f"{name}_event_writes": counts.events / services,
        }
        return found

    def _await_quiet(self, *, ignoring: str = "") -> None:
        """Wait until the operator has written nothing for a while, but in a namespace that is of no interest."""
        begun, position = time.time(), len(self.log.requests)

        def idle_for() -> float:
            found = [one for one in self.log.read()[position:] if not ignoring or one.place[0] != ignoring]
            return time.time() - (requests.last_write(found, self.subject.user) or begun)

        wait_until(idle_for, lambda age: age > _QUIET_SECONDS, "its writes to end", timeout=_MOST_SECONDS, every=0.5)


def measure(plan: Plan, folder: Path) -> dict[str, float]:
    """Do one run on a cluster that is made for it, and return its figures.

    Raises:
        RuntimeError: the operator did not do what was asked for.
        AssertionError: nor in time.
    """
    name = f"bench-operator-{os.getpid()}"
    nodes = 1 + 2 * plan.services * plan.replicas // _PODS_PER_NODE
    spec = records.Spec(name, nodes=nodes, audit_mode="blocking", audit_policy="requests")
    cluster = lifecycle.up(spec)
    try:
        kube = Kube(cluster.kubeconfig)
        subject = SUBJECTS[plan.operator](kube, cluster.kubeconfig, folder)
        population = Population(kube, plan.services, plan.replicas)
        population.prepare()
        run = Run(plan, population, subject, requests.Reader(cluster.audit.path))
        try:
            run.measure()
        finally:
            subject.process.kill()
        return run.figures
    finally:
        lifecycle.down(name)
