"""Simulated nodes of profile api: kwok's command line, its permissions, and the nodes themselves."""

import json
from pathlib import Path

from e2e.cluster import credentials, files, rest, stages

COMPONENT = "kwok"

# Two kinds, so that a service that names a product has a wrong node to avoid.
PRODUCTS = ("NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-80GB")

_ROLE: rest.Object = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "kwok"},
    "rules": [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [""], "resources": ["nodes/status", "pods/status"], "verbs": ["patch", "update"]},
        {
            "apiGroups": [""],
            "resources": ["pods"],
            "verbs": ["get", "list", "watch", "patch", "update", "delete"],
        },
        {
            "apiGroups": [""],
            "resources": ["events"],
            "verbs": ["get", "list", "watch", "create", "patch", "update", "delete"],
        },
    ],
}


def command(binary: Path, folder: Path) -> list[str]:
    """kwok for all nodes, without leases: a restarted kwok would do nothing until the old lease ran out."""
    config = files.write(folder / "kwok.json", "\n---\n".join(json.dumps(s) for s in stages.all_stages()))
    kubeconfig = credentials.Credentials(folder).kubeconfig(COMPONENT)
    return [str(binary), f"--kubeconfig={kubeconfig}", f"--config={config}", "--manage-all-nodes=true"]


def prepare(api: rest.ApiClient, *, nodes: int, gpus: int) -> None:
    """Gives kwok its permissions and creates the nodes; `gpus` is the count on each node that has any."""
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    api.apply(f"{rbac}/clusterroles/kwok", _ROLE)
    api.apply(f"{rbac}/clusterrolebindings/kwok", bind_user("kwok", role="kwok"))
    for index in range(nodes):
        api.create("/api/v1/nodes", node(index, nodes=nodes, gpus=gpus))


def bind_user(user: str, *, role: str) -> rest.Object:
    """A ClusterRoleBinding of one user to one ClusterRole, called after the user."""
    group = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": user},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    }


def node(index: int, *, nodes: int, gpus: int) -> rest.Object:
    """Node `index` of `nodes`: the first half (rounded up) are gpu-0, gpu-1..., the others cpu-0, cpu-1...

    Products alternate among the GPU nodes; with `gpus` 0 there are only CPU nodes.
    """
    with_gpu = (nodes + 1) // 2 if gpus else 0
    has_gpu = index < with_gpu
    name = f"gpu-{index}" if has_gpu else f"cpu-{index - with_gpu}"
    resources = {"cpu": "64", "memory": "512Gi", "ephemeral-storage": "1Ti", "pods": "250"}
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    if has_gpu:
        resources["nvidia.com/gpu"] = str(gpus)
        labels["nvidia.com/gpu.product"] = PRODUCTS[index % len(PRODUCTS)]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": resources, "capacity": resources},
    }
