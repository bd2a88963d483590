"""An event that no watch ever delivers is found by the next resync."""

from __future__ import annotations

import pytest

from e2e.api.state import Observer, is_ready, service
from e2e.kube import Kube, wait_until
from e2e.operator_process import OperatorProcess
from e2e.proxy import EventAction, EventRule, Switchboard

DROP = EventAction.DROP


def test_a_lost_deletion_of_a_child(
    operator: OperatorProcess, board: Switchboard, kube: Kube, namespace: str, observer: Observer
) -> None:
    kube.apply(service(), namespace)
    observer.wait_ready()
    rule = board.add_event_rule(
        EventRule(action=DROP, resource="services", namespace=namespace, types=frozenset({"DELETED"}))
    )
    observer.delete_and_wait_for_another("Service")
    wait_until(lambda: rule.fired, lambda fired: fired == 1, "the event to have come, and to be lost")


@pytest.mark.parametrize("kind", ["gptservices", "deployments", "pods"])
def test_all_events_of_a_kind_lost(
    operator: OperatorProcess, board: Switchboard, kube: Kube, namespace: str, observer: Observer, kind: str
) -> None:
    board.add_event_rule(EventRule(action=DROP, resource=kind, namespace=namespace, times=None))
    kube.apply(service(replicas=2), namespace)
    observer.wait(is_ready, "to be Ready by resyncs")
