"""The headless Service: a DNS name with the address of every ready pod, for clients that balance by themselves."""

from typing import Any

from gptservice_operator import names
from gptservice_runtime import contract

from .resolved import Resolved


def render_pods_service(resolved: Resolved) -> dict[str, Any]:
    """Return the headless Service. Its port is the pods' own, since nothing stands in between."""
    number, scheme = contract.ENGINE_PORT, resolved.scheme
    port = {"name": scheme, "port": number, "protocol": "TCP", "appProtocol": scheme, "targetPort": number}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": resolved.metadata(names.pods_service(resolved.name)),
        "spec": {
            "type": "ClusterIP",
            "clusterIP": "None",
            "selector": names.selector(resolved.name),
            "ports": [port],
            "publishNotReadyAddresses": False,
        },
    }
