"""GPU requests go through the kubelet's device manager: each pod gets devices of its own, a pod without GPUs none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.api.state import Observer
from e2e.cluster.handle import Cluster
from e2e.kube import Kube, Object, wait_until
from e2e.kubectl import Kubectl
from e2e.node import containers, devices
from e2e.node.conftest import GPUS
from e2e.node.release import VLLM, Release
from e2e.node.services import SOON, standin

DEVICES = set(devices.names(GPUS))


def visible_devices(kubectl: Kubectl, pod: Object) -> str:
    place = ("--namespace", pod["metadata"]["namespace"], "-c", "engine")
    return kubectl.run("exec", pod["metadata"]["name"], *place, "--", "printenv", "NVIDIA_VISIBLE_DEVICES").strip()


@pytest.fixture(scope="module")
def on_gpus(release: Release, kube: Kube, namespace: str, observer: Observer) -> Iterator[list[Object]]:
    """Two replicas that take all the node's GPUs."""
    release.use(VLLM)
    kube.apply(standin("on-gpus", replicas=2, gpu={"count": GPUS // 2}), namespace)
    kube.apply(standin("on-cpu"), namespace)
    observer.wait_ready("on-gpus", timeout=SOON)
    yield observer.pods("on-gpus")
    kube.delete("GPTService", "on-gpus", namespace)


def test_every_pod_has_its_own_devices(on_gpus: list[Object], kubectl: Kubectl) -> None:
    seen = [visible_devices(kubectl, pod).split(",") for pod in on_gpus]
    assert [len(devices) for devices in seen] == [GPUS // 2] * 2
    assert {device for devices in seen for device in devices} == DEVICES


def test_a_pod_without_gpus_sees_none(on_gpus: list[Object], kubectl: Kubectl, observer: Observer) -> None:
    observer.wait_ready("on-cpu", timeout=SOON)
    (pod,) = observer.pods("on-cpu")
    assert visible_devices(kubectl, pod) == "void"


def test_a_pod_on_a_device_that_fails_gets_another_one(
    on_gpus: list[Object], namespace: str, cluster: Cluster, kube: Kube, kubectl: Kubectl, observer: Observer
) -> None:
    kube.delete("GPTService", "on-gpus", namespace)
    kube.apply(standin("heals", replicas=2, gpu={"count": 1}), namespace)
    observer.wait_ready("heals", timeout=SOON)
    victim, other = observer.pods("heals")
    device = visible_devices(kubectl, victim)

    def identities() -> list[tuple[object, ...]]:
        return [containers.identity(pod) for pod in observer.pods("heals")]

    with devices.failing(cluster, kube) as fail:
        fail([device])
        assert devices.allocatable(kube) == GPUS - 1
        wait_until(identities, lambda now: containers.identity(victim) not in now, "its pod to go", timeout=SOON)
        observer.wait_ready("heals", timeout=SOON)
        pods = observer.pods("heals")
        assert containers.identity(other) in identities()
        assert [visible_devices(kubectl, pod) for pod in pods].count(device) == 0
        failure = (observer.gpt("heals") or {})["status"]["lastFailure"]
        assert failure["reason"] == "GPUUnhealthy"
        assert device in failure["message"]
    assert devices.allocatable(kube) == GPUS
