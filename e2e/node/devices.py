"""The node's fake GPUs: how many of them there are at the moment."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from e2e.cluster import node
from e2e.cluster.handle import Cluster
from e2e.kube import Kube, wait_until

RESOURCE = "nvidia.com/gpu"
_FOLLOWS_SECONDS = 60
# Pods of services that are being deleted drain first.
_FREED_SECONDS = 180


def names(count: int) -> list[str]:
    """The first `count` devices, as pods see them in NVIDIA_VISIBLE_DEVICES."""
    return [f"GPU-fake-{number}" for number in range(count)]


@contextmanager
def failing(cluster: Cluster, kube: Kube) -> Iterator[Callable[[Sequence[str]], None]]:
    """Yields what has the device plugin report these devices, and no others, as failed, until the block ends.

    It returns when the node has followed.
    """
    control = cluster.folder / "devices.json"
    whole = _there(kube)

    def fail(devices: Sequence[str]) -> None:
        control.write_text(json.dumps({"unhealthy": list(devices)}))
        count = whole - len(devices)
        what = f"{count} GPUs to be allocatable"
        wait_until(lambda: allocatable(kube), lambda found: found == count, what, timeout=_FOLLOWS_SECONDS)

    try:
        yield fail
    finally:
        fail([])
        control.unlink()


@contextmanager
def few(cluster: Cluster, kube: Kube) -> Iterator[Callable[[int], None]]:
    """Yields what leaves the node so many GPUs, until the block ends. No pod holds any when it begins."""
    wait_until(lambda: _holders(kube), lambda held: not held, "other pods to give back GPUs", timeout=_FREED_SECONDS)
    all_of_them = names(_there(kube))
    with failing(cluster, kube) as fail:
        yield lambda count: fail(all_of_them[count:])


def allocatable(kube: Kube) -> int:
    """How many GPUs the node offers."""
    return int(kube.get("Node", node.NAME)["status"]["allocatable"][RESOURCE])


def _there(kube: Kube) -> int:
    """How many GPUs the node has, failed ones too."""
    return int(kube.get("Node", node.NAME)["status"]["capacity"][RESOURCE])


def _holders(kube: Kube) -> list[str]:
    live = [pod for pod in kube.all("Pod") if pod["status"].get("phase") not in ("Succeeded", "Failed")]
    return [
        f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        for pod in live
        if any(RESOURCE in one.get("resources", {}).get("limits", {}) for one in pod["spec"]["containers"])
    ]
