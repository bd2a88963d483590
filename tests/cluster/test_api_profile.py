"""Real clusters of profile api: made, used, killed, interrupted and ended."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster import handle, lifecycle, paths, processes, records, rest, stages

pytestmark = pytest.mark.api

SPEC = records.Spec(f"api-test-{os.getpid()}", nodes=3, gpus=4)
OTHER = records.Spec(f"api-test-{os.getpid()}-b")
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def cluster() -> Iterator[handle.Cluster]:
    try:
        yield lifecycle.up(SPEC)
    finally:
        lifecycle.down(SPEC.name)


@pytest.fixture
def other() -> Iterator[records.Spec]:
    yield OTHER
    lifecycle.down(OTHER.name)


def eventually(what: str, probe: Callable[[], Any], *, seconds: float = 40) -> Any:
    deadline = time.monotonic() + seconds
    while not (result := probe()):
        assert time.monotonic() < deadline, what
        time.sleep(0.1)
    return result


def pod(name: str, mode: str = "", **spec: Any) -> rest.Object:
    container = {"name": "main", "image": "none", "env": [{"name": "OTHER", "value": "x"}]}
    annotations = {f"{stages.ANNOTATIONS}/mode": mode, f"{stages.ANNOTATIONS}/delay": "1s"} if mode else {}
    init = {"name": "fetch", "image": "none"}
    return {
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"initContainers": [init], "containers": [container], **spec},
    }


def summary(api: rest.ApiClient, name: str) -> tuple[str, bool, str, int]:
    """Phase, readiness, what a container waits for, restarts."""
    status = api.get(f"{PODS}/{name}")["status"]
    containers = [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]
    waiting = next((c["state"]["waiting"]["reason"] for c in containers if "waiting" in c["state"]), "")
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions", []))
    return status["phase"], ready, waiting, sum(c["restartCount"] for c in containers)


def test_pods_behave_as_their_annotation_says(cluster: handle.Cluster) -> None:
    api = cluster.api
    for mode in ("", "slow", "crash", "init-crash", "image-pull", "pending"):
        api.create(PODS, pod(f"pod-{mode or 'plain'}", mode))
    eventually("plain pod ready", lambda: summary(api, "pod-plain") == ("Running", True, "", 0))
    eventually("slow pod ready", lambda: summary(api, "pod-slow") == ("Running", True, "", 0))
    for name, phase in (("pod-crash", "Running"), ("pod-init-crash", "Pending")):
        eventually(f"{name} restarts", lambda name=name: summary(api, name)[3] >= 2)
        assert summary(api, name)[:3] == (phase, False, "CrashLoopBackOff")
    assert summary(api, "pod-image-pull")[:3] == ("Pending", False, "ImagePullBackOff")
    assert summary(api, "pod-pending")[:3] == ("Pending", False, "")
    assert api.get(f"{PODS}/pod-pending")["spec"]["nodeName"]


def test_a_slow_pod_runs_unready_first_and_a_gptservices_environment_can_ask_for_it(cluster: handle.Cluster) -> None:
    manifest = pod("pod-by-environment")
    manifest["spec"]["containers"][0]["env"] += [
        {"name": "E2E_MODE", "value": "slow"},
        {"name": "E2E_DELAY", "value": "2s"},
    ]
    cluster.api.create(PODS, manifest)
    eventually("running", lambda: summary(cluster.api, "pod-by-environment")[0] == "Running")
    assert not summary(cluster.api, "pod-by-environment")[1]
    eventually("ready", lambda: summary(cluster.api, "pod-by-environment")[1])


def test_a_crash_leaves_the_termination_message_that_was_asked_for(cluster: handle.Cluster) -> None:
    message = '{"reason": "ModelNotFound", "message": "no \\"x\\""}'
    manifest = pod("pod-message", "crash")
    manifest["metadata"]["annotations"][f"{stages.ANNOTATIONS}/message"] = message
    cluster.api.create(PODS, manifest)
    eventually("crashed", lambda: summary(cluster.api, "pod-message")[3] >= 1)
    status = cluster.api.get(f"{PODS}/pod-message")["status"]
    assert status["containerStatuses"][0]["lastState"]["terminated"]["message"] == message


def test_gpus_are_counted_by_the_scheduler(cluster: handle.Cluster) -> None:
    for name, count in (("pod-four", 4), ("pod-five", 5)):
        manifest = pod(name)
        manifest["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": str(count)}}
        cluster.api.create(PODS, manifest)
    eventually("a pod with four GPUs is ready", lambda: summary(cluster.api, "pod-four")[1])
    assert cluster.api.get(f"{PODS}/pod-four")["spec"]["nodeName"].startswith("gpu-")
    conditions = eventually(
        "a pod with five is refused", lambda: cluster.api.get(f"{PODS}/pod-five")["status"].get("conditions")
    )
    assert "Insufficient nvidia.com/gpu" in conditions[0]["message"]


def test_pod_security_is_enforced(cluster: handle.Cluster) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    cluster.api.create("/api/v1/namespaces", {"metadata": {"name": "strict", "labels": labels}})
    path = "/api/v1/namespaces/strict/pods"
    eventually("account", lambda: cluster.api.exists("/api/v1/namespaces/strict/serviceaccounts/default"))
    with pytest.raises(rest.ApiError, match="violates PodSecurity") as refused:
        cluster.api.create(path, pod("loose"))
    assert refused.value.status == 403


def test_the_audit_log_tells_writes_apart_by_object(cluster: handle.Cluster) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    mark = cluster.audit.mark()
    for name in ("one", "two"):
        cluster.api.create(path, {"metadata": {"name": name}})
    for value in ("1", "2"):
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "data": {"x": value}}
        cluster.api.apply(f"{path}/one", manifest)
    with pytest.raises(rest.ApiError, match="already exists"):
        cluster.api.create(path, {"metadata": {"name": "two"}})
    cluster.api.get(f"{path}/one")
    counted = cluster.audit.count(mark, matching=lambda write: write.agent == rest.FIELD_MANAGER)
    assert {(w.verb, w.resource, w.namespace, w.name): n for w, n in counted.items()} == {
        ("create", "configmaps", "default", "one"): 1,
        ("create", "configmaps", "default", "two"): 1,
        ("patch", "configmaps", "default", "one"): 2,
    }


def test_up_again_changes_nothing_and_other_options_are_refused(cluster: handle.Cluster) -> None:
    before = cluster.components()
    assert lifecycle.up(SPEC) == cluster
    with pytest.raises(lifecycle.ClusterError, match="already runs with other options"):
        lifecycle.up(records.Spec(SPEC.name, nodes=5))
    assert cluster.components() == before
    assert lifecycle.problems(cluster) == []


def test_a_second_cluster_beside_it_that_loses_a_part_is_made_anew(
    cluster: handle.Cluster, other: records.Spec
) -> None:
    """Half of it, then all of it is killed, and it is ended; the first cluster does not notice."""
    second = lifecycle.up(other)
    assert not set(second.record.ports.values()) & set(cluster.record.ports.values())
    second.api.create("/api/v1/namespaces", {"metadata": {"name": "remembered"}})
    before = second.components()
    for name in ("etcd", "kwok"):
        os.kill(before[name].pid, signal.SIGKILL)
    third = lifecycle.up(other)
    assert not third.api.exists("/api/v1/namespaces/remembered")
    assert [name for name, process in before.items() if processes.alive(process)] == []
    processes.kill(third.components().values())
    fourth = lifecycle.up(other)
    assert lifecycle.problems(fourth) == []
    assert lifecycle.down(other.name)
    assert processes.marked(fourth.folder) == []
    assert not fourth.folder.exists()
    assert not lifecycle.down(other.name)
    assert lifecycle.problems(cluster) == []


def test_ctrl_c_in_up_leaves_a_state_from_which_up_and_down_work(other: records.Spec) -> None:
    folder = paths.cluster(other.name)
    command = [sys.executable, "-m", "e2e.cluster", "up", "--name", other.name, "--nodes", "1"]
    with subprocess.Popen(command, cwd=paths.REPOSITORY, stderr=subprocess.PIPE, text=True) as interrupted:
        eventually("API server started", (folder / "processes/kube-apiserver.json").exists)
        interrupted.send_signal(signal.SIGINT)
        _, said = interrupted.communicate(timeout=60)
    assert (interrupted.returncode, said.splitlines()[-1]) == (130, "interrupted")
    assert processes.marked(folder) == []
    with pytest.raises(lifecycle.ClusterError, match="was not started to the end"):
        lifecycle.find(other.name)
    assert lifecycle.problems(lifecycle.up(other)) == []


def test_up_killed_in_the_middle_leaves_a_state_that_down_clears(other: records.Spec) -> None:
    folder: Path = paths.cluster(other.name)
    command = [sys.executable, "-m", "e2e.cluster", "up", "--name", other.name, "--nodes", "1"]
    with subprocess.Popen(command, cwd=paths.REPOSITORY) as killed:
        eventually("etcd started", (folder / "processes/etcd.json").exists)
        killed.kill()
    assert processes.marked(folder)
    assert lifecycle.down(other.name)
    assert processes.marked(folder) == []
    assert not folder.exists()
