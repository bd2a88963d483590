"""What people want to see of a running cluster: its processes and their logs."""

from pathlib import Path

from e2e.cluster import handle, lifecycle, processes, readiness, rest

_MIB = 1 << 20


def status(cluster: handle.Cluster) -> tuple[str, bool]:
    """A table of the components, the nodes, and a closing line; and whether the cluster is healthy."""
    spec = cluster.record.spec
    head = [
        f"cluster {spec.name}: profile {spec.profile}, phase {cluster.record.phase}",
        f"kubeconfig {cluster.kubeconfig}",
    ]
    wrong = lifecycle.problems(cluster)
    closing = "healthy" if not wrong else f"not healthy: {'; '.join(wrong)}"
    return "\n".join([*head, "", *_components(cluster), "", *_nodes(cluster), closing]), not wrong


def _components(cluster: handle.Cluster) -> list[str]:
    lines = [f"{'COMPONENT':26}{'PID':>8}{'CPU s':>9}{'RSS MiB':>9}  STATE"]
    total = 0
    for name, process in cluster.components().items():
        usage = processes.usage(process)
        if usage is None:
            lines.append(f"{name:26}{process.pid:>8}{'-':>9}{'-':>9}  ended")
            continue
        total += usage.resident_bytes
        memory = usage.resident_bytes // _MIB
        lines.append(f"{name:26}{process.pid:>8}{usage.cpu_seconds:>9.1f}{memory:>9}  running")
    return [*lines, f"{'total':26}{'':>8}{'':>9}{total // _MIB:>9}"]


def _nodes(cluster: handle.Cluster) -> list[str]:
    try:
        nodes = cluster.api.get("/api/v1/nodes")["items"]
    except (OSError, rest.ApiError):
        return []
    ready = sum(readiness.is_ready(node) for node in nodes)
    return [f"API server {cluster.addresses.server} answers; {ready} of {len(nodes)} nodes are Ready"]


def logs(folder: Path, component: str, *, lines: int | None) -> str:
    """A component's log, or the names of the logs there are.

    Raises ValueError when there is no such log.
    """
    available = sorted(path.stem for path in (folder / "logs").glob("*.log"))
    if not component:
        return "".join(f"{name}\n" for name in available) or f"no logs in {folder / 'logs'}\n"
    if component not in available:
        raise ValueError(f"no log of {component!r} in {folder / 'logs'}; there are: {', '.join(available)}")
    path = processes.log_path(folder, component)
    text = path.read_text(errors="replace")
    return text if lines is None else "".join(text.splitlines(keepends=True)[-lines:])
