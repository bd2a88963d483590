"""The number of replicas has one writer: Kubernetes' own autoscaler, for as long as the spec asks for one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from e2e.api import metrics_server
from e2e.api.metrics_server import MetricsServer
from e2e.api.state import Observer, condition, holds, is_stopped, runs, service
from e2e.cluster.handle import Cluster
from e2e.kube import Kube, Object, stays, wait_until
from e2e.kubectl import Kubectl
from e2e.operator_process import OperatorProcess
from e2e.proxy import Match, Switchboard, kill

HPA = "HorizontalPodAutoscaler"
METRIC = "vllm:num_requests_waiting"
BY_QUEUE: Object = {
    "minReplicas": 1,
    "maxReplicas": 4,
    "metrics": [{"type": "Pods", "name": METRIC, "averageValue": "2"}],
    "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},
}
SETTLED_SECONDS = 3


@pytest.fixture(scope="module")
def metrics(kube: Kube) -> Iterator[MetricsServer]:
    with metrics_server.served(kube) as served:
        yield served


def replicas(observer: Observer) -> int:
    return int(observer.child("Deployment")["spec"]["replicas"])


def owners(observer: Observer) -> set[str]:
    """The field managers that own the Deployment's ``spec.replicas``."""
    managed = observer.child("Deployment")["metadata"]["managedFields"]
    return {each["manager"] for each in managed if "f:replicas" in each["fieldsV1"].get("f:spec", {})}


def scale_deployment(kube: Kube, namespace: str, count: int) -> None:
    """What the autoscaler does, by the same subresource."""
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/gpt/scale"
    scale = kube.request("GET", path)
    kube.request("PUT", path, body={**scale, "spec": {"replicas": count}})


def wait_replicas(observer: Observer, count: int, *, timeout: float = 60) -> None:
    """Wait until the Deployment has exactly so many pods, all ready."""

    def done(deployment: Object | None) -> bool:
        return deployment is not None and runs(deployment, count)

    found = lambda: observer.kube.find("Deployment", "gpt", observer.namespace)  # noqa: E731
    wait_until(found, done, f"{count} replicas", timeout=timeout)


def autoscaler(observer: Observer) -> Object | None:
    return observer.kube.find(HPA, "gpt", observer.namespace)


def test_scaled_up_and_down_by_a_metric_of_its_pods(
    operator: OperatorProcess, kube: Kube, namespace: str, observer: Observer, metrics: MetricsServer
) -> None:
    metrics.values[namespace] = "2"
    kube.apply(service(autoscaling=BY_QUEUE), namespace)
    observer.wait_ready()
    metrics.values[namespace] = "8"
    wait_replicas(observer, 4)
    ready = observer.wait(lambda o: o is not None and o["status"]["replicas"] == 4, "4 replicas in the status")
    assert condition(ready, "Ready")["status"] == "True"
    assert condition(ready, "Degraded")["status"] == "False"
    metrics.values[namespace] = "500m"
    wait_replicas(observer, 1)
    assert METRIC in metrics.asked


def test_it_stays_ready_while_it_is_scaled(
    operator: OperatorProcess, kube: Kube, namespace: str, observer: Observer, metrics: MetricsServer
) -> None:
    metrics.values[namespace] = "2"
    kube.apply(service(autoscaling=BY_QUEUE), namespace)
    ready = observer.wait_ready()
    since = condition(ready, "Ready")["lastTransitionTime"]
    metrics.values[namespace] = "8"
    wait_replicas(observer, 4)
    metrics.values[namespace] = "500m"
    wait_replicas(observer, 1)
    after = observer.wait(lambda o: o is not None and o["status"]["replicas"] == 1, "1 replica in the status")
    assert (condition(after, "Ready")["status"], condition(after, "Ready")["lastTransitionTime"]) == ("True", since)


