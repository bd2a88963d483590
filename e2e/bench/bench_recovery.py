"""`make bench-recovery`: how soon all is as it should be after a fault, beside a plain operator on controller-runtime.

Each operator has a cluster of its own, runs as a ServiceAccount with its production settings, and reaches the API
server through a proxy that spoils one write of one new service: each of the service's writes once, with each fault. The
time is from the spoilt write's arrival to the answer of the last write that the service needs. After a kill the
operator is started again at once, and its start counts; with election on, it has to wait for the Lease that the killed
one held.

    make bench-recovery                        10 minutes
    make bench-recovery ARGS="--writes 2"      see whether it works: the first two writes only
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from e2e.bench import subjects
from e2e.bench.figures import OURS, REFERENCE, Bar, Row, Runs, table
from e2e.bench.population import CHILDREN, bare_service
from e2e.bench.subjects import SUBJECTS, Subject
from e2e.cluster import lifecycle, records
from e2e.kube import Kube, Object, wait_until
from e2e.operator_process import Access
from e2e.proxy import (
    Entry,
    Match,
    Proxy,
    ProxyOptions,
    ProxyThread,
    Switchboard,
    answer,
    drop_reply,
    kill,
    refuse_connection,
)
from e2e.proxy.faults import Fault
from gptservice_operator.config import Config

SERVICE = "gpt"
WRITES = CHILDREN + 1
"""What a service needs: its children and its status."""
LEASE_SECONDS = Config(runtime_image="none").lease_seconds
_KINDS = ("Deployment", "Service", "ConfigMap", "ControllerRevision")
_MOST_SECONDS = 120.0
_QUIET_SECONDS = 1.0
_LOOK_SECONDS = 0.05

FAULTS: Mapping[str, Fault] = {
    "the connection is closed before": refuse_connection(),
    "the reply is lost": drop_reply(),
    "409": answer(409),
    "422": answer(422),
    "429": answer(429),
    "429, Retry-After 1": answer(429, retry_after=1),
    "500": answer(500),
    "503": answer(503),
}
KILLS: Mapping[str, Fault] = {"killed before": kill("before"), "killed after": kill("after")}
_NO_KILL = Bar(ratio=2, plus=0.5)


@dataclass
class Trials:
    """One operator's trials on a cluster that is its own."""

    kube: Kube
    subject: Subject
    board: Switchboard
    found: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    _count: int = 0

    def measure(self, writes: int) -> None:
        """Try everything, first without election, then with it."""
        self.subject.elects(False)
        self.subject.process.start()
        for name, fault in {**FAULTS, **KILLS}.items():
            self.found[name] = [self._try(fault, number) for number in range(1, writes + 1)]
        self.subject.process.stop()
        self.subject.elects(True)
        self.subject.process.start()
        name = "killed after"
        self.found[f"{name}, with election"] = [self._try(KILLS[name], number) for number in range(1, writes + 1)]
        self.subject.process.stop()

    def _try(self, fault: Fault, number: int) -> float:
        """Seconds that a new service takes whose write of that number is spoilt; from that write on."""
        self._count += 1
        namespace, mark = f"recovery-{self._count}", self.board.log.position
        self.kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        rule = self.board.fail(fault, match=Match(namespace=namespace), nth=number)
        self.kube.create(bare_service(SERVICE, namespace, replicas=0))
        if fault in KILLS.values():
            self.subject.process.wait_ended()
            self.subject.process.start(wait=False)
        wait_until(lambda: self._is_made(namespace), bool, f"{namespace} to be made", timeout=_MOST_SECONDS)
        writes = self._settled(namespace, mark)
        if rule.fired != 1:
            raise RuntimeError(f"{fault} at write {number} did not come: {len(writes)} writes")
        self.kube.delete("GPTService", SERVICE, namespace)
        begun = next(entry.time for entry in writes if entry.fault)
        return max(_answered(entry) for entry in writes if entry.code is not None and entry.code < 300) - begun

    def _is_made(self, namespace: str) -> bool:
        service = self.kube.get("GPTService", SERVICE, namespace)
        children = [one for kind in _KINDS for one in self.kube.all(kind, namespace) if _is_of(one, service)]
        status = service.get("status") or {}
        return len(children) == CHILDREN and status.get("phase") == "Stopped"

    def _settled(self, namespace: str, mark: int) -> Sequence[Entry]:
        """All writes in the namespace, once there are no more."""
        counts = Match(namespace=namespace)

        def writes() -> list[Entry]:
            return [one for one in self.board.log.writes(mark) if counts(one.target, one.user_agent)]

        def is_quiet(entries: Sequence[Entry]) -> bool:
            return time.time() - max(_answered(entry) for entry in entries) > _QUIET_SECONDS

        return wait_until(writes, is_quiet, "its writes to end", timeout=_MOST_SECONDS, every=_LOOK_SECONDS)


