"""The API server is gone for a while, or fails some requests all the time: what was asked for is done all the same."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from e2e.api.exhaustive.faults import SEED
from e2e.api.quiet import settle
from e2e.api.state import Observer, is_ready, service
from e2e.kube import KINDS, Kube, wait_until
from e2e.operator_process import OperatorProcess
from e2e.proxy import Match, Rule, Switchboard, answer, hang, refuse_connection
from e2e.proxy.faults import Fault
from e2e.proxy.target import READ_VERBS, WRITE_VERBS

EVERYTHING = Match(verbs=WRITE_VERBS | READ_VERBS, not_resources=frozenset())
SERVICES = 20
# Of each watched kind, and of each service, over a minute; a client that does not pause makes thousands.
MOST_REQUESTS_PER_MINUTE = 40
RATE = 0.05
# As in production; the operator of this level is faster.
REAL_PERIODS = {
    "resync_seconds": "600",
    "backoff_base_seconds": "0.5",
    "backoff_max_seconds": "60",
    "status_interval_seconds": "1",
}
GONE: dict[str, Fault] = {
    "refused": refuse_connection(),
    "silent": hang(),
    "503": answer(503),
    "429": answer(429, retry_after=1),
}


@contextmanager
def outage(board: Switchboard, fault: Fault) -> Iterator[None]:
    """No request is answered by the API server, and open watches are closed."""
    board.add(Rule(fault=fault, match=EVERYTHING, times=None))
    board.cut_watches()
    try:
        yield
    finally:
        board.clear()


def edit_during(
    seconds: float, fault: Fault, operator: OperatorProcess, board: Switchboard, kube: Kube, namespace: str
) -> tuple[float, int]:
    """Edits before and in an outage; returns in how many seconds after it all was done, and the requests in it."""
    names = [f"gpt-{number}" for number in range(SERVICES)]
    observer, pid = Observer(kube, namespace), operator.pid
    kube.create_many([_in(namespace, name, replicas=1) for name in names])
    wait_until(lambda: _done(kube, namespace, 1), bool, "all to be Ready", timeout=90)
    settle(board, {namespace})
    with outage(board, fault):
        mark = board.log.position
        for name in names:
            kube.scale(name, namespace, 2)
            time.sleep(seconds / SERVICES)
        asked = board.log.position - mark
    began = time.monotonic()
    wait_until(lambda: _done(kube, namespace, 2), bool, "all edits to be done", timeout=120)
    took = time.monotonic() - began
    assert operator.running
    assert operator.pid == pid, "it started anew"
    assert observer.children()
    return took, asked


def _in(namespace: str, name: str, *, replicas: int) -> dict[str, object]:
    made = service(name, replicas=replicas)
    return {**made, "metadata": {**made["metadata"], "namespace": namespace}}


def _done(kube: Kube, namespace: str, replicas: int) -> bool:
    found = kube.all("GPTService", namespace)
    return len(found) == SERVICES and all(is_ready(gpt) and gpt["spec"]["replicas"] == replicas for gpt in found)


def most_requests(seconds: float) -> int:
    return int((len(KINDS) + SERVICES) * MOST_REQUESTS_PER_MINUTE * max(1.0, seconds / 60))


@pytest.mark.parametrize(
    "how", [how if how == "refused" else pytest.param(how, marks=pytest.mark.long) for how in GONE]
)
def test_a_short_outage(operator: OperatorProcess, board: Switchboard, kube: Kube, namespace: str, how: str) -> None:
    took, asked = edit_during(5, GONE[how], operator, board, kube, namespace)
    print(f"all done {took:.1f} s after it, {asked} requests in it")
    assert asked < most_requests(5)


@pytest.mark.long
@pytest.mark.parametrize("how", GONE)
def test_an_outage_of_a_minute(
    operator: OperatorProcess,
    configure: Callable[..., None],
    board: Switchboard,
    kube: Kube,
    namespace: str,
    record_property: Callable[[str, object], None],
    how: str,
) -> None:
    configure(**REAL_PERIODS)
    took, asked = edit_during(60, GONE[how], operator, board, kube, namespace)
    told = f"API server gone for 60 s ({how}): {SERVICES} edits done {took:.1f} s after it, {asked} requests in it"
    print(told)
    record_property("outage", told)
    assert asked < most_requests(60)


def churn(board: Switchboard, kube: Kube, namespace: str, edits: int) -> Rule:
    """Edits at random while some of all requests fail, which SEED chooses."""
    observer, chooser = Observer(kube, namespace), random.Random(SEED)
    rule = board.add(Rule(fault=answer(500), match=EVERYTHING, times=None, rate=RATE, seed=int(SEED)))
    lost = board.add(Rule(fault=refuse_connection(), match=EVERYTHING, times=None, rate=RATE / 2, seed=int(SEED) + 1))
    kube.apply(service(replicas=1), namespace)
    for number in range(edits):
        change = {
            "replicas": chooser.randint(1, 4),
            "maxInflightRequests": number + 1,
            "service": {"port": 8000 + number},
        }
        kube.merge("GPTService", "gpt", namespace, {"spec": change})
        if chooser.random() < 0.3:
            kube.delete(
                *chooser.choice((("Service", "gpt"), ("Deployment", "gpt"), ("ConfigMap", "gpt-limits"))), namespace
            )
        wait_until(lambda: observer.gpt(), bool, "the edit to be stored")
    return rule if rule.fired >= lost.fired else lost


def test_some_requests_fail_all_the_time(
    operator: OperatorProcess, board: Switchboard, kube: Kube, namespace: str, observer: Observer
) -> None:
    pid = operator.pid
    rule = churn(board, kube, namespace, 30)
    observer.wait_ready()
    board.clear()
    wanted = (observer.gpt() or {})["spec"]
    wait_until(
        lambda: observer.child("Service")["spec"]["ports"][0]["port"],
        lambda port: port == wanted["service"]["port"],
        "the last port",
    )
    observer.wait_ready()
    assert operator.pid == pid
    assert rule.fired


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_watch_that_falls_silent(
    operator_without_resync: OperatorProcess,
    board: Switchboard,
    kube: Kube,
    namespace: str,
    observer: Observer,
    record_property: Callable[[str, object], None],
) -> None:
    """As behind a load balancer that forgets a connection: nothing comes, and nothing says so."""
    kube.apply(service(replicas=1), namespace)
    observer.wait_ready()
    settle(board, {namespace})
    board.mute_watches()
    began = time.monotonic()
    kube.scale("gpt", namespace, 2)
    observer.wait(
        lambda gpt: is_ready(gpt) and (gpt or {})["spec"]["replicas"] == 2, "the edit to be done", timeout=150
    )
    told = f"watches fell silent: an edit was done {time.monotonic() - began:.0f} s later"
    print(told)
    record_property("silence", told)
