"""The init container that fetches the model, and the volume with what opens it."""

from typing import Any

from gptservice_runtime import contract

from . import decryption
from .container_args import unexpanded
from .resolved import Download, Resolved

FETCH_CONTAINER = "fetch"
TOKEN_VOLUME = "hub-token"  # noqa: S105 - a volume's name
CREDENTIALS_VOLUME = "model-credentials"


def render_fetch_container(resolved: Resolved, security: dict[str, Any], env: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the init container; ``security`` and ``env`` are those of every container."""
    return {
        "name": FETCH_CONTAINER,
        "image": resolved.image,
        "imagePullPolicy": resolved.image_pull_policy,
        "command": [contract.COMMAND],
        "args": unexpanded(_args(resolved)),
        "env": [*env, *_endpoint(resolved), *_proxy(resolved)],
        # An init container costs the greater of its own and the others' requests, so this is free; and a namespace
        # whose LimitRange lets the engine pass lets this pass too.
        "resources": {"requests": dict(resolved.requests), "limits": dict(resolved.limits)},
        "securityContext": security,
        "volumeMounts": [
            *source_mount(resolved),
            *_download_mounts(resolved),
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
    download = resolved.source.download or Download()
    if (token := download.hub_token) is not None:
        # A named key alone; without one the runtime demands that there is one only.
        items = {"items": [{"key": token.key, "path": token.key}]} if token.key is not None else {}
        secret = {"secretName": token.name, "defaultMode": 0o440, **items}
        volumes.append({"name": TOKEN_VOLUME, "secret": secret})
    if (credentials := download.credentials) is not None:
        secret = {"secretName": credentials.name, "defaultMode": 0o440}
        volumes.append({"name": CREDENTIALS_VOLUME, "secret": secret})
    return volumes


def _args(resolved: Resolved) -> list[str]:
    args = [contract.FETCH_COMMAND, contract.URI_FLAG, resolved.source.uri]
    args += [contract.SOURCE_ROOT_FLAG, contract.SOURCE_ROOT]
    if resolved.source.digest is not None:
        args += [contract.DIGEST_FLAG, resolved.source.digest]
    return [*args, *_download_args(resolved), *decryption.args(resolved)]


def _download_args(resolved: Resolved) -> list[str]:
    args: list[str] = []
    if resolved.source.download is None:
        return args
    if resolved.companions.cache_claim_name is None:
        args += [contract.CACHE_LIMIT_FLAG, str(resolved.cache_bytes)]
    # Without a GPU the engine holds the weights in the container's memory: what cannot fit is not downloaded first.
    if resolved.gpu.count == 0 and (memory := resolved.memory_bytes):
        args += [contract.MEMORY_LIMIT_FLAG, str(memory)]
    if resolved.ca_bundle:
        args += [contract.CA_BUNDLE_FLAG, f"{contract.CA_DIRECTORY}/{contract.CA_FILE}"]
    return args


def _endpoint(resolved: Resolved) -> list[dict[str, Any]]:
    if resolved.source.download is None or not resolved.source.download.hub_endpoint:
        return []
    return [{"name": contract.HUB_ENDPOINT_ENV, "value": resolved.source.download.hub_endpoint}]


def _proxy(resolved: Resolved) -> list[dict[str, Any]]:
    proxy = resolved.source.download.proxy if resolved.source.download is not None else None
    if proxy is None:
        return []
    values = (
        (contract.HTTP_PROXY_ENV, proxy.http),
        (contract.HTTPS_PROXY_ENV, proxy.https),
        (contract.NO_PROXY_ENV, ",".join(proxy.exceptions)),
    )
    return [{"name": name, "value": value} for name, value in values if value]


def _download_mounts(resolved: Resolved) -> list[dict[str, Any]]:
    download = resolved.source.download
    if download is None:
        return []
    mounts: list[dict[str, Any]] = [{"name": "cache", "mountPath": contract.CACHE_ROOT}]
    if download.hub_token is not None:
        mounts.append({"name": TOKEN_VOLUME, "mountPath": contract.HUB_TOKEN_DIRECTORY, "readOnly": True})
    if download.credentials is not None:
        where = contract.MODEL_CREDENTIALS_DIRECTORY
        mounts.append({"name": CREDENTIALS_VOLUME, "mountPath": where, "readOnly": True})
    if resolved.ca_bundle:
        # All of the ConfigMap: what is named in it, and taken from it later, would keep a kept revision's pods waiting.
        mounts.append({"name": "limits", "mountPath": contract.CA_DIRECTORY, "readOnly": True})
    return mounts
