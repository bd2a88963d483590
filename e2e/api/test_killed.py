"""The operator is killed (-9) at a write, before or after it reaches the API server; the next one finishes the work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Literal

import pytest

from e2e.api.quiet import assert_quiet
from e2e.api.state import COLLECTED, Observer, service
from e2e.cluster.handle import Cluster
from e2e.kube import Kube, Object, wait_until
from e2e.operator_process import OperatorProcess
from e2e.proxy import Match, Switchboard, kill

# `make test` has a sample of these among others: e2e/api/exhaustive.
pytestmark = pytest.mark.long

BEFORE = service(replicas=1, engine={"args": ["--seed=1"]})


@dataclass(frozen=True)
class Scenario:
    """What exists, what happens, what must be there in the end, and how many writes that takes at least."""

    act: Callable[[Kube, str], object]
    final: Object
    writes: int
    exists: bool = True


def edit(manifest: Object) -> Callable[[Kube, str], object]:
    return lambda kube, namespace: kube.apply(manifest, namespace)


def delete(kind: str) -> Callable[[Kube, str], object]:
    return lambda kube, namespace: kube.delete(kind, "gpt", namespace)


CREATED = service(replicas=2, maxInflightRequests=9)
EDITED = service(replicas=1, engine={"args": ["--seed=2"]})
SCALED = service(replicas=3, engine={"args": ["--seed=1"]})
SCENARIOS = {
    # Secret, account, ConfigMap, ControllerRevision, Deployment, two Services, policy, status: the pods may be ready
    # before the first status is written.
    "create": Scenario(edit(CREATED), CREATED, writes=10, exists=False),
    "edit": Scenario(edit(EDITED), EDITED, writes=3),
    # Deployment, budget, status.
    "scale": Scenario(edit(SCALED), SCALED, writes=3),
    # Nothing says any more that the Secret was made: it is asked for again.
    "Deployment deleted": Scenario(delete("Deployment"), BEFORE, writes=2),
    "Service deleted": Scenario(delete("Service"), BEFORE, writes=1),
}
TRIALS = [
    pytest.param(name, number, when, id=f"{name}, {when} write {number}")
    for name, scenario in SCENARIOS.items()
    for number in range(1, scenario.writes + 1)
    for when in ("before", "after")
]


@pytest.fixture(scope="module")
def kept(kube: Kube) -> Iterator[Callable[[], str]]:
    """Makes namespaces that live until the module's last test."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(kube.namespace("killed"))


@pytest.fixture(scope="module")
def trials() -> list[Observer]:
    """The namespaces of the trials that have run."""
    return []


@pytest.fixture(scope="module")
def undisturbed(the_operator: OperatorProcess, kube: Kube, kept: Callable[[], str]) -> dict[str, dict[str, Object]]:
    """The children that each scenario ends with when nothing goes wrong."""
    the_operator.start()
    found: dict[str, dict[str, Object]] = {}
    for name, scenario in SCENARIOS.items():
        observer = Observer(kube, kept())
        kube.apply(scenario.final, observer.namespace)
        observer.wait_ready()
        found[name] = observer.children()
    return found


@pytest.mark.parametrize(("name", "number", "when"), TRIALS)
def test_the_next_operator_finishes(
    operator: OperatorProcess,
    board: Switchboard,
    kube: Kube,
    kept: Callable[[], str],
    trials: list[Observer],
    undisturbed: dict[str, dict[str, Object]],
    name: str,
    number: int,
    when: Literal["before", "after"],
) -> None:
    scenario, observer = SCENARIOS[name], Observer(kube, kept())
    trials.append(observer)
    if scenario.exists:
        kube.apply(BEFORE, observer.namespace)
        observer.wait_ready()
    rule = board.fail(kill(when), match=Match(namespace=observer.namespace), nth=number)
    scenario.act(kube, observer.namespace)
    assert operator.wait_ended() == -9
    assert rule.fired == 1
    operator.start()
    # The children first: a Service that is still missing makes no pod unready.
    wait_until(observer.children, lambda found: found == undisturbed[name], "the undisturbed run's children")
    observer.wait_ready()
    replicas = scenario.final["spec"]["replicas"]
    wait_until(lambda: len(observer.pods()), lambda count: count == replicas, f"{replicas} pods")


def test_killed_just_after_a_deletion(
    operator: OperatorProcess, kube: Kube, namespace: str, observer: Observer
) -> None:
    kube.apply(BEFORE, namespace)
    observer.wait_ready()
    kube.delete("GPTService", "gpt", namespace)
    operator.kill()
    operator.start()
    wait_until(observer.children, lambda found: not found, "the children to go", timeout=COLLECTED)


def test_quiet_after_all_of_it(
    operator: OperatorProcess, board: Switchboard, cluster: Cluster, trials: list[Observer], undisturbed: object
) -> None:
    """Three resyncs and a restart write nothing to what the trials (and the undisturbed runs) left."""
    assert_quiet(operator, board, cluster, {observer.namespace for observer in trials})
