"""Nothing is written in steady state: seen by the proxy, by the API server's audit log, and on the objects."""

from __future__ import annotations

import time
from collections.abc import Callable

from e2e.api.state import CHILDREN, Observer
from e2e.cluster.audit import Write, summary
from e2e.cluster.handle import Cluster
from e2e.kube import KINDS, wait_until
from e2e.operator_process import OperatorProcess
from e2e.proxy import Switchboard

RESYNCS = 3
# After the last list's answer: longer than a pass and the pause between two passes of one service.
_SETTLE_SECONDS = 1.5
_WRITTEN = frozenset(KINDS[kind].plural for kind in ("GPTService", "GPTModel", *CHILDREN))


def assert_quiet(operator: OperatorProcess, board: Switchboard, cluster: Cluster, namespaces: set[str]) -> None:
    """Watch three resyncs and a restart; fails with what was written by anyone to our kinds in these namespaces."""
    settle(board, namespaces)

    def restart() -> None:
        operator.restart()
        time.sleep(_SETTLE_SECONDS)

    assert_silent(board, cluster, namespaces, resyncs=RESYNCS, then=restart)


def assert_silent(
    board: Switchboard,
    cluster: Cluster,
    namespaces: set[str],
    *,
    resyncs: int,
    then: Callable[[], None] = lambda: None,
) -> None:
    """As `assert_quiet`, over so many resyncs from now on and what `then` does."""
    mark, audit_mark = board.log.position, cluster.audit.mark(quiet_seconds=0.2, limit_seconds=5)
    wait_for_resyncs(board, resyncs)
    then()
    sent = [entry for entry in board.log.writes(mark) if entry.target.namespace in namespaces]
    told = [(str(entry.target), entry.sent) for entry in sent]
    assert sent == [], f"the operator wrote {len(sent)} times in steady state: {told}"
    stored = [
        write
        for write in cluster.audit.writes(audit_mark)
        if write.namespace in namespaces and write.resource.split("/")[0] in _WRITTEN and not _of_the_autoscaler(write)
    ]
    assert stored == [], summary(stored)


def _of_the_autoscaler(write: Write) -> bool:
    """Kubernetes' own writes down what it has measured, whether or not it changes anything."""
    return write.agent == "kube-controller-manager" and write.resource == "horizontalpodautoscalers/status"


def wait_for_resyncs(board: Switchboard, count: int) -> None:
    """Wait until every GPTService was listed `count` times from now on, and what followed is done."""
    mark = board.log.position
    plural = KINDS["GPTService"].plural

    def lists() -> int:
        found = board.log.since(mark, where=lambda e: e.target.verb == "list" and e.target.resource == plural)
        return sum(entry.seconds is not None for entry in found)

    wait_until(lists, lambda seen: seen >= count, f"{count} resyncs", timeout=60)
    time.sleep(_SETTLE_SECONDS)


def assert_untouched(observer: Observer, during: Callable[[], None]) -> None:
    """No object of our kinds in the namespace gets another resourceVersion while `during` runs."""
    before = observer.versions()
    during()
    assert observer.versions() == before


def settle(board: Switchboard, namespaces: set[str], *, since: int = 0) -> None:
    """Wait until the operator has written nothing to these namespaces for a while.

    The while begins now at the earliest: an operator that has just started has not written for long, and may be about
    to. `since` is a position of the log from before they were made: a long log takes long to look through.
    """
    began = time.time()

    def last() -> float:
        found = [entry.time for entry in board.log.writes(since) if entry.target.namespace in namespaces]
        return time.time() - max([began, *found[-1:]])

    wait_until(last, lambda age: age >= _SETTLE_SECONDS, "the writes to end", timeout=30)
