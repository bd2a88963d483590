"""The NetworkPolicy of the pods: who may connect to which port."""

from typing import Any

from gptservice_operator import names
from gptservice_runtime import contract

from .resolved import Resolved

NAMESPACE_LABEL = "kubernetes.io/metadata.name"
"""Label that Kubernetes puts on each namespace; nobody can change it."""


def render_network_policy(resolved: Resolved) -> dict[str, Any] | None:
    """Return the policy, or None where it is switched off. Only what comes in is restricted."""
    scrapers = resolved.companions.scrapers
    if scrapers is None:
        return None
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": resolved.metadata(names.network_policy(resolved.name)),
        "spec": {
            "podSelector": {"matchLabels": names.selector(resolved.name)},
            "policyTypes": ["Ingress"],
            "ingress": [
                {"ports": [_port(contract.ENGINE_PORT)]},
                # The kubelet's probes of the same port need no rule: they come from the pod's own node, and what does
                # is not subject to policies in the common network plugins.
                {"ports": [_port(contract.PROBE_PORT)], "from": [_namespace(name) for name in scrapers]},
            ],
        },
    }


def _port(number: int) -> dict[str, Any]:
    return {"port": number, "protocol": "TCP"}


def _namespace(name: str) -> dict[str, Any]:
    return {"namespaceSelector": {"matchLabels": {NAMESPACE_LABEL: name}}}