def test_an_autoscaler_without_its_metric_is_told_in_its_own_words(
    operator: OperatorProcess, kube: Kube, namespace: str, observer: Observer, metrics: MetricsServer
) -> None:
    kube.apply(service(autoscaling=BY_QUEUE), namespace)
    told = observer.wait(
        lambda o: holds(o, "Degraded", "True", "AutoscalingInactive") and holds(o, "Ready"),
        "to be Ready, with the autoscaler's reason",
    )
    assert "FailedGetPodsMetric" in condition(told, "Degraded")["message"]
    metrics.values[namespace] = "2"
    observer.wait(lambda o: holds(o, "Degraded", "False"), "no complaint any more")


def test_nothing_but_the_autoscaler_writes_the_count(
    operator: OperatorProcess, board: Switchboard, cluster: Cluster, kube: Kube, namespace: str, observer: Observer
) -> None:
    """At 3 of 1 to 4: ten edits of labels, an edit of the spec, and a restart of the operator."""
    kube.apply(service(autoscaling={"minReplicas": 1, "maxReplicas": 4}), namespace)
    observer.wait_ready()
    scale_deployment(kube, namespace, 3)
    wait_replicas(observer, 3)
    mark = cluster.audit.mark(quiet_seconds=0.2, limit_seconds=5)
    for number in range(10):
        kube.merge("GPTService", "gpt", namespace, {"metadata": {"labels": {"team": f"t{number}"}}})
    kube.merge("GPTService", "gpt", namespace, {"spec": {"maxTokens": 99}})
    observer.wait_rolled("gpt", lambda deployment: "99" in str(deployment["spec"]["template"]), "the new template")
    operator.restart()
    stays(lambda: replicas(observer), lambda count: count == 3, "3 replicas", seconds=SETTLED_SECONDS)
    assert "gptservice-operator" not in owners(observer)
    ours = [
        write
        for write in cluster.audit.writes(mark)
        if (write.agent, write.namespace) == ("gptservice-operator", namespace) and "deployments" in write.resource
    ]
    assert len(ours) == 1, "the edit of the spec, and nothing else, writes the Deployment"


def test_off_takes_the_count_of_the_spec_and_on_keeps_the_live_one(
    operator: OperatorProcess, kube: Kube, namespace: str, observer: Observer
) -> None:
    scaled = service(replicas=2, autoscaling={"minReplicas": 1, "maxReplicas": 4})
    kube.apply(service(replicas=3), namespace)
    observer.wait_ready()
    kube.apply(scaled, namespace)
    wait_until(lambda: autoscaler(observer), lambda hpa: hpa is not None, "the autoscaler")
    assert owners(observer) == {"gptservice-operator-replicas"}
    stays(lambda: replicas(observer), lambda count: count == 3, "3 replicas", seconds=1)
    scale_deployment(kube, namespace, 4)
    wait_replicas(observer, 4)
    kube.apply(service(replicas=2), namespace)
    wait_until(lambda: autoscaler(observer), lambda hpa: hpa is None, "no autoscaler")
    wait_replicas(observer, 2)
    assert owners(observer) == {"gptservice-operator"}
    observer.wait_ready()


def test_a_stop_frees_everything_and_a_resume_brings_the_autoscaler_back(
    operator: OperatorProcess, kubectl: Kubectl, kube: Kube, namespace: str, observer: Observer
) -> None:
    kube.apply(service(replicas=2, autoscaling={"minReplicas": 2, "maxReplicas": 4}), namespace)
    wait_replicas(observer, 2)
    kubectl.run("scale", "gptservice/gpt", "--replicas=0", "--namespace", namespace)
    observer.wait(is_stopped, "to be Stopped")
    assert autoscaler(observer) is None
    assert replicas(observer) == 0
    kubectl.run("scale", "gptservice/gpt", "--current-replicas=0", "--replicas=3", "--namespace", namespace)
    wait_replicas(observer, 3)
    wait_until(lambda: autoscaler(observer), bool, "the autoscaler, which comes after the Deployment")


