"""What encrypted weights add to the pods: the key, for the init container alone, and a volume in memory."""

from typing import Any

from gptservice_runtime import contract

from .resolved import Resolved

KEY_VOLUME = "decryption-key"
WEIGHTS_VOLUME = "decrypted"
_MEBIBYTE = 1 << 20


def args(resolved: Resolved) -> list[str]:
    """Return the arguments of the init container."""
    return [] if resolved.decryption is None else [contract.DECRYPT_FLAG]


def fetch_mounts(resolved: Resolved) -> list[dict[str, Any]]:
    """Return the init container's mounts: it alone has the key, as a whole directory."""
    if resolved.decryption is None:
        return []
    key = {"name": KEY_VOLUME, "mountPath": contract.DECRYPTION_KEY_DIRECTORY, "readOnly": True}
    return [key, {"name": WEIGHTS_VOLUME, "mountPath": contract.DECRYPTED_ROOT}]


def engine_mounts(resolved: Resolved) -> list[dict[str, Any]]:
    """Return the engine's mounts."""
    if resolved.decryption is None:
        return []
    return [{"name": WEIGHTS_VOLUME, "mountPath": contract.DECRYPTED_ROOT, "readOnly": True}]


def volumes(resolved: Resolved) -> list[dict[str, Any]]:
    """Return the volumes. What lies in memory counts as the pod's, so its limit is a part of the memory limit."""
    if resolved.decryption is None:
        return []
    key = resolved.decryption.key
    # A named key alone; without one the runtime demands that there is one only.
    items = {"items": [{"key": key.key, "path": key.key}]} if key.key is not None else {}
    memory = {"medium": "Memory", "sizeLimit": f"{resolved.decryption.volume_bytes // _MEBIBYTE}Mi"}
    return [
        {"name": KEY_VOLUME, "secret": {"secretName": key.name, "defaultMode": 0o440, **items}},
        {"name": WEIGHTS_VOLUME, "emptyDir": memory},
    ]
