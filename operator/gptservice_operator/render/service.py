"""The Kubernetes Service in front of the pods."""

from typing import Any

from gptservice_operator import names
from gptservice_runtime import contract

from .resolved import Resolved


def render_service(resolved: Resolved) -> dict[str, Any]:
    """Return the Service. What the API server allocates (cluster IP, families, node ports) is left out, so it stays."""
    metadata = resolved.metadata(names.k8s_service(resolved.name))
    if resolved.exposure.annotations:
        metadata["annotations"] = resolved.exposure.annotations
    port: dict[str, Any] = {
        "name": resolved.scheme,
        "port": resolved.exposure.port,
        "protocol": "TCP",
        "targetPort": contract.ENGINE_PORT,
    }
    if resolved.exposure.type != "LoadBalancer":
        # Azure's load balancer takes it for how to probe the pods: GET / without a key, which no pod answers with 200;
        # none would get any traffic. Without it, it looks whether they take connections. Meshes and ingress controllers
        # go by the port's name as well.
        port["appProtocol"] = resolved.scheme
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {"type": resolved.exposure.type, "selector": names.selector(resolved.name), "ports": [port]},
    }
