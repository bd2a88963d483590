"""Real nodes: used, killed in several ways, and ended without a trace."""

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster import (
    cgroups,
    contents,
    handle,
    lifecycle,
    namespaces,
    network,
    node,
    numbers,
    paths,
    processes,
    records,
    rest,
)
from e2e.cluster.images import catalogue

pytestmark = pytest.mark.node

SPEC = records.Spec(f"node-test-{os.getpid()}", "node", gpus=2)
PODS = "/api/v1/namespaces/default/pods"
SERVE = ["python3", "-m", "http.server", "--directory", "/etc", "8000"]
# The kubelet wants these at values of its own; they are the whole machine's.
KERNEL_SETTINGS = ("kernel/panic", "kernel/panic_on_oops", "vm/overcommit_memory", "net/netfilter/nf_conntrack_max")


@pytest.fixture(scope="module")
def settings_before() -> dict[str, str]:
    return kernel_settings()


@pytest.fixture(scope="module")
def seeds() -> contents.Seeds:
    """The images as they are when the tests begin: a source file changed meanwhile must not start a build."""
    return Fixed(contents.images_seeds().seed())


@dataclass(frozen=True)
class Fixed:
    folder: Path

    def seed(self) -> Path:
        return self.folder


@pytest.fixture(scope="module")
def cluster(seeds: contents.Seeds, settings_before: dict[str, str]) -> Iterator[handle.Cluster]:
    try:
        yield start_with_pod(seeds)
    finally:
        lifecycle.down(SPEC.name)


@pytest.fixture
def second() -> Iterator[str]:
    """The name of a cluster that is gone after the test."""
    name = f"{SPEC.name}-b"
    yield name
    lifecycle.down(name)


def start_with_pod(seeds: contents.Seeds) -> handle.Cluster:
    """A cluster in which a pod with a GPU serves behind a Service."""
    cluster = lifecycle.up(SPEC, seeds=seeds)
    if not cluster.api.exists(f"{PODS}/web"):
        cluster.api.create(PODS, pod())
        spec = {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8000}]}
        cluster.api.create("/api/v1/namespaces/default/services", {"metadata": {"name": "web"}, "spec": spec})
    eventually("pod ready", lambda: is_ready(cluster.api.get(f"{PODS}/web")))
    return cluster


def pod() -> rest.Object:
    container = {
        "name": "main",
        "image": catalogue.reference("operator"),
        "imagePullPolicy": "Never",
        "command": SERVE,
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
        "readinessProbe": {"httpGet": {"port": 8000}, "periodSeconds": 1},
    }
    return {"metadata": {"name": "web", "labels": {"app": "web"}}, "spec": {"containers": [container]}}


def is_ready(manifest: rest.Object) -> bool:
    conditions = manifest["status"].get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def eventually(what: str, probe: Callable[[], Any], *, seconds: float = 120) -> Any:
    deadline = time.monotonic() + seconds
    while not (result := probe()):
        assert time.monotonic() < deadline, what
        time.sleep(0.1)
    return result


def kernel_settings() -> dict[str, str]:
    files = {name: Path("/proc/sys", name) for name in KERNEL_SETTINGS}
    return {name: file.read_text() for name, file in files.items() if file.exists()}


def traces(number: int, folder: Path) -> dict[str, object]:
    """Everything on this machine that bears the marks of the cluster; all of it is empty when none is left."""
    ranges = (f"10.200.{number}.", f"10.{100 + number}.")
    commands = {
        "addresses": ["ip", "-o", "addr"],
        "routes": ["ip", "route", "show", "table", "all"],
        "links": ["ip", "-o", "link"],
        "firewall": ["iptables-save"],
        "network namespaces": ["ip", "netns", "list"],
    }
    found: dict[str, object] = {
        name: [line for line in run(command) if any(r in line for r in ranges) or network.interface(number) in line]
        for name, command in commands.items()
    }
    return found | {
        "processes": processes.marked(folder),
        "mounts": [str(path) for path in Path("/proc").glob("[0-9]*/mountinfo") if str(folder) in read(path)],
        "control groups": cgroups.exists(network.interface(number)),
        "folder": folder.exists(),
        "number": numbers.held_by(folder),
    }


def run(command: list[str]) -> list[str]:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def in_pod(cluster: handle.Cluster, *command: str) -> str:
    kubectl = [str(cluster.kubectl), f"--kubeconfig={cluster.kubeconfig}", "exec", "web", "--", *command]
    return subprocess.run(kubectl, capture_output=True, text=True, check=True, timeout=60).stdout


def test_a_pod_reaches_itself_through_the_name_of_its_service(cluster: handle.Cluster) -> None:
    """By CoreDNS, kube-proxy and the bridge's hairpin; kubectl exec goes through the API server to the kubelet."""
    fetch = "import urllib.request as r; print(r.urlopen('http://web.default/hostname', timeout=10).read().decode())"

    def answered() -> bool:
        # kube-proxy may be a moment behind the endpoints.
        with contextlib.suppress(subprocess.CalledProcessError):
            return in_pod(cluster, "python3", "-c", fetch).strip() == "web"
        return False

    eventually("an answer with the pod's own name", answered, seconds=20)


