"""Runs a scenario under faults and keeps the figures for the page on reliability."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from e2e.api.exhaustive import faults
from e2e.api.exhaustive.run import Runner
from e2e.api.exhaustive.scenarios import Scenario
from e2e.cluster.handle import Cluster
from e2e.kube import Kube
from e2e.operator_process import OperatorProcess
from e2e.proxy import Switchboard

Try = Callable[..., None]


@pytest.fixture
def try_faults(
    the_operator: OperatorProcess,
    board: Switchboard,
    kube: Kube,
    cluster: Cluster,
    record_property: Callable[[str, object], None],
) -> Iterator[Try]:
    """Runs a scenario undisturbed and then with faults at every write and event, or at a few; fails with all failures."""
    with ExitStack() as stack:

        def run(name: str, scenario: Scenario, *, every: bool) -> None:
            runner = Runner(name, scenario, the_operator, board, kube, cluster, stack)
            reference = runner.reference()
            of_each = faults.every(reference.writes, reference.events)
            in_turn = faults.in_turn(reference.writes, reference.events, name)
            result = runner.run(in_turn if every else faults.sample(of_each, name), reference)
            told = (
                f"{name}: {reference.writes} writes and {reference.events} watch events undisturbed; {result.tried} "
                f"faults tried, {result.fired} of which came; {len(result.failures)} failures"
            )
            print(told)
            record_property("faults", told)
            assert not result.failures, f"{told} (E2E_SEED={faults.SEED})\n" + "\n".join(result.failures)
            runner.assert_quiet()

        yield run
    the_operator.stop()
    the_operator.settings = {}
