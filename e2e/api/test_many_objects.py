"""Start with 6,000 stored objects: a cluster of its own, thrown away afterwards, as deleting them takes longer."""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e import operator_process
from e2e.api.conftest import PREFIX
from e2e.api.state import service
from e2e.cluster import binaries, lifecycle, processes, records
from e2e.cluster.handle import Cluster
from e2e.kube import KINDS, Kube, Object, wait_until
from e2e.operator_process import OperatorProcess
from e2e.proxy import Proxy, ProxyOptions, ProxyThread

SERVICES = 1000
NAMESPACES = 10
# With the 1,000 GPTServices: 6,000 objects.
PODS_EACH = 2
PAGE = 250
# Far above the figure that is printed; an index that grows quadratically took 209 s.
HANG_SECONDS = 60


@pytest.fixture(scope="module")
def own_cluster() -> Iterator[Cluster]:
    name = f"{PREFIX}{os.getpid()}-many"
    yield lifecycle.up(records.Spec(name=name, profile="api", nodes=1))
    lifecycle.down(name)


@pytest.fixture(scope="module")
def kube(own_cluster: Cluster) -> Kube:
    """Its administrator."""
    return Kube(own_cluster.kubeconfig)


@pytest.fixture
def operator(
    kube: Kube,
    own_cluster: Cluster,
    tmp_path: Path,
    show_log_on_failure: Callable[[str, Callable[[], str]], None],
) -> Iterator[tuple[OperatorProcess, ProxyThread]]:
    """The operator, not started yet, and the proxy before it."""
    helm = binaries.ensure([binaries.HELM])[binaries.HELM]
    access = operator_process.access(kube, own_cluster.kubeconfig, operator_process.install(kube, helm))
    authority = tmp_path / "ca.pem"
    authority.write_text(access.authority or "")
    with ProxyThread(Proxy(ProxyOptions(upstream=access.server, ca_file=authority))) as proxy:
        config = access.through(proxy.proxy.url).write(tmp_path / "kubeconfig")
        process = OperatorProcess(config, tmp_path / "operator.log", {"GPTSERVICE_RESYNC_SECONDS": "3600"})
        show_log_on_failure("operator log (many objects)", process.tail)
        yield process, proxy
        process.kill()


def still(kube: Kube, cluster: Cluster, namespaces: list[str]) -> None:
    """End Kubernetes' own controllers, which would write as much again about the objects that are made now.

    Pods can be created only after a controller has made their namespace's ServiceAccount.
    """
    for namespace in namespaces:
        found = lambda where=namespace: kube.find("ServiceAccount", "default", where)  # noqa: E731
        wait_until(found, lambda account: account is not None, f"the ServiceAccount of {namespace}")
    running = cluster.components()
    processes.kill([running[name] for name in ("kube-controller-manager", "kube-scheduler", "kwok")])


@pytest.fixture
def stored(kube: Kube, own_cluster: Cluster, operator: object) -> Counter[str]:
    """How many objects of each kind there are. The operator has written none of them; the CRDs come with `operator`."""
    namespaces = [f"many-{index}" for index in range(NAMESPACES)]
    kube.create_many({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in namespaces)
    still(kube, own_cluster, namespaces)
    services = kube.create_many(placed(service(f"gpt-{n}", model="not-there"), n) for n in range(SERVICES))
    children = [child for made in services for child in fabricated(made)]
    kube.create_many(children)
    return Counter(["GPTService"] * SERVICES + [child["kind"] for child in children])


def placed(manifest: Object, number: int) -> Object:
    metadata = {**manifest["metadata"], "namespace": f"many-{number % NAMESPACES}"}
    return {**manifest, "metadata": metadata}


def fabricated(owner: Object) -> Iterator[Object]:
    """What the operator would find of one service: its children with our labels, and pods; nothing runs."""
    name = owner["metadata"]["name"]
    labels = {
        "app.kubernetes.io/name": "gptservice",
        "app.kubernetes.io/managed-by": "gptservice-operator",
        "gptservice-name": name,
    }
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": name,
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }

    def child(kind: str, suffix: str = "", **content: Any) -> Object:
        metadata = {
            "name": name + suffix,
            "namespace": owner["metadata"]["namespace"],
            "labels": labels,
            "ownerReferences": [reference],
        }
        return {"apiVersion": KINDS[kind].api_version, "kind": kind, "metadata": metadata, **content}

    pod = {"schedulerName": "nobody", "containers": [{"name": "engine", "image": "localhost/none:1"}]}
    template = {"metadata": {"labels": labels}, "spec": {"containers": pod["containers"]}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    yield child("Deployment", spec=spec)
    yield child("Service", spec={"clusterIP": "None", "selector": labels, "ports": [{"port": 80}]})
    yield child("ConfigMap", "-limits", data={"limits.json": "{}"})
    for number in range(PODS_EACH):
        yield child("Pod", f"-{number}", spec=pod)


@pytest.mark.timeout(300)
def test_the_first_pass_comes_soon(
    operator: tuple[OperatorProcess, ProxyThread],
    stored: Counter[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    process, proxy = operator
    log = proxy.switchboard.log
    assert sum(stored.values()) == 6000
    begun = time.time()
    process.start(wait=False)
    wait_until(log.writes, lambda writes: len(writes) > 0, "the first write", timeout=HANG_SECONDS, every=0.02)
    first = log.writes()[0].time - begun
    used = process.cpu_seconds
    process.kill()
    assert "store filled: 1000 services" in process.output().decode()
    with capsys.disabled():
        print(f"\n6,000 stored objects: first write {first:.2f} s after the process was started, {used:.2f} s CPU")

    # The store's own lists and kopf's, each once, page by page.
    lists = log.since(where=lambda entry: entry.target.verb == "list" and entry.code in (200, None))
    for kind, count in stored.items():
        asked = [entry for entry in lists if entry.target.resource == KINDS[kind].plural]
        told = "\n".join(f"{entry.time - begun:.2f} s {entry.code} {entry.user_agent} {entry.query}" for entry in asked)
        # A selected list may end with an empty page: there were objects of others behind the last one that is ours.
        assert len(asked) <= 2 * (math.ceil(count / PAGE) + 1), f"lists of {kind}:\n{told}"