def _is_of(child: Object, service: Object) -> bool:
    owners = child["metadata"].get("ownerReferences") or []
    return any(owner["uid"] == service["metadata"]["uid"] for owner in owners)


def _answered(entry: Entry) -> float:
    return entry.time + (entry.seconds or 0.0)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; the status is 0 whatever the bars say."""
    parser = argparse.ArgumentParser(prog="make bench-recovery ARGS=...", description=__doc__)
    parser.add_argument("--writes", type=int, default=WRITES, choices=range(1, WRITES + 1), metavar="N")
    writes = parser.parse_args(arguments).writes
    subjects.build_reference()
    print(f"load {os.getloadavg()[0]:.1f}; medians and worst of {writes} trials each", flush=True)
    runs = Runs()
    for operator in (OURS, REFERENCE):
        with trials_of(operator) as trials:
            trials.measure(writes)
        found = dict(_figures(trials.found))
        print(f"  {operator}: {'; '.join(f'{name} {value:.3g} s' for name, value in found.items())}", flush=True)
        runs.add(operator, found)
    print("\n".join(table(list(_rows()), runs)))
    return 0


def _figures(found: Mapping[str, Sequence[float]]) -> Iterator[tuple[str, float]]:
    for name, seconds in found.items():
        yield name, statistics.median(seconds)
        yield f"{name}, worst", max(seconds)


def _rows() -> Iterator[Row]:
    bars = {
        **dict.fromkeys(FAULTS, _NO_KILL),
        **dict.fromkeys(KILLS, Bar(most=3)),
        "killed after, with election": Bar(most=LEASE_SECONDS + 2),
    }
    for name, bar in bars.items():
        yield Row(name, f"{name}: median, s", bar)
        yield Row(f"{name}, worst", f"{name}: worst, s", bar)


@contextmanager
def trials_of(operator: str) -> Iterator[Trials]:
    """An operator behind a proxy on a new cluster; all of it is gone afterwards."""
    with ExitStack() as stack:
        name = f"bench-recovery-{os.getpid()}"
        stack.callback(lifecycle.down, name)
        cluster = lifecycle.up(records.Spec(name))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gptservice-bench-")))
        kube = Kube(cluster.kubeconfig)
        way = Way(stack, folder)
        subject = SUBJECTS[operator](kube, cluster.kubeconfig, folder, way)
        stack.callback(subject.process.kill)
        board = way.proxies[0].switchboard
        subject.process.on_start = lambda pid: setattr(board, "victim_pid", pid)
        yield Trials(kube, subject, board)


@dataclass(frozen=True)
class Way:
    """Leads an operator through a proxy."""

    stack: ExitStack
    folder: Path
    proxies: list[ProxyThread] = field(default_factory=list[ProxyThread])

    def __call__(self, access: Access) -> Access:
        """Start a proxy, and return how it is reached."""
        authority = self.folder / "ca.pem"
        authority.write_text(access.authority or "")
        # TLS: over plain HTTP client-go shows no token.
        options = ProxyOptions(upstream=access.server, ca_file=authority, tls=True)
        self.proxies.append(self.stack.enter_context(ProxyThread(Proxy(options))))
        proxy = self.proxies[-1].proxy
        return access.through(proxy.url, proxy.ca_pem)


if __name__ == "__main__":
    sys.exit(main())
