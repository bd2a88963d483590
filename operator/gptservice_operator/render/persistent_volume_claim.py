"""The PersistentVolumeClaim of the cache."""

from typing import Any

from .resolved import Resolved


def render_persistent_volume_claim(resolved: Resolved) -> dict[str, Any] | None:
    """Return the claim, or None where the cache is the user's own claim or on the node's disk."""
    claim = resolved.companions.cache_claim
    if claim is None or resolved.companions.cache_claim_name is None:
        return None
    # Absent is not the same as empty: without a class the cluster's default is taken, with an empty one none.
    storage_class = {"storageClassName": claim.storage_class_name} if claim.storage_class_name else {}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": resolved.metadata(resolved.companions.cache_claim_name),
        "spec": {
            "accessModes": list(claim.access_modes),
            "resources": {"requests": {"storage": claim.size}},
            **storage_class,
        },
    }
