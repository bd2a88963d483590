"""`make bench-operator`: the operator beside a plain one on controller-runtime that makes the same children.

Both run in turns, each time on a new cluster with nothing in it, with their production settings, as ServiceAccounts,
with election on. Each service has five children. Figures are medians of the runs; times and counts are from the API
server's audit log, CPU time and memory from /proc. Leases, Events and what the API server writes by itself are counted
apart. A run that would begin at a load above 3 waits for it to fall, and is given up if it does not.

    make bench-operator ARGS="--quick"                                 see whether it works, at any load: 3 minutes
    make bench-operator                                                1,000 services: 15 minutes on two quiet cores
    make bench-operator ARGS="--services 1000 3000 5000 --runs 5"      and what more services cost
"""

import argparse
import dataclasses
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from e2e.bench import measured_run, subjects
from e2e.bench.figures import OURS, REFERENCE, Bar, Row, Runs, table
from e2e.bench.measured_run import Plan
from e2e.bench.population import CHILDREN

MOST_LOAD = 3.0
LOAD_SECONDS = 240.0
"""How long a run waits for the load to fall."""
SECRETS = 300
MOST_FURTHER_KIB = 60
"""Memory for each service beyond the first thousand."""
QUICK_SERVICES = 100

STOPPED = (
    Row("load", "load average when it began"),
    Row("create_s", "from nothing to all reported, s", Bar(ratio=1.0)),
    Row("create_cpu_ms", "CPU per service made, ms", Bar(most=8, ratio=2)),
    Row("create_child_writes", "writes of children per service made", Bar(most=CHILDREN)),
    Row("create_status_writes", "writes of status per service made"),
    Row("create_event_writes", "writes of Events per service made"),
    Row("create_reads", "reads of single objects per service made"),
    Row("create_server_writes", "the API server's own writes per service made"),
    Row("edit_s", "one field of all services that touches no pod, s"),
    Row("edit_cpu_ms", "CPU per such edit, ms"),
    Row("edit_child_writes", "writes of children per such edit", Bar(most=2)),
    Row("edit_status_writes", "writes of status per such edit"),
    Row("roll_child_writes", "writes of children per edit that rolls pods"),
    Row("roll_status_writes", "writes of status per edit that rolls pods"),
    Row("idle_requests", "requests a minute while idle, Lease apart", Bar(most=20)),
    Row("idle_leases", "requests a minute for the Lease"),
    Row("idle_cpu_percent", "CPU while idle, % of a core"),
    Row("edit_to_write_p50_ms", "from an edit to the child's write, p50, ms"),
    Row("edit_to_write_p99_ms", "the same, p99, ms", Bar(ratio=1.5)),
    Row("edit_beside_failing_p50_ms", "beside a service that fails all the time, p50, ms"),
    Row("edit_beside_failing_p99_ms", "the same, p99, ms", Bar(of="edit_to_write_p99_ms", times=1.2)),
    Row("restart_ready_s", "restart: until it knows everything, s", Bar(most=5)),
    Row("restart_requests", "restart: requests"),
    Row("restart_requests_of_a_kind", "restart: requests of the kind with most", Bar(most=20)),
    Row("restart_writes", "restart: writes", Bar(most=0)),
    Row("restart_cpu_s", "restart: CPU, s"),
    Row("idle_rss_mib", "memory before the first service, MiB"),
    Row("peak_rss_mib", "memory at its peak, MiB", Bar(most=200)),
    Row("restart_peak_rss_mib", "memory at its peak after the restart, MiB", Bar(most=200)),
    Row("slope_kib", "growth over 1,000 further edits, KiB", Bar(most=1024)),
    Row("secrets_mib", f"growth with {SECRETS} foreign Secrets of 1 MB, MiB"),
    Row("secrets_restart_peak_rss_mib", "memory at its peak when started beside those, MiB"),
)
RUNNING = (
    Row("load", "load average when it began"),
    Row("create_s", "from nothing to all Ready, s", Bar(ratio=1.0)),
    Row("create_cpu_ms", "CPU per service made, ms", Bar(ratio=2)),
    Row("create_child_writes", "writes of children per service made", Bar(most=CHILDREN)),
    Row("create_status_writes", "writes of status per service made"),
    Row("create_event_writes", "writes of Events per service made"),
    Row("roll_s", "one edit of each of some services until its pod is another, s"),
    Row("roll_child_writes", "writes of children per such edit"),
    Row("roll_status_writes", "writes of status per such edit"),
    Row("peak_rss_mib", "memory at its peak, MiB"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; the status is 0 whatever the bars say."""
    options = parse(arguments)
    subjects.build_reference()
    services = options.services[0]
    print(f"{machine()}; {services} services of {CHILDREN} children each", flush=True)
    stopped = Plan(OURS, services, idle_seconds=options.seconds, edit_seconds=options.seconds)
    do = Doer(options.most_load, options.log)
    runs = alternate(stopped, options.runs, do, secrets=options.secrets)
    report(f"{services} services, Deployments at 0 replicas", STOPPED, runs)
    if options.pod_runs:
        running = Plan(OURS, services, replicas=1, create_only=True)
        report(
            f"{services} services, Deployments at 1 replica",
            RUNNING,
            alternate(running, options.pod_runs, do),
        )
    for more in options.services[1:]:
        found = Runs()
        found.add(OURS, do(Plan(OURS, more, create_only=True)))
        report_growth(services, runs, more, found)
    return 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="make bench-operator ARGS=...", description=__doc__)
    add = parser.add_argument
    add(
        "--services",
        type=int,
        nargs="+",
        default=[1000],
        help="how many; further numbers: what the operator needs then",
    )
    add("--runs", type=int, default=3, help="of each operator, with Deployments at 0 replicas")
    add("--pod-runs", type=int, default=1, help="of each operator, with Deployments at 1 replica")
    add("--seconds", type=float, default=20, help="how long to look while idle, and to edit at a steady rate")
    add("--secrets", type=int, default=SECRETS, help="foreign Secrets of 1 MB in the last run of each operator")
    add("--most-load", type=float, default=MOST_LOAD, help="load average above which no run is begun")
    add("--log", type=Path, metavar="FILE", help="append every run's figures as a line of JSON")
    add("--quick", action="store_true", help=f"{QUICK_SERVICES} services, one run, at any load: does it work?")
    options = parser.parse_args(arguments)
    if options.quick:
        options.services, options.runs, options.seconds, options.secrets = [QUICK_SERVICES], 1, 5.0, 20
        options.most_load = math.inf
    return options


def alternate(plan: Plan, runs: int, do: Callable[[Plan], dict[str, float]], *, secrets: int = 0) -> Runs:
    """Both operators in turns; who begins changes each time. Secrets come in the last runs only."""
    found = Runs()
    for number in range(runs):
        last = number == runs - 1
        for operator in (OURS, REFERENCE) if number % 2 == 0 else (REFERENCE, OURS):
            turn = dataclasses.replace(plan, operator=operator, secrets=secrets if last else 0)
            found.add(operator, do(turn))
    return found


@dataclass(frozen=True)
class Doer:
    """Does one run after the other."""

    most_load: float
    """A run is begun when the machine is at least so quiet."""
    log: Path | None

    def __call__(self, plan: Plan) -> dict[str, float]:
        """Do a run, say what came out, and return it."""
        load, begun = await_load(self.most_load), time.monotonic()
        with tempfile.TemporaryDirectory(prefix="gptservice-bench-") as folder:
            figures = {**measured_run.measure(plan, Path(folder)), "load": load, "load_at_end": os.getloadavg()[0]}
        seconds = time.monotonic() - begun
        told = f"made in {figures['create_s']:.1f} s, {figures['create_cpu_ms']:.1f} ms CPU each"
        where = f"{plan.services} services at {plan.replicas} replicas"
        loads = f"load {load:.1f} before, {figures['load_at_end']:.1f} after"
        print(f"  {plan.operator:10}{where}: {told}; {loads}; {seconds:.0f} s", flush=True)
        if self.log is not None:
            with self.log.open("a") as file:
                file.write(json.dumps({**dataclasses.asdict(plan), **figures}) + "\n")
        return figures


def await_load(most: float) -> float:
    """Wait until the load average is low enough, and return it.

    Raises:
        TimeoutError: it stays too high: whatever was measured now would say something about this machine only.
    """
    deadline = time.monotonic() + LOAD_SECONDS
    while (load := os.getloadavg()[0]) > most:
        if time.monotonic() > deadline:
            raise TimeoutError(f"the load average is {load:.1f}, and was above {most:g} for {LOAD_SECONDS:.0f} s")
        time.sleep(2)
    return load


def report(title: str, rows: Sequence[Row], runs: Runs) -> None:
    """Print one table."""
    print(f"\n### {title}\n\n" + "\n".join(table(rows, runs)) + "\n", flush=True)


def report_growth(services: int, runs: Runs, more: int, found: Runs) -> None:
    """Print what more services cost beside fewer."""
    print("\n".join(growth(services, runs, more, found)) + "\n", flush=True)


def growth(services: int, runs: Runs, more: int, found: Runs) -> Iterator[str]:
    """Time and memory of more services in units of fewer, with their bars."""
    before, after = (each.median("create_s", OURS) or 0.0 for each in (runs, found))
    most = 1.1 * more / services
    if before:
        verdict = "met" if after / before <= most else "MISSED"
        yield f"{more} services: {after:.1f} s, {after / before:.2f} x of {services}; <= {most:.1f} x: {verdict}"
    few, many = (each.median("peak_rss_mib", OURS) or 0.0 for each in (runs, found))
    each = (many - few) * 1024 / (more - services)
    verdict = "met" if each <= MOST_FURTHER_KIB else "MISSED"
    yield f"{more} services: {many:.0f} MiB, {each:.0f} KiB for each further; <= {MOST_FURTHER_KIB} KiB: {verdict}"


def machine() -> str:
    """What it is measured on."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        "unknown CPU",
    )
    return f"{os.cpu_count()} x {model}, load {os.getloadavg()[0]:.1f}"


if __name__ == "__main__":
    sys.exit(main())