def test_a_pod_has_the_gpu_it_asked_for(cluster: handle.Cluster) -> None:
    assert in_pod(cluster, "sh", "-c", "echo $NVIDIA_VISIBLE_DEVICES").strip()
    status = cluster.api.get(f"/api/v1/nodes/{node.NAME}")["status"]
    assert status["allocatable"]["nvidia.com/gpu"] == str(SPEC.gpus)


def test_commands_inside_see_the_clusters_names_and_addresses(
    cluster: handle.Cluster, capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cluster.run(["sh", "-c", "getent hosts web.default.svc.cluster.local; pwd; exit 7"]) == 7
    address = cluster.api.get("/api/v1/namespaces/default/services/web")["spec"]["clusterIP"]
    assert capfd.readouterr().out.split() == [address, "web.default.svc.cluster.local", str(tmp_path)]


def test_the_network_namespace_is_not_the_machines(cluster: handle.Cluster) -> None:
    assert not cluster.network.samefile("/proc/self/ns/net")


def test_the_models_of_the_cache_are_visible_inside_and_cannot_be_changed(
    cluster: handle.Cluster, capfd: pytest.CaptureFixture[str]
) -> None:
    outside = paths.models() / f"probe-{os.getpid()}"
    outside.touch()
    try:
        inside = str(paths.NODE_MODELS / outside.name)
        assert cluster.run(["test", "-f", inside]) == 0
        assert cluster.run(["rm", inside]) == 1
        assert "Read-only file system" in capfd.readouterr().err
    finally:
        outside.unlink()
    assert not paths.NODE_MODELS.exists()


# The interruption may fall into a call of the API server, whose connection is then closed late.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_ctrl_c_in_up_leaves_nothing_running(seeds: contents.Seeds, second: str) -> None:
    folder = paths.cluster(second)

    def interrupt() -> None:
        eventually("containerd started", (folder / "processes/containerd.json").exists)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        lifecycle.up(records.Spec(second, "node"), seeds=seeds)
    record = records.load(second)
    assert record
    assert record.phase == "failed"
    assert {name for name, found in traces(record.number, folder).items() if found} == {"folder"}
    assert lifecycle.down(second)
    assert not folder.exists()


def test_two_nodes_side_by_side_use_the_same_service_addresses_and_different_others(
    cluster: handle.Cluster, seeds: contents.Seeds, second: str
) -> None:
    other = lifecycle.up(records.Spec(second, "node"), seeds=seeds)
    assert other.addresses.host != cluster.addresses.host
    assert other.addresses.pod_range != cluster.addresses.pod_range
    for each in (cluster, other):
        kubernetes = each.api.get("/api/v1/namespaces/default/services/kubernetes")
        assert kubernetes["spec"]["clusterIP"] == "10.96.0.1"
    lifecycle.down(second)
    assert {name: found for name, found in traces(other.record.number, other.folder).items() if found} == {}
    assert lifecycle.problems(cluster) == []
    assert is_ready(cluster.api.get(f"{PODS}/web"))


def test_the_machines_kernel_settings_are_left_alone(cluster: handle.Cluster, settings_before: dict[str, str]) -> None:
    assert kernel_settings() == settings_before


@pytest.mark.parametrize(
    "victims",
    [["kubelet", "etcd"], [namespaces.INIT]],
    ids=["two components", "process 1 and with it everything"],
)
def test_up_makes_a_killed_cluster_anew(cluster: handle.Cluster, seeds: contents.Seeds, victims: list[str]) -> None:
    before = start_with_pod(seeds).components()
    for victim in victims:
        os.kill(before[victim].pid, signal.SIGKILL)
    again = start_with_pod(seeds)
    assert lifecycle.problems(again) == []
    assert [name for name, process in before.items() if processes.alive(process)] == []


def test_down_leaves_nothing_after_everything_was_killed_with_pods_running(
    cluster: handle.Cluster, seeds: contents.Seeds, settings_before: dict[str, str]
) -> None:
    running = start_with_pod(seeds)
    number, folder = running.record.number, running.folder
    present = traces(number, folder)
    # What this test looks for is there while the cluster runs (its firewall rules are inside, out of sight).
    assert {name for name, found in present.items() if not found} == {"firewall", "network namespaces"}
    for process in processes.marked(folder):
        with contextlib.suppress(ProcessLookupError):  # it may have gone with another one
            os.kill(process.pid, signal.SIGKILL)
    assert lifecycle.down(SPEC.name)
    assert {name: found for name, found in traces(number, folder).items() if found} == {}
    assert kernel_settings() == settings_before


def test_down_needs_neither_record_nor_folder(cluster: handle.Cluster, seeds: contents.Seeds) -> None:
    """Someone removed the folder while the cluster ran."""
    running = start_with_pod(seeds)
    number, folder = running.record.number, running.folder
    assert json.loads((folder / "cluster.json").read_text())["number"] == number
    subprocess.run(["rm", "-rf", str(folder)], check=True)
    assert lifecycle.down(SPEC.name)
    assert {name: found for name, found in traces(number, folder).items() if found} == {}
