"""An operator that starts on lists that are out of date, as behind an API server that lags, ends where it should."""

from __future__ import annotations

import pytest

from e2e.api.exhaustive import oracles
from e2e.api.exhaustive.scenarios import Act, make_again, spec
from e2e.api.quiet import settle
from e2e.api.state import Observer, service
from e2e.kube import Kube, wait_until
from e2e.operator_process import OperatorProcess
from e2e.proxy import Match, Switchboard, replay

LISTS = Match(verbs=frozenset({"list"}))


@pytest.mark.parametrize(
    "act",
    [
        pytest.param(spec(engine={"args": ["--seed=2"]}), id="rollout"),
        pytest.param(spec(replicas=4, maxInflightRequests=3), id="scale"),
        pytest.param(spec(auth={"disabled": True}, networkPolicy={"disabled": True}), id="features off"),
        pytest.param(make_again, id="made again"),
    ],
)
def test_what_happened_since_is_not_undone_for_good(
    operator_without_resync: OperatorProcess,
    board: Switchboard,
    kube: Kube,
    namespace: str,
    observer: Observer,
    act: Act,
) -> None:
    """The watches, which go on from the old lists, say nothing either until it has acted on what it took for true."""
    operator = operator_without_resync
    kube.apply(service(replicas=2), namespace)
    observer.wait_ready()
    settle(board, {namespace})
    board.record_lists()
    operator.restart()
    settle(board, {namespace})
    board.record_lists(False)
    act(kube, namespace)
    observer.wait_ready()
    settle(board, {namespace})
    wanted, gpt = oracles.observe(observer), observer.gpt()

    rule = board.fail(replay(), match=LISTS, times=None)
    board.hold_watches()
    mark = board.log.position
    operator.restart()
    settle(board, {namespace})
    board.clear()
    wait_until(lambda: oracles.observe(observer), lambda now: now == wanted, "the state from before")
    observer.wait_ready()
    assert rule.fired
    assert (observer.gpt() or {})["metadata"]["uid"] == (gpt or {})["metadata"]["uid"]
    entries = [entry for entry in board.log.writes(mark) if entry.target.namespace == namespace]
    assert not oracles.deleted(entries), "nobody asked for it"
