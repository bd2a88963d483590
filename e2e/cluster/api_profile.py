"""Starts the control plane, and for profile api the simulated nodes. Needs no root."""

from collections.abc import Mapping
from pathlib import Path

from e2e.cluster import controlplane, credentials, handle, processes, readiness, simulation


def start(cluster: handle.Cluster, binaries: Mapping[str, Path]) -> None:
    """Starts everything and returns when all nodes are Ready."""
    around = processes.Surroundings(cluster.folder)
    credentials.issue(cluster.folder, server=cluster.addresses.server, hosts=server_names(cluster.addresses.host))
    start_control_plane(cluster, binaries, around)
    spec = cluster.record.spec
    simulation.prepare(cluster.api, nodes=spec.nodes, gpus=spec.gpus)
    command = simulation.command(binaries[simulation.COMPONENT], cluster.folder)
    process = processes.start(around, simulation.COMPONENT, command)
    wait_usable(cluster, nodes=spec.nodes, node_component=process)


def server_names(host: str) -> list[str]:
    """What the API server's certificate is for: its address first, then its names inside a cluster."""
    service = ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"]
    return list(dict.fromkeys([host, "127.0.0.1", controlplane.API_SERVICE_ADDRESS, "localhost", *service]))


def start_control_plane(cluster: handle.Cluster, binaries: Mapping[str, Path], around: processes.Surroundings) -> None:
    """Starts etcd, the API server and, once that is ready, the controllers."""
    plane = controlplane.ControlPlane(cluster.folder, cluster.addresses, binaries, cluster.record.spec)
    processes.start(around, "etcd", plane.storage())
    server = processes.start(around, "kube-apiserver", plane.server())
    readiness.wait(
        "API server",
        lambda: readiness.api_ready(cluster.api),
        seconds=90,
        process=server,
        log=processes.log_path(cluster.folder, server.component),
    )
    for component, command in plane.controllers().items():
        processes.start(around, component, command)


def wait_usable(cluster: handle.Cluster, *, nodes: int, node_component: processes.Process) -> None:
    """Waits until nodes are Ready and pods can be created."""
    log = processes.log_path(cluster.folder, node_component.component)
    readiness.wait(
        f"{nodes} node(s)",
        lambda: readiness.nodes_ready(cluster.api, nodes),
        seconds=90,
        process=node_component,
        log=log,
    )
    manager = cluster.components()["kube-controller-manager"]
    readiness.wait(
        "default service account",
        lambda: readiness.default_account(cluster.api),
        seconds=60,
        process=manager,
        log=processes.log_path(cluster.folder, manager.component),
    )
