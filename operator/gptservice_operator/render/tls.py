"""What TLS adds to the pods: arguments, mounts and volumes. The runtime reads the files again when they change."""

from typing import Any

from gptservice_runtime import contract

from .resolved import Resolved

_MODE = 0o440
"""Readable for the pod's group (fsGroup), and for nobody else."""


def args(resolved: Resolved) -> list[str]:
    """Return the arguments of the serving container."""
    if resolved.tls is None:
        return []
    mutual = resolved.tls.client_ca is not None
    return [contract.TLS_FLAG, *([contract.REQUIRE_CLIENT_CERTIFICATE_FLAG] if mutual else [])]


def mounts(resolved: Resolved) -> list[dict[str, Any]]:
    """Return its mounts: whole directories, since a file mounted by ``subPath`` never changes."""
    if resolved.tls is None:
        return []
    found = [{"name": "tls", "mountPath": contract.TLS_DIRECTORY, "readOnly": True}]
    if resolved.tls.client_ca is not None:
        found.append({"name": "client-ca", "mountPath": contract.CLIENT_CA_DIRECTORY, "readOnly": True})
    return found


def volumes(resolved: Resolved) -> list[dict[str, Any]]:
    """Return the volumes. Of the client CA's Secret only the key that is named: the CA's own may be beside it."""
    if resolved.tls is None:
        return []
    found: list[dict[str, Any]] = [
        {"name": "tls", "secret": {"secretName": resolved.tls.secret, "defaultMode": _MODE}},
    ]
    if (ca := resolved.tls.client_ca) is not None:
        secret: dict[str, Any] = {"secretName": ca.name, "defaultMode": _MODE}
        if ca.key is not None:
            secret["items"] = [{"key": ca.key, "path": contract.CLIENT_CA_FILE}]
        found.append({"name": "client-ca", "secret": secret})
    return found
