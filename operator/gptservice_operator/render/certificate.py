"""The cert-manager Certificate for the serving port."""

from typing import Any

from gptservice_operator import names

from .resolved import Resolved


def render_certificate(resolved: Resolved) -> dict[str, Any] | None:
    """Return the Certificate, or None where no issuer is named or nothing would issue it."""
    issuer = resolved.companions.issuer
    if issuer is None:
        return None
    return {
        "apiVersion": "cert-manager.io/v1",
        "kind": "Certificate",
        "metadata": resolved.metadata(names.certificate(resolved.name)),
        "spec": {
            "secretName": resolved.companions.certificate_secret,
            "issuerRef": {"name": issuer.name, "kind": issuer.kind, "group": issuer.group},
            "dnsNames": dns_names(resolved),
            # A key that leaked is of no use after the next renewal. Pods read it anew without a restart.
            "privateKey": {"rotationPolicy": "Always"},
        },
    }


def dns_names(resolved: Resolved) -> list[str]:
    """Return the names under which clients in the cluster reach the Service, and all pods."""
    found: list[str] = []
    for short in (names.k8s_service(resolved.name), names.pods_service(resolved.name)):
        inside = f"{short}.{resolved.namespace}"
        found += [short, inside, f"{inside}.svc", f"{inside}.svc.cluster.local"]
    return found
