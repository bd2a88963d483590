"""GPU requests go through the kubelet's device manager: each pod gets devices of its own, a pod without GPUs none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.api.state import Observer
from e2e.cluster.handle import Cluster
from e2e.kube import Kube, Object
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


def test_a_device_that_fails_is_not_offered_any_more(
    on_gpus: list[Object], cluster: Cluster, kube: Kube, kubectl: Kubectl, observer: Observer
) -> None:
    victim = visible_devices(kubectl, on_gpus[0]).split(",")[0]
    with devices.failing(cluster, kube) as fail:
        fail([victim])
        assert devices.allocatable(kube) == GPUS - 1
        # Kubernetes leaves a running pod alone.
        assert list(map(containers.identity, observer.pods("on-gpus"))) == list(map(containers.identity, on_gpus))
    assert devices.allocatable(kube) == GPUS