def test_a_deployment_scaled_to_nothing_by_hand_starts_again(
    operator: OperatorProcess, kube: Kube, namespace: str, observer: Observer
) -> None:
    kube.apply(service(autoscaling={"minReplicas": 1, "maxReplicas": 4}), namespace)
    observer.wait_ready()
    scale_deployment(kube, namespace, 0)
    wait_replicas(observer, 1)


def test_the_autoscaler_is_made_again_and_its_bounds_are_kept(
    operator: OperatorProcess, kube: Kube, namespace: str, observer: Observer
) -> None:
    kube.apply(service(autoscaling={"minReplicas": 1, "maxReplicas": 4}), namespace)
    observer.wait_ready()
    scale_deployment(kube, namespace, 3)
    observer.delete_and_wait_for_another(HPA)
    kube.merge(HPA, "gpt", namespace, {"spec": {"maxReplicas": 9}, "metadata": {"annotations": {"theirs": "yes"}}})
    restored = wait_until(
        lambda: observer.child(HPA), lambda hpa: hpa["spec"]["maxReplicas"] == 4, "the bound of the spec"
    )
    assert restored["metadata"]["annotations"]["theirs"] == "yes"
    assert replicas(observer) == 3


def test_an_autoscaler_of_somebody_else_is_a_conflict_and_no_hand_over(
    operator: OperatorProcess, kube: Kube, namespace: str, observer: Observer
) -> None:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "other"}
    theirs = {"apiVersion": "autoscaling/v2", "kind": HPA, "metadata": {"name": "gpt"},
              "spec": {"scaleTargetRef": target, "maxReplicas": 2}}  # fmt: skip
    kube.create(theirs, namespace)
    kube.apply(service(replicas=2), namespace)
    observer.wait_ready()
    kube.apply(service(replicas=2, autoscaling={"maxReplicas": 4}), namespace)
    observer.wait(lambda o: holds(o, "Accepted", "False", "NameConflict"), "to be refused")
    assert observer.child(HPA)["spec"]["maxReplicas"] == 2
    kube.apply(service(replicas=2), namespace)
    observer.wait_ready()
    assert autoscaler(observer) is not None


ON, OFF = service(replicas=3, autoscaling={"minReplicas": 2, "maxReplicas": 4}), service(replicas=3)
KILLS: list[Any] = [
    *[pytest.param(OFF, ON, number, when, id=f"on, {when} write {number}")
      for number in (1, 2, 3) for when in ("before", "after")],
    *[pytest.param(ON, OFF, number, when, id=f"off, {when} write {number}")
      for number in (1, 2) for when in ("before", "after")],
]  # fmt: skip


@pytest.mark.parametrize(("before", "after", "number", "when"), KILLS)
def test_killed_in_a_hand_over(
    operator: OperatorProcess,
    board: Switchboard,
    kube: Kube,
    namespace: str,
    observer: Observer,
    before: Object,
    after: Object,
    number: int,
    when: Any,
) -> None:
    kube.apply(before, namespace)
    wait_replicas(observer, 3)
    settled = autoscaler if before is ON else replicas
    wait_until(lambda: settled(observer), bool, "the first state")
    observer.wait_ready()
    uids = {pod["metadata"]["uid"] for pod in observer.pods()}
    # What is no longer in the spec has to leave it: an apply by another manager would only add.
    rule = board.fail(kill(when), match=Match(namespace=namespace), nth=number)
    if after is OFF:
        kube.merge("GPTService", "gpt", namespace, {"spec": {"autoscaling": None}})
    else:
        kube.apply(after, namespace)
    assert operator.wait_ended() == -9
    assert rule.fired == 1
    operator.start()
    wait_until(lambda: autoscaler(observer) is not None, lambda there: there is (after is ON), "the hand-over's end")
    wait_until(
        lambda: owners(observer),
        lambda found: found == ({"gptservice-operator-replicas"} if after is ON else {"gptservice-operator"}),
        "the writer of the count",
    )
    wait_replicas(observer, 3)
    assert {pod["metadata"]["uid"] for pod in observer.pods()} == uids, "no pod was replaced on the way"
