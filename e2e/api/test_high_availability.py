"""Two replicas of the operator: one writes, the other takes over, and never do both.

Each has a proxy of its own, whose log says what it has sent and when.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e.api.state import Observer, service
from e2e.kube import Kube, wait_until
from e2e.operator_process import NAMESPACE, Access, OperatorProcess
from e2e.proxy import Match, Proxy, ProxyOptions, ProxyThread, hang
from e2e.proxy.target import READ_VERBS, WRITE_VERBS
from gptservice_operator import lease

LEASE_SECONDS = 3
"""Of the tests that measure. A leader that cannot renew it for two thirds of that ends."""
PATIENT_SECONDS = 9
"""Of the others: beside other tests, a machine may do nothing for as long as a short one lasts."""
TAKEOVER_SECONDS = LEASE_SECONDS + 2
TRIES = 50
"""Of `make test-long`."""
EVERYTHING = Match(verbs=WRITE_VERBS | READ_VERBS, not_resources=frozenset())


@dataclass
class Replica:
    """One operator behind a proxy of its own."""

    process: OperatorProcess
    proxy: ProxyThread

    @property
    def leads(self) -> bool:
        return b"leading as" in self.process.output()

    def writes_since(self, at: float) -> list[str]:
        """What it has begun to write after a point in time, but for Leases and Events."""
        entries = self.proxy.switchboard.log.since(where=lambda e: e.time >= at and e.target.verb in WRITE_VERBS)
        return [str(entry.target) for entry in entries if entry.target.resource not in ("leases", "events")]

    def cut_off(self) -> None:
        """Nothing that it sends arrives any more, and nothing says so."""
        self.proxy.switchboard.fail(hang(), match=EVERYTHING, times=None)


@pytest.fixture
def replicas(
    request: pytest.FixtureRequest, the_operator: OperatorProcess, access: Access, kube: Kube, tmp_path: Path
) -> Iterator[tuple[Replica, Replica]]:
    """Two, of which the first leads."""
    the_operator.stop()
    authority = tmp_path / "ca.pem"
    authority.write_text(access.authority or "")
    seconds = LEASE_SECONDS if request.node.get_closest_marker("long") else PATIENT_SECONDS
    with contextlib.ExitStack() as stack:
        pair = tuple(_replica(name, seconds, access, authority, tmp_path, stack) for name in ("one", "two"))
        first, second = pair
        start(first)
        wait_until(lambda: first.leads, bool, "the first replica to lead")
        start(second)
        yield first, second
    kube.delete("Lease", lease.NAME, NAMESPACE)


def _replica(
    name: str, lease_seconds: int, access: Access, authority: Path, folder: Path, stack: contextlib.ExitStack
) -> Replica:
    proxy = stack.enter_context(ProxyThread(Proxy(ProxyOptions(upstream=access.server, ca_file=authority))))
    settings = {"GPTSERVICE_LEASE_SECONDS": str(lease_seconds), "GPTSERVICE_POD_NAME": name}
    kubeconfig = access.through(proxy.proxy.url).write(folder / f"{name}.kubeconfig")
    process = OperatorProcess(kubeconfig, folder / f"{name}.log", settings)
    stack.callback(process.kill)
    return Replica(process, proxy)


def start(replica: Replica) -> None:
    replica.process.start()


def kill(leader: Replica) -> None:
    leader.process.kill()


def freeze(leader: Replica) -> None:
    leader.process.signal(signal.SIGSTOP)


def cut_off(leader: Replica) -> None:
    leader.cut_off()


def take_over(kube: Kube, namespace: str, pair: tuple[Replica, Replica], fault: Callable[[Replica], None]) -> float:
    """Break the leader, edit at once, and return for how many seconds nobody led."""
    leader, other = pair
    began = time.monotonic()
    fault(leader)
    kube.merge("GPTService", "gpt", namespace, {"spec": {"replicas": 3}})
    wait_until(lambda: other.leads, bool, "the other replica to lead")
    return time.monotonic() - began


@pytest.mark.parametrize("fault", [kill, freeze, cut_off])
def test_the_other_replica_takes_over_and_the_first_never_writes_again(
    replicas: tuple[Replica, Replica],
    kube: Kube,
    namespace: str,
    observer: Observer,
    fault: Callable[[Replica], None],
) -> None:
    leader, other = replicas
    kube.apply(service(replicas=2), namespace)
    observer.wait_ready()
    assert other.writes_since(0) == []
    take_over(kube, namespace, replicas, fault)
    led_from = time.time()
    if fault is freeze:
        leader.process.signal(signal.SIGCONT)
    if fault is not kill:
        assert leader.process.wait_ended() == 1
        assert "lease" in leader.process.tail().splitlines()[-1]
    observer.wait(lambda o: o is not None and o["status"].get("readyReplicas") == 3, "the edit to be carried out")
    assert leader.writes_since(led_from) == []
    assert other.writes_since(0)


def test_one_that_ends_in_an_orderly_way_gives_the_lease_back(
    replicas: tuple[Replica, Replica], kube: Kube, namespace: str, observer: Observer
) -> None:
    leader, other = replicas
    kube.apply(service(), namespace)
    observer.wait_ready()
    assert leader.process.stop() == 0
    held = kube.get("Lease", lease.NAME, NAMESPACE)["spec"]
    assert (held["holderIdentity"] or "").partition("_")[0] in ("", "two")
    wait_until(lambda: other.leads, bool, "the other replica to lead")


def test_everything_is_looked_at_after_a_takeover(
    replicas: tuple[Replica, Replica], kube: Kube, namespace: str, observer: Observer
) -> None:
    """What was damaged before, while nobody led, is no event any more."""
    leader, other = replicas
    kube.apply(service(), namespace)
    observer.wait_ready()
    leader.process.kill()
    kube.delete("Service", "gpt", namespace)
    wait_until(lambda: other.leads, bool, "the other replica to lead")
    wait_until(lambda: kube.find("Service", "gpt", namespace), bool, "the Service")


@pytest.mark.long
@pytest.mark.parametrize("fault", [kill, freeze])
def test_fifty_times(
    replicas: tuple[Replica, Replica],
    kube: Kube,
    namespace: str,
    observer: Observer,
    fault: Callable[[Replica], None],
    record_property: Callable[[str, object], None],
) -> None:
    kube.apply(service(), namespace)
    observer.wait_ready()
    pair, times = replicas, list[float]()
    for _ in range(TRIES // 2):
        leader, other = pair
        times.append(take_over(kube, namespace, pair, fault))
        led_from = time.time()
        if fault is freeze:
            leader.process.signal(signal.SIGCONT)
            leader.process.wait_ended()
        assert leader.writes_since(led_from) == []
        start(leader)
        pair = (other, leader)
    times.sort()
    record_property(
        "takeover",
        f"{len(times)} leaders lost by {fault.__name__}: nobody led for {times[len(times) // 2]:.1f} s (median), "
        f"{times[-1]:.1f} s at most; bar {TAKEOVER_SECONDS} s; no write by a loser",
    )
