"""In steady state nothing is written, by the operator or by kopf in it, whatever others have put on the objects."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from e2e.api.quiet import assert_quiet, assert_untouched, settle, wait_for_resyncs
from e2e.api.state import Observer, holds, is_stopped, service
from e2e.cluster.handle import Cluster
from e2e.kube import Kube, Object
from e2e.operator_process import OperatorProcess
from e2e.proxy import Switchboard
from gptservice_operator.api import kinds

# What kopf puts on objects by default, and strips from objects that none of its handlers asks for.
KOPF_FINALIZER = "kopf.zalando.org/KopfFinalizerMarker"
OURS = {"app.kubernetes.io/managed-by": "gptservice-operator", "gptservice-name": "gpt"}


@pytest.fixture
def zoo(
    operator: OperatorProcess, kube: Kube, namespace: str, observer: Observer, catalogue: Callable[[str], Object]
) -> None:
    """Services in every lasting state: ready, stopped, of the catalogue, refused, in conflict, with odd values."""
    catalogue(f"model-{namespace}")
    kube.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "taken-limits"}}, namespace)
    odd = {"requests": {"cpu": "1000m", "memory": "1024Mi"}, "limits": {"cpu": 2, "memory": "1Gi"}}
    spread = [{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}]
    env = [{"name": "B", "value": "2"}, {"name": "A", "value": "1"}]
    running = [
        service("gpt", replicas=2),
        service("stopped", replicas=0),
        service("listed", modelRef=f"model-{namespace}", gpu={"count": 2}),
        service(
            "odd", resources=odd, engine={"env": env, "args": []}, scheduling={"topologySpreadConstraints": spread}
        ),
        service("recreate", upgradeStrategy="Recreate", maxTokens=7, maxInflightRequests=3),
    ]
    for manifest in [*running, service("unknown", modelRef="no-such-model"), service("taken")]:
        kube.apply(manifest, namespace)
    for name in ("gpt", "listed", "odd", "recreate"):
        observer.wait_ready(name)
    observer.wait(is_stopped, "to be Stopped", "stopped")
    observer.wait(lambda o: holds(o, "Accepted", "False", "UnknownModel"), "to be refused", "unknown")
    observer.wait(lambda o: holds(o, "Accepted", "False", "NameConflict"), "to be refused", "taken")
    observer.wait_rolled("taken", lambda _: True, "to run")


@pytest.mark.usefixtures("zoo")
def test_three_resyncs_and_a_restart_write_nothing(
    operator: OperatorProcess, board: Switchboard, cluster: Cluster, namespace: str, observer: Observer
) -> None:
    settle(board, {namespace})
    assert_untouched(observer, lambda: assert_quiet(operator, board, cluster, {namespace}))


@pytest.fixture
def finalized(kube: Kube, namespace: str, zoo: None) -> Iterator[list[tuple[str, str, str]]]:
    """Objects that carry kopf's default finalizer: our own kinds, a child, and foreign ones; taken off again."""
    labels = {"Service": OURS, "ConfigMap": {}}
    foreign: list[Object] = [
        {"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 1}]}},
        {"apiVersion": "v1", "kind": "ConfigMap"},
    ]
    for manifest in foreign:
        kind = str(manifest["kind"])
        metadata = {"name": "foreign", "labels": labels[kind], "finalizers": [KOPF_FINALIZER]}
        kube.create({**manifest, "metadata": metadata}, namespace)
    marked = [
        ("GPTService", "gpt", namespace),
        ("GPTService", "stopped", namespace),
        ("GPTModel", f"model-{namespace}", ""),
        ("Deployment", "gpt", namespace),
    ]
    for kind, name, where in marked:
        kube.merge(kind, name, where, {"metadata": {"finalizers": [KOPF_FINALIZER]}})
    everything = [*marked, ("Service", "foreign", namespace), ("ConfigMap", "foreign", namespace)]
    yield everything
    for kind, name, where in everything:
        kube.merge(kind, name, where, {"metadata": {"finalizers": None}})


def test_objects_with_the_finalizer_of_other_kopf_operators(
    finalized: list[tuple[str, str, str]],
    operator: OperatorProcess,
    board: Switchboard,
    cluster: Cluster,
    kube: Kube,
    namespace: str,
) -> None:
    assert_quiet(operator, board, cluster, {namespace, ""})
    kept = {place: kube.get(*place)["metadata"].get("finalizers") for place in finalized}
    assert kept == {place: [KOPF_FINALIZER] for place in finalized}


def test_everything_is_written_by_us_and_as_ourselves(
    operator: OperatorProcess, board: Switchboard, cluster: Cluster, kube: Kube, namespace: str, observer: Observer
) -> None:
    """kopf reads, and only reads; every write of the process goes through our client, to our kinds."""
    audit_mark = cluster.audit.mark(quiet_seconds=0.2, limit_seconds=5)
    kube.apply(service(), namespace)
    observer.wait_ready()
    observer.delete_and_wait_for_another("Deployment")
    observer.wait_ready()
    again = ("patch", "events")  # where a reason came back
    writes = [entry for entry in board.log.writes() if entry.target.namespace == namespace]
    agents_of_all = {
        entry.user_agent.split("/")[0] for entry in board.log.writes() if entry.target.resource != "leases"
    }
    assert agents_of_all == {"gptservice-operator"}
    assert {(entry.target.verb, entry.target.resource) for entry in writes} - {again} == {
        ("apply", "configmaps"),
        ("apply", "controllerrevisions"),
        ("apply", "deployments"),
        ("apply", "networkpolicies"),
        ("apply", "serviceaccounts"),
        ("apply", "services"),
        ("create", "events"),
        ("create", "secrets"),
        ("status", "gptservices"),
    }
    agents = {write.agent for write in cluster.audit.writes(audit_mark) if write.namespace == namespace}
    assert "gptservice-operator" in agents
    assert "kopf" not in agents


def test_a_resync_costs_one_list_per_kind(operator: OperatorProcess, board: Switchboard) -> None:
    wait_for_resyncs(board, 1)
    mark = board.log.position
    wait_for_resyncs(board, 2)
    lists = {resource: n for (verb, resource), n in board.log.count(mark).items() if verb == "list" and resource}
    assert len(lists) == len(kinds.WATCHED)
    assert max(lists.values()) - min(lists.values()) <= 1


def test_children_are_written_once_when_made(
    operator: OperatorProcess, board: Switchboard, kube: Kube, namespace: str, observer: Observer
) -> None:
    mark = board.log.position
    kube.apply(service(replicas=2), namespace)
    observer.wait_ready()
    written = [e.target for e in board.log.writes(mark) if e.target.namespace == namespace and e.target.verb == "apply"]
    assert sorted(target.resource for target in written) == [
        "configmaps",
        "controllerrevisions",
        "deployments",
        "networkpolicies",
        "poddisruptionbudgets",
        "serviceaccounts",
        "services",
        "services",
    ]
