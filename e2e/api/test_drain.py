"""A node is cordoned and drained: one replica goes at a time, and the next only when another has come elsewhere."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

from e2e import chance
from e2e.api.state import Observer, service
from e2e.cluster.handle import Cluster
from e2e.kube import Kube, Object
from e2e.kubectl import Kubectl
from e2e.operator_process import OperatorProcess

SLOW = [{"name": "E2E_MODE", "value": "slow"}, {"name": "E2E_DELAY", "value": "3s"}]
DRAIN_SECONDS = 120


@pytest.fixture
def nodes(kube: Kube, kubectl: Kubectl) -> Iterator[list[str]]:
    """The names of all nodes; those that a test has cordoned are free again afterwards."""
    names = sorted(node["metadata"]["name"] for node in kube.all("Node"))
    yield names
    kubectl.run("uncordon", *names)


@pytest.fixture(params=["undisturbed", "operator killed"])
def disturbance(
    request: pytest.FixtureRequest, operator: OperatorProcess, tell: Callable[[str], None]
) -> AbstractContextManager[None]:
    """What happens to the operator in the meantime: nothing; or kill -9, at a moment left to chance."""
    if request.param == "undisturbed":
        return nullcontext()

    def kill() -> None:
        operator.kill()
        operator.start()

    what = request.node.name
    after = chance.moment(what, within=6)
    tell(f"{what}: kill -9 of the operator after {after:.2f} s; again with {chance.SEED_VARIABLE}={chance.SEED}")
    return chance.meanwhile(kill, after=after)


def test_a_drain_never_takes_both_replicas(
    nodes: list[str],
    disturbance: AbstractContextManager[None],
    cluster: Cluster,
    kube: Kube,
    kubectl: Kubectl,
    namespace: str,
    observer: Observer,
) -> None:
    drained, *others = nodes
    kubectl.run("cordon", *others)
    kube.apply(service(replicas=2, engine={"env": SLOW}), namespace)
    observer.wait_ready()
    assert places(observer.pods()) == {drained}
    kubectl.run("uncordon", *others)
    since = cluster.audit.mark()
    with disturbance, kubectl.background(*drain(drained)) as command:
        while command.poll() is None:
            assert any(map(is_ready, observer.pods()))
        said = said_by(command)
    assert command.returncode == 0, said
    observer.wait_ready()
    assert drained not in places(observer.pods())
    evictions = [one for one in cluster.audit.writes(since, include_refused=True) if is_eviction(one, namespace)]
    assert sorted(one.code for one in evictions if one.code < 300) == [201, 201]
    assert 429 in [one.code for one in evictions], "the budget had to hold the second one back"


def drain(node: str) -> tuple[str, ...]:
    """Of our pods alone: other tests' may be there."""
    ours = ("--pod-selector=gptservice-name=gpt", "--delete-emptydir-data", "--ignore-daemonsets")
    return ("drain", node, *ours, f"--timeout={DRAIN_SECONDS}s")


def said_by(command: subprocess.Popen[str]) -> str:
    return "".join(stream.read() for stream in (command.stdout, command.stderr) if stream)


def is_eviction(write: Any, namespace: str) -> bool:
    return bool(write.resource == "pods/eviction" and write.namespace == namespace)


def places(pods: list[Object]) -> set[str]:
    return {str(pod["spec"].get("nodeName")) for pod in pods}


def is_ready(pod: Object) -> bool:
    found = {one["type"]: one["status"] for one in pod["status"].get("conditions", [])}
    return found.get("Ready") == "True"
