"""The Kubernetes Service in front of the pods."""

from typing import Any

from gptservice_operator import names
from gptservice_runtime import contract

from .resolved import Resolved

PORT = 80


def render_service(resolved: Resolved) -> dict[str, Any]:
    """Return the Service. What the API server allocates (cluster IP, families) is left out, so it stays."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": resolved.metadata(names.k8s_service(resolved.name)),
        "spec": {
            "type": "ClusterIP",
            "selector": names.selector(resolved.name),
            "ports": [{"name": "http", "port": PORT, "protocol": "TCP", "targetPort": contract.ENGINE_PORT}],
        },
    }
