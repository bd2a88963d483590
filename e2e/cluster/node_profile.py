"""Starts a node cluster in namespaces of its own, and removes everything such a cluster leaves on the machine."""

import functools
from collections.abc import Mapping
from pathlib import Path

from e2e.cluster import (
    api_profile,
    cgroups,
    containerd,
    contents,
    credentials,
    dns,
    files,
    handle,
    namespaces,
    network,
    node,
    numbers,
    paths,
    processes,
    readiness,
)


def start(cluster: handle.Cluster, binaries: Mapping[str, Path], seed: Path) -> None:
    """Starts everything, with the images of `seed`, and returns when the node is Ready and pods can be created."""
    number, folder, addresses = cluster.record.number, cluster.folder, cluster.addresses
    group = network.interface(number)
    parts = node.Node(folder, addresses, binaries, group, cluster.record.spec.gpus)
    contents.prepare(folder, parts.containerd_root, seed)
    hosts = api_profile.server_names(addresses.host)
    credentials.issue(folder, server=addresses.server, hosts=hosts, node=node.NAME)
    files.write(folder / "resolv.conf", node.name_servers(addresses.host))

    outside = processes.Surroundings(folder, _search_path(binaries), (), tuple(cgroups.create(group)))
    init = namespaces.create(outside)
    network.connect(number, init.pid)
    inside = processes.Surroundings(folder, outside.search_path, namespaces.entering(init.pid), outside.cgroup_files)
    api_profile.start_control_plane(cluster, binaries, inside)
    _start_node(cluster, parts, inside)


def claim_number(folder: Path) -> int:
    """Takes a number for the cluster in `folder`, after clearing those whose clusters' folders were removed by hand."""
    for number in numbers.abandoned():
        _clear(number)
    return numbers.claim(folder)


def remove_traces(folder: Path) -> bool:
    """Ends what runs for the cluster in `folder` and removes its interface, routes, addresses and control groups.

    Works from any state; False when there was nothing. Mounts and firewall rules need no hand: they are gone with
    the namespaces.
    """
    held = numbers.held_by(folder)
    for number in held:
        _clear(number)
    return bool(held)


def _clear(number: int) -> None:
    cgroups.remove(network.interface(number))
    network.disconnect(number)
    numbers.release(number)


def _start_node(cluster: handle.Cluster, parts: node.Node, inside: processes.Surroundings) -> None:
    start = functools.partial(processes.start, inside)
    runtime = start("containerd", parts.containerd())
    dns.prepare(cluster.api, cluster.addresses.host)
    start("coredns", parts.coredns())
    start("kube-proxy", parts.kube_proxy())
    _wait_for_containerd(cluster, runtime)
    kubelet = start("kubelet", parts.kubelet())
    api_profile.wait_usable(cluster, nodes=1, node_component=kubelet)
    if parts.gpus:
        _start_device_plugin(cluster, parts, inside)


def _start_device_plugin(cluster: handle.Cluster, parts: node.Node, inside: processes.Surroundings) -> None:
    """Advertises the GPUs; the kubelet, which empties the plugins' folder when it starts, must be there first."""
    environment = {"PYTHONPATH": str(paths.REPOSITORY)}
    plugin = processes.start(inside, node.DEVICE_PLUGIN, parts.device_plugin(), environment=environment)
    readiness.wait(
        f"{parts.gpus} GPUs on the node",
        lambda: readiness.allocatable(cluster.api, node.NAME, "nvidia.com/gpu") == parts.gpus,
        seconds=60,
        process=plugin,
        log=processes.log_path(cluster.folder, plugin.component),
    )


def _wait_for_containerd(cluster: handle.Cluster, runtime: processes.Process) -> None:
    socket = Path(f"/proc/{cluster.init.pid}/root") / str(containerd.SOCKET).removeprefix("/")
    readiness.wait(
        "containerd",
        socket.exists,
        seconds=60,
        process=runtime,
        log=processes.log_path(cluster.folder, runtime.component),
    )


def _search_path(binaries: Mapping[str, Path]) -> str:
    """The machine's programs after ours: containerd finds its shim, the kubelet mount and iptables."""
    own = dict.fromkeys(str(path.parent) for path in binaries.values())
    return ":".join([*own, processes.Surroundings.search_path])
