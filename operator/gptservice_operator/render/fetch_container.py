"""The init container that fetches the model, and the volume with the hub's token."""

from typing import Any

from gptservice_runtime import contract

from . import decryption
from .container_args import unexpanded
from .resolved import Resolved

FETCH_CONTAINER = "fetch"
TOKEN_VOLUME = "hub-token"  # noqa: S105 - a volume's name


def render_fetch_container(resolved: Resolved, security: dict[str, Any], env: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the init container; ``security`` and ``env`` are those of every container."""
    return {
        "name": FETCH_CONTAINER,
        "image": resolved.image,
        "imagePullPolicy": resolved.image_pull_policy,
        "command": [contract.COMMAND],
        "args": unexpanded(_args(resolved)),
        "env": [*env, *_endpoint(resolved)],
        # An init container costs the greater of its own and the others' requests, so this is free; and a namespace
        # whose LimitRange lets the engine pass lets this pass too.
        "resources": {"requests": dict(resolved.requests), "limits": dict(resolved.limits)},
        "securityContext": security,
        "volumeMounts": [
            *source_mount(resolved),
            *_hub_mounts(resolved),
            *decryption.fetch_mounts(resolved),
            {"name": "tmp", "mountPath": contract.TEMPORARY_ROOT},
        ],
    }


def source_mount(resolved: Resolved) -> list[dict[str, Any]]:
    """Return the mount of a model that is in a claim, the same in every container that reads it there."""
    if resolved.source.claim is None:
        return []
    return [{"name": "source", "mountPath": contract.SOURCE_ROOT, "readOnly": True}]


def source_volumes(resolved: Resolved) -> list[dict[str, Any]]:
    """Return what the model, and leave to read it, come from."""
    volumes: list[dict[str, Any]] = []
    if resolved.source.claim is not None:
        claim = {"claimName": resolved.source.claim, "readOnly": True}
        volumes.append({"name": "source", "persistentVolumeClaim": claim})
    if resolved.source.hub is not None and (token := resolved.source.hub.token) is not None:
        # A named key alone; without one the runtime demands that there is one only.
        items = {"items": [{"key": token.key, "path": token.key}]} if token.key is not None else {}
        secret = {"secretName": token.name, "defaultMode": 0o440, **items}
        volumes.append({"name": TOKEN_VOLUME, "secret": secret})
    return volumes


def _args(resolved: Resolved) -> list[str]:
    args = [contract.FETCH_COMMAND, contract.URI_FLAG, resolved.source.uri]
    args += [contract.SOURCE_ROOT_FLAG, contract.SOURCE_ROOT]
    if resolved.source.digest is not None:
        args += [contract.DIGEST_FLAG, resolved.source.digest]
    if resolved.source.hub is not None and resolved.companions.cache_claim_name is None:
        args += [contract.CACHE_LIMIT_FLAG, str(resolved.cache_bytes)]
    return [*args, *decryption.args(resolved)]


def _endpoint(resolved: Resolved) -> list[dict[str, Any]]:
    if resolved.source.hub is None or not resolved.source.hub.endpoint:
        return []
    return [{"name": contract.HUB_ENDPOINT_ENV, "value": resolved.source.hub.endpoint}]


def _hub_mounts(resolved: Resolved) -> list[dict[str, Any]]:
    if resolved.source.hub is None:
        return []
    cache = {"name": "cache", "mountPath": contract.CACHE_ROOT}
    if resolved.source.hub.token is None:
        return [cache]
    return [cache, {"name": TOKEN_VOLUME, "mountPath": contract.HUB_TOKEN_DIRECTORY, "readOnly": True}]
