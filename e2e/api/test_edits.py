"""An edit of the spec reaches the pods, and only the pods that it concerns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from e2e.api.state import Observer, condition, engine_args, holds, service
from e2e.kube import Kube, Object, stays
from e2e.operator_process import OperatorProcess


def test_an_engine_argument_rolls_the_pods(
    operator: OperatorProcess, kube: Kube, namespace: str, observer: Observer
) -> None:
    kube.apply(service(replicas=2, engine={"args": ["--dtype=bfloat16"]}), namespace)
    observer.wait_ready()
    old = {pod["metadata"]["uid"] for pod in observer.pods()}
    kube.apply(service(replicas=2, engine={"args": ["--dtype=float32", "--seed=1"]}), namespace)
    wanted = ["--dtype=float32", "--seed=1"]
    observer.wait_rolled("gpt", lambda d: engine_args(d)[-2:] == wanted, "the new argument")
    observer.wait_ready()
    new = observer.pods()
    assert len(new) == 2
    assert old.isdisjoint(pod["metadata"]["uid"] for pod in new)
    assert all(wanted == pod_args(pod)[-2:] for pod in new)


def pod_args(pod: Object) -> list[str]:
    return engine_args({"spec": {"template": pod}})


def test_a_rollout_never_takes_a_serving_pod_away(
    operator: OperatorProcess, kube: Kube, namespace: str, observer: Observer
) -> None:
    """Surge 1, unavailable 0: as many are available as asked for, while new pods take their time."""
    slow = [{"name": "E2E_MODE", "value": "slow"}, {"name": "E2E_DELAY", "value": "1500ms"}]
    kube.apply(service(replicas=2, engine={"env": slow}), namespace)
    observer.wait_ready()
    kube.apply(service(replicas=2, engine={"env": slow, "args": ["--seed=1"]}), namespace)
    seen: list[int] = []

    def rolled(deployment: Object) -> bool:
        seen.append(deployment["status"].get("availableReplicas", 0))
        return "--seed=1" in engine_args(deployment)

    observer.wait_rolled("gpt", rolled, "the new argument")
    assert min(seen) == 2
    observer.wait_ready()


@pytest.mark.parametrize(
    ("edit", "found"),
    [
        pytest.param({"engine": {"args": []}}, lambda d: engine_args(d)[-1] == "--", id="arguments removed"),
        pytest.param({"maxTokens": 64}, lambda d: "64" in engine_args(d), id="maxTokens"),
        pytest.param(
            {"resources": {"requests": {"cpu": "20m", "memory": "32Mi"}}},
            lambda d: container(d)["resources"]["limits"] == {"memory": "32Mi"},
            id="resources",
        ),
        pytest.param(
            {"gpu": {"count": 2}},
            lambda d: container(d)["resources"]["limits"].get("nvidia.com/gpu") == "2",
            id="gpu",
        ),
        pytest.param(
            {"upgradeStrategy": "Recreate"},
            lambda d: d["spec"]["strategy"] == {"type": "Recreate"},
            id="strategy",
        ),
        pytest.param(
            {"scheduling": {"nodeSelector": {"kubernetes.io/os": "linux"}}},
            lambda d: d["spec"]["template"]["spec"].get("nodeSelector") == {"kubernetes.io/os": "linux"},
            id="scheduling",
        ),
    ],
)
def test_each_field_arrives_and_leaves_again(
    operator: OperatorProcess,
    kube: Kube,
    namespace: str,
    observer: Observer,
    edit: dict[str, Any],
    found: Callable[[Object], bool],
) -> None:
    original = service(engine={"args": ["--seed=1"]})
    kube.apply(original, namespace)
    observer.wait_ready()
    before = observer.children()
    kube.apply({**original, "spec": {**original["spec"], **edit}}, namespace)
    observer.wait_rolled("gpt", found, f"{edit}")
    observer.wait_ready()
    kube.apply(original, namespace)
    observer.wait_rolled("gpt", lambda d: not found(d), f"{edit} taken back")
    observer.wait_ready()
    assert observer.children() == before


def container(deployment: Object) -> Object:
    found: list[Object] = deployment["spec"]["template"]["spec"]["containers"]
    return next(c for c in found if c["name"] == "engine")


def test_the_limit_of_requests_changes_without_a_restart(
    operator: OperatorProcess, kube: Kube, namespace: str, observer: Observer
) -> None:
    kube.apply(service(maxInflightRequests=5), namespace)
    observer.wait_ready()
    pods = {pod["metadata"]["uid"] for pod in observer.pods()}
    kube.apply(service(maxInflightRequests=7), namespace)
    done = observer.wait(lambda o: holds(o, "Ready"), "to be Ready again")
    assert observer.child("ConfigMap", "gpt-limits")["data"] == {"limits.json": '{"maxInflightRequests": 7}'}
    assert {pod["metadata"]["uid"] for pod in observer.pods()} == pods
    assert done["status"]["observedGeneration"] == 2


def test_a_refused_edit_leaves_what_runs(
    operator: OperatorProcess, kube: Kube, namespace: str, observer: Observer
) -> None:
    kube.apply(service(), namespace)
    observer.wait_ready()
    before = observer.versions()
    kube.merge("GPTService", "gpt", namespace, {"spec": {"model": "no-such-model", "maxTokens": 9}})
    refused = observer.wait(lambda o: holds(o, "Accepted", "False", "UnknownModel"), "to be refused")
    assert refused["status"]["phase"] == "Degraded"
    assert condition(refused, "Available")["status"] == "True"
    children = {key: value for key, value in before.items() if not key.startswith("GPTService")}
    stays(observer.versions, lambda now: children.items() <= now.items(), "the children as they were", seconds=1)


def test_removed_items_go_and_foreign_ones_stay(
    operator: OperatorProcess, kube: Kube, namespace: str, observer: Observer
) -> None:
    two = [{"name": "ONE", "value": "1"}, {"name": "TWO", "value": "2"}]
    kube.apply(service(engine={"env": two}), namespace)
    observer.wait_ready()
    kube.apply(service(engine={"env": two[:1]}), namespace)
    observer.wait_rolled("gpt", lambda d: "TWO" not in env(d), "one variable fewer")
    assert env(observer.child("Deployment"))["ONE"] == "1"


def env(deployment: Object) -> dict[str, str]:
    return {variable["name"]: variable["value"] for variable in container(deployment).get("env", [])}
