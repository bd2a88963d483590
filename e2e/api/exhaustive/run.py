"""Runs one scenario undisturbed, then once per fault, and compares."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, field

from e2e.api.exhaustive import oracles
from e2e.api.exhaustive.faults import LOST, Trial
from e2e.api.exhaustive.oracles import Named, State
from e2e.api.exhaustive.scenarios import Scenario
from e2e.api.quiet import assert_silent, settle, wait_for_resyncs
from e2e.api.state import Observer
from e2e.cluster.handle import Cluster
from e2e.kube import Kube, wait_until
from e2e.operator_process import NAMESPACE, OperatorProcess
from e2e.proxy import Entry, Match, Switchboard
from e2e.proxy.faults import Countdown

THREADS = 6
# Trials side by side. More would only wait for each other, some of them longer than a request may take.
AT_ONCE = 24
# A resync would mend what was not tried again; only a lost event needs one.
NEVER = {"GPTSERVICE_RESYNC_SECONDS": "3600"}
SOON = {"GPTSERVICE_RESYNC_SECONDS": "2"}
# Short of it a request that hangs is given up.
IMPATIENT = {"GPTSERVICE_REQUEST_TIMEOUT_SECONDS": "5"}
_LOOK_SECONDS = 0.1
_END_SECONDS = 60.0


@dataclass
class Reference:
    """The undisturbed run."""

    state: State
    new: set[Named]
    deleted: set[Named]
    writes: int
    events: int


@dataclass
class Result:
    """What came of a scenario's trials."""

    tried: int = 0
    fired: int = 0
    failures: list[str] = field(default_factory=list[str])


