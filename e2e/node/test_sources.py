"""Models of a hub in real pods: downloaded once for all, gone on with after a kill, and refused in plain words."""

from __future__ import annotations

import base64
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.api.state import Observer, condition, holds
from e2e.cluster import network, paths
from e2e.cluster.handle import Cluster
from e2e.hub.faults import Fault
from e2e.hub.running import in_thread
from e2e.hub.sample import make_repository, needed
from e2e.hub.server import Hub
from e2e.kube import Kube, Object, wait_until
from e2e.kubectl import Kubectl
from e2e.node import containers
from e2e.node.release import STANDIN, Release
from e2e.node.services import SOON, standin

WEIGHTS = 24_000_000
TOKEN = "hf_" + "x" * 30
SLOW = Fault("cdn", seconds_per_mebibyte=0.5)
"""Long enough that pods of one service meet, and that a process can be killed in the middle."""


@pytest.fixture(scope="module")
def hub(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """On this machine's end of the link, where the cluster's pods reach it."""
    folder = tmp_path_factory.mktemp("hub")
    gated = make_repository(folder / "gated", 1000)
    gated.gated, gated.readers = True, {TOKEN}
    repositories = {
        "org/open": make_repository(folder / "open", WEIGHTS),
        "org/gated": gated,
        "Qwen/Qwen3-0.6B": make_repository(folder / "qwen", WEIGHTS),
    }
    with in_thread(Hub(repositories, host=network.outer(cluster.record.number))) as serving:
        yield serving


@pytest.fixture(scope="module", autouse=True)
def installed(release: Release, hub: Hub) -> None:
    release.use({**STANDIN, "hubEndpoint": hub.endpoint, "cacheSize": "8Mi"})


@pytest.fixture
def shared_cache(kubectl: Kubectl, namespace: str, tmp_path: Path) -> Iterator[str]:
    """An empty volume that all pods of the node can write to, and the claim of it."""
    folder = tmp_path / "weights"
    folder.mkdir()
    folder.chmod(0o777)  # a hostPath is never given to the pods' group
    name = f"weights-{namespace}-{os.urandom(3).hex()}"
    common = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    claim_ref = {"namespace": namespace, "name": name}
    volume = {"capacity": {"storage": "1Gi"}, "hostPath": {"path": str(folder)}, "claimRef": claim_ref}
    request = {"volumeName": name, "resources": {"requests": {"storage": "1Gi"}}}
    kubectl.apply(
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": {**common, **volume}},
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {**common, **request},
        },
    )
    yield name
    kubectl.run("delete", "persistentvolume", name, "--wait=false")


@pytest.fixture
def any_volume(kubectl: Kubectl, tmp_path: Path) -> Iterator[None]:
    """What a StorageClass with ReadWriteMany would make for the next claim."""
    folder = tmp_path / "any"
    folder.mkdir()
    folder.chmod(0o777)
    name = f"any-{os.urandom(3).hex()}"
    spec = {"accessModes": ["ReadWriteMany"], "capacity": {"storage": "10Gi"}, "hostPath": {"path": str(folder)}}
    kubectl.apply({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec})
    yield
    kubectl.run("delete", "persistentvolume", name, "--wait=false")


def from_hub(name: str, repository: str, **spec: Any) -> Object:
    return standin(name, model=f"hf://{repository}", **spec)


def fetching(pod: Object) -> Object:
    """The kubelet's word on the init container; empty before there is one."""
    return next(iter(pod.get("status", {}).get("initContainerStatuses", [])), {})


def test_replicas_on_one_empty_cache_download_once(
    hub: Hub, kube: Kube, namespace: str, observer: Observer, shared_cache: str
) -> None:
    repository = hub.repositories["org/open"]
    hub.faults, hub.sent = [SLOW], 0
    cache = {"persistentVolumeClaim": {"claimName": shared_cache}}
    kube.apply(from_hub("three", "org/open", replicas=3, cache=cache), namespace)
    told = observer.wait_ready("three", timeout=SOON)
    print(f"three replicas, one empty cache: {hub.sent} bytes, {hub.sent / needed(repository):.3f} x the model")
    assert hub.sent <= 1.05 * needed(repository)
    assert told["status"]["effective"]["revision"] == repository.commit
    assert told["status"]["effective"]["digest"].startswith("sha256:")


@pytest.mark.usefixtures("any_volume")
def test_the_example_works_as_it_is(hub: Hub, kubectl: Kubectl, namespace: str, observer: Observer) -> None:
    hub.faults, hub.sent = [], 0
    kubectl.apply_file(paths.REPOSITORY / "examples" / "hugging-face.yaml", namespace=namespace)
    told = observer.wait_ready("qwen3", timeout=SOON)
    repository = hub.repositories["Qwen/Qwen3-0.6B"]
    assert hub.sent <= 1.05 * needed(repository)
    assert told["status"]["effective"]["revision"] == repository.commit


def test_a_killed_download_is_gone_on_with(
    hub: Hub, kube: Kube, namespace: str, observer: Observer, shared_cache: str
) -> None:
    repository = hub.repositories["org/open"]
    hub.faults, hub.sent = [SLOW], 0
    cache = {"persistentVolumeClaim": {"claimName": shared_cache}}
    kube.apply(from_hub("killed", "org/open", cache=cache), namespace)
    wait_until(lambda: hub.sent, lambda sent: sent > WEIGHTS // 4, "a part of the download", timeout=SOON)
    (pod,) = observer.pods("killed")
    os.kill(containers.first_process(fetching(pod)), signal.SIGKILL)
    hub.faults = []
    observer.wait_ready("killed", timeout=SOON)
    (pod,) = observer.pods("killed")
    assert fetching(pod)["restartCount"] == 1
    print(f"killed once: {hub.sent} bytes, {hub.sent / needed(repository):.3f} x the model")
    # What was on its way then is lost: what the sockets of two files held.
    assert hub.sent <= 1.05 * needed(repository) + 2 * 6_000_000


def test_a_token_opens_a_gated_model_and_is_nowhere_to_be_seen(
    hub: Hub, kube: Kube, kubectl: Kubectl, namespace: str, observer: Observer
) -> None:
    hub.faults = []
    kube.apply(from_hub("gated", "org/gated"), namespace)
    told = observer.wait(
        lambda o: holds(o, "Ready", "False", "ModelAccessDenied"), "to be refused", "gated", timeout=SOON
    )
    assert "huggingFaceTokenSecretRef" in condition(told, "Ready")["message"]
    data = {"token": base64.b64encode(f"{TOKEN}\n".encode()).decode()}
    kube.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hub-token"}, "data": data}, namespace)
    kube.merge("GPTService", "gated", namespace, {"spec": {"huggingFaceTokenSecretRef": {"name": "hub-token"}}})
    observer.wait_ready("gated", timeout=SOON)
    for pod in observer.pods("gated"):
        name = pod["metadata"]["name"]
        for container in ("fetch", "engine"):
            log = containers.said(kubectl, "logs", name, "-c", container, "--namespace", namespace)
            assert TOKEN not in log
        assert TOKEN not in str(pod)


def test_a_model_that_is_too_large_for_the_node_s_disk_says_so(
    hub: Hub, kube: Kube, namespace: str, observer: Observer
) -> None:
    hub.faults, hub.sent = [], 0
    kube.apply(from_hub("large", "org/open"), namespace)
    told = observer.wait(lambda o: holds(o, "Ready", "False", "DiskFull"), "to have no room", "large", timeout=SOON)
    assert "spec.cache.size" in condition(told, "Ready")["message"]
    assert hub.sent == 0