@dataclass
class Runner:
    """One scenario on one cluster; every run has a namespace of its own."""

    name: str
    scenario: Scenario
    operator: OperatorProcess
    board: Switchboard
    kube: Kube
    cluster: Cluster
    stack: ExitStack
    namespaces: set[str] = field(default_factory=set[str])
    _began: int = field(init=False)
    """Where the log stood before."""

    def __post_init__(self) -> None:
        self._began = self.board.log.position

    def reference(self) -> Reference:
        """Run it undisturbed."""
        self._configure(NEVER)
        observer = self._prepare()
        before, mark = oracles.observe(observer), self.board.log.position
        counted = self.board.count_events(observer.namespace)
        self._act([observer])
        self.scenario.ends(observer)
        settle(self.board, {observer.namespace}, since=self._began)
        after, entries = oracles.observe(observer), self._writes(observer, mark)
        new = oracles.new_children(before, after, all_new=self.scenario.all_new)
        self.board.clear()
        return Reference(after, new, oracles.deleted(entries), len(entries), counted.seen)

    def run(self, trials: Sequence[Trial], reference: Reference) -> Result:
        """Try each fault; those that end the operator, and those that need a resync, after the others."""
        result = Result()
        for batch in in_batches([t for t in trials if not t.kills and t.fault is not LOST]):
            self._batch(batch, reference, result, NEVER)
        for trial in (t for t in trials if t.kills):
            # The next operator lists everything at its start anyhow.
            self._batch([trial], reference, result, SOON if self.scenario.down else None)
        for batch in in_batches([t for t in trials if t.fault is LOST]):
            self._batch(batch, reference, result, SOON)
            # Until then what was lost may be missing from a status.
            wait_for_resyncs(self.board, 1)
        return result

    def assert_quiet(self) -> None:
        """After all of it nothing is written any more, over a resync."""
        settle(self.board, self.namespaces, since=self._began)
        self._configure(SOON, upgraded=True)
        assert_silent(self.board, self.cluster, self.namespaces, resyncs=1)

    def _batch(
        self, trials: Sequence[Trial], reference: Reference, result: Result, resync: dict[str, str] | None
    ) -> None:
        """Run trials side by side, each in a namespace of its own; one that kills must be alone."""
        if not trials:
            return
        if resync is not None:
            self._configure(resync)
        with ThreadPoolExecutor(THREADS) as pool:
            observers = list(pool.map(lambda _: self._prepare(), trials))
            before = list(pool.map(oracles.observe, observers))
            mark = self.board.log.position
            rules = [trial.install(self.board, o.namespace) for trial, o in zip(trials, observers, strict=True)]
            self._act(observers, pool, killing=trials[0].kills)
            judged = [
                pool.submit(self._judge, o, mark, was, reference) for o, was in zip(observers, before, strict=True)
            ]
            if trials[0].kills:
                self._survive(judged[0])
            for trial, rule, future in zip(trials, rules, judged, strict=True):
                note(result, trial, rule, future.result)
        result.failures += self._strays(mark)
        self.board.clear()

    def _strays(self, mark: int) -> list[str]:
        """Writes to places where nothing is asked for; what earlier tests left may still be on its way out."""
        others = {e.target.namespace for e in self.board.log.writes(mark)} - self.namespaces - {"", NAMESPACE}
        found = [name for name in sorted(others) if not self.kube.all("GPTService", name) and self._stays(name)]
        return [f"wrote to {name}, where nothing is asked for" for name in found]

    def _stays(self, namespace: str) -> bool:
        found = self.kube.find("Namespace", namespace)
        return found is not None and "deletionTimestamp" not in found["metadata"]

    def _configure(self, resync: dict[str, str], *, upgraded: bool = False) -> None:
        wanted = {**IMPATIENT, **self.scenario.settings, **resync, **(self.scenario.upgrade if upgraded else {})}
        if self.operator.settings != wanted:
            self.operator.stop()
            self.operator.settings = wanted
        self.operator.start()

    def _prepare(self) -> Observer:
        observer = Observer(self.kube, self.stack.enter_context(self.kube.namespace("faults")))
        self.namespaces.add(observer.namespace)
        if self.scenario.before is not None:
            self.kube.apply(self.scenario.before, observer.namespace)
            self.scenario.begins(observer)
            settle(self.board, {observer.namespace}, since=self._began)
        return observer

    def _act(
        self, observers: Sequence[Observer], pool: ThreadPoolExecutor | None = None, *, killing: bool = False
    ) -> None:
        if self.scenario.down:
            self.operator.stop()
        each: Callable[[Observer], object] = lambda o: self.scenario.act(self.kube, o.namespace)  # noqa: E731
        list((pool.map if pool else map)(each, observers))
        if self.scenario.down:
            self.operator.settings = {**self.operator.settings, **self.scenario.upgrade}
            self.operator.start(wait=False)
            if not killing:
                self.operator.wait_filled()

    def _survive(self, judged: Future[None]) -> None:
        """Start the operator again when it has been killed, which may take a while."""
        while not wait([judged], timeout=_LOOK_SECONDS).done:
            if not self.operator.running:
                self._configure(SOON, upgraded=self.scenario.down)

    def _judge(self, observer: Observer, mark: int, before: State, reference: Reference) -> None:
        """Wait for the undisturbed run's end; raises AssertionError with all that is not as there."""
        self.scenario.ends(observer)
        wanted = (reference.state.children, reference.state.scaled_by)

        def read() -> tuple[object, object]:
            now = oracles.observe(observer)
            return now.children, now.scaled_by

        wait_until(read, lambda now: now == wanted, "the undisturbed run's end", timeout=_END_SECONDS, every=0.3)
        gpt, after = observer.gpt() or {"metadata": {}}, oracles.observe(observer)
        told = oracles.complaints(
            entries=self._writes(observer, mark),
            new=reference.new,
            may_delete=reference.deleted,
            generation=gpt["metadata"].get("generation"),
        )
        told += self._of_keys(before, after, reference)
        assert not told, "; ".join(told)

    def _of_keys(self, before: State, after: State, reference: Reference) -> list[str]:
        if len(after.keys) != len(reference.state.keys):
            return [f"keys: {sorted(after.keys)}"]
        if self.scenario.before is not None and not self.scenario.all_new and not self.scenario.new_key:
            return [] if before.keys.items() <= after.keys.items() else ["the key is another"]
        return []

    def _writes(self, observer: Observer, mark: int) -> list[Entry]:
        """What the operator wrote there, but for Events."""
        counts = Match(namespace=observer.namespace)
        return [entry for entry in self.board.log.writes(mark) if counts(entry.target, entry.user_agent)]


def in_batches(trials: Sequence[Trial]) -> Iterator[Sequence[Trial]]:
    """Yield trials that run side by side."""
    for begin in range(0, len(trials), AT_ONCE):
        yield trials[begin : begin + AT_ONCE]


def note(result: Result, trial: Trial, rule: Countdown, judge: Callable[[], object]) -> None:
    """Count a trial, and keep what was wrong with it."""
    result.tried += 1
    try:
        judge()
    except AssertionError as error:
        result.failures.append(f"{trial}{'' if rule.fired else ' (which did not come)'}: {error}")
    result.fired += bool(rule.fired)
