"""The pod template: Pod Security "restricted", the runtime contract's volumes and probes, the user's scheduling."""

from typing import Any

from gptservice_operator import names
from gptservice_runtime import contract

from . import decryption, tls
from .container_args import unexpanded
from .fetch_container import render_fetch_container, source_mount, source_volumes
from .resolved import Resolved

ENGINE_CONTAINER = "engine"
GPU_PRODUCT_LABEL = "nvidia.com/gpu.product"

STARTUP_PERIOD_SECONDS = 2
STARTUP_MARGIN_SECONDS = 30
"""The runtime ends by itself, with its reason, before the kubelet's startup probe kills it without one."""

_SECURITY = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}
_NO_GPU = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}
"""Without it, an image built for CUDA sees every GPU of a node whose default runtime is NVIDIA's."""

_SCRATCH_SIZE = "4Gi"
_SHARED_MEMORY_SIZE = "1Gi"


def render_pod_template(resolved: Resolved) -> dict[str, Any]:
    """Return the Deployment's ``spec.template``."""
    security: dict[str, Any] = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    if resolved.fs_group is not None:
        security["fsGroup"] = resolved.fs_group
    grace = contract.DRAIN_GAP_SECONDS + resolved.drain_timeout_seconds + contract.GRACE_MARGIN_SECONDS
    return {
        "metadata": _metadata(resolved),
        "spec": {
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": security,
            "terminationGracePeriodSeconds": grace,
            "initContainers": [render_fetch_container(resolved, _SECURITY, [_NO_GPU])],
            "containers": [_engine_container(resolved)],
            "volumes": _volumes(resolved),
            # Always: where it is left out later, the API server brings it back from the field's old name.
            "serviceAccountName": resolved.pod.service_account_name,
            **({"imagePullSecrets": secrets} if (secrets := _pull_secrets(resolved)) else {}),
            **_scheduling(resolved),
        },
    }


def _metadata(resolved: Resolved) -> dict[str, Any]:
    labels = {**resolved.pod.labels, **names.labels(resolved.name), names.REVISION: resolved.origin.key}
    return {"labels": labels, **({"annotations": resolved.pod.annotations} if resolved.pod.annotations else {})}


def _pull_secrets(resolved: Resolved) -> list[dict[str, str]]:
    return [{"name": name} for name in resolved.pod.image_pull_secrets]


def _engine_container(resolved: Resolved) -> dict[str, Any]:
    return {
        "name": ENGINE_CONTAINER,
        "image": resolved.image,
        "imagePullPolicy": resolved.image_pull_policy,
        "command": [contract.COMMAND],
        "args": unexpanded(serve_args(resolved)),
        **({"env": env} if (env := _env(resolved)) else {}),
        "ports": [
            {"name": resolved.scheme, "containerPort": contract.ENGINE_PORT, "protocol": "TCP"},
            {"name": "probes", "containerPort": contract.PROBE_PORT, "protocol": "TCP"},
        ],
        "resources": _resources(resolved),
        "securityContext": _SECURITY,
        "startupProbe": _probe(
            contract.STARTUP_PATH,
            period=STARTUP_PERIOD_SECONDS,
            failures=-(-(resolved.startup_timeout_seconds + STARTUP_MARGIN_SECONDS) // STARTUP_PERIOD_SECONDS),
        ),
        # The runtime weighs its own evidence; the kubelet only passes it on.
        "readinessProbe": _probe(contract.READY_PATH, period=2, failures=1),
        "livenessProbe": _probe(contract.LIVE_PATH, period=10, failures=3),
        "volumeMounts": [
            *(source_mount(resolved) if resolved.decryption is None else decryption.engine_mounts(resolved)),
            {"name": "cache", "mountPath": contract.CACHE_ROOT},
            *_keys_mount(resolved),
            *tls.mounts(resolved),
            {"name": "limits", "mountPath": contract.LIMITS_DIRECTORY, "readOnly": True},
            {"name": "shm", "mountPath": contract.SHARED_MEMORY_ROOT},
            {"name": "tmp", "mountPath": contract.TEMPORARY_ROOT},
        ],
    }


def serve_args(resolved: Resolved) -> list[str]:
    """Return the arguments of the serving container: ours first, the user's after the separator."""
    args = [contract.SERVE_COMMAND, contract.MODEL_FLAG, resolved.source.path]
    for name in resolved.served_model_names:
        args += [contract.SERVED_MODEL_NAME_FLAG, name]
    values = (
        (contract.TENSOR_PARALLEL_SIZE_FLAG, resolved.tensor_parallel_size if resolved.gpu.count > 1 else None),
        (contract.MAX_MODEL_LEN_FLAG, resolved.context_length),
        (contract.MAX_TOKENS_FLAG, resolved.max_tokens),
        (contract.OTLP_ENDPOINT_FLAG, resolved.otlp_endpoint),
        (contract.STARTUP_TIMEOUT_FLAG, resolved.startup_timeout_seconds),
        (contract.DRAIN_TIMEOUT_FLAG, resolved.drain_timeout_seconds),
        (contract.READY_LATENCY_FLAG, resolved.rollout.ready_latency_milliseconds),
    )
    for flag, value in values:
        if value is not None:
            args += [flag, str(value)]
    if resolved.api_keys is not None:
        args.append(contract.REQUIRE_API_KEY_FLAG)
    return [*args, *tls.args(resolved), contract.ENGINE_ARGS_SEPARATOR, *resolved.engine_args]


def _env(resolved: Resolved) -> list[dict[str, Any]]:
    env: list[dict[str, Any]] = []
    if resolved.max_tokens is not None:
        env.append({"name": contract.MAX_TOKENS_ENV, "value": str(resolved.max_tokens)})
    if resolved.gpu.count == 0:
        env.append(_NO_GPU)
    if resolved.otlp_endpoint is not None and contract.SERVICE_NAME_ENV not in {one.name for one in resolved.env}:
        env.append({"name": contract.SERVICE_NAME_ENV, "value": resolved.name})
    return [*env, *(variable.model_dump(by_alias=True, exclude_none=True) for variable in resolved.env)]


def _resources(resolved: Resolved) -> dict[str, Any]:
    # Extended resources cannot be overcommitted: request and limit must be equal, and both are ours to prune.
    gpu = {resolved.gpu.resource_name: str(resolved.gpu.count)} if resolved.gpu.count else {}
    return {"requests": {**resolved.requests, **gpu}, "limits": {**resolved.limits, **gpu}}


def _probe(path: str, *, period: int, failures: int) -> dict[str, Any]:
    return {
        "httpGet": {"path": path, "port": contract.PROBE_PORT, "scheme": "HTTP"},
        "periodSeconds": period,
        "timeoutSeconds": 3,
        "failureThreshold": failures,
        "successThreshold": 1,
    }


def _keys_mount(resolved: Resolved) -> list[dict[str, Any]]:
    if resolved.api_keys is None:
        return []
    # The whole directory: a file mounted by `subPath` never changes, so that a key could not be rotated.
    return [{"name": "keys", "mountPath": contract.KEYS_DIRECTORY, "readOnly": True}]


def _volumes(resolved: Resolved) -> list[dict[str, Any]]:
    volumes: list[dict[str, Any]] = [
        _cache_volume(resolved),
        {
            "name": "limits",
            "configMap": {"name": names.limits_config_map(resolved.name), "defaultMode": 0o444},
        },
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": _SHARED_MEMORY_SIZE}},
        {"name": "tmp", "emptyDir": {"sizeLimit": _SCRATCH_SIZE}},
    ]
    if resolved.api_keys is not None:
        # Readable for the pod's group (fsGroup), and for nobody else.
        keys = {"secretName": resolved.api_keys.secret, "defaultMode": 0o440}
        volumes.append({"name": "keys", "secret": keys})
    return [*volumes, *tls.volumes(resolved), *source_volumes(resolved), *decryption.volumes(resolved)]


def _cache_volume(resolved: Resolved) -> dict[str, Any]:
    claim = resolved.companions.cache_claim_name
    if claim is None:
        return {"name": "cache", "emptyDir": {"sizeLimit": resolved.cache_size}}
    return {"name": "cache", "persistentVolumeClaim": {"claimName": claim}}


def _scheduling(resolved: Resolved) -> dict[str, Any]:
    fields: dict[str, Any] = resolved.scheduling.model_dump(by_alias=True, exclude_none=True)
    if resolved.gpu.product is not None:
        fields["nodeSelector"] = {**fields.get("nodeSelector", {}), GPU_PRODUCT_LABEL: resolved.gpu.product}
    for constraint in fields.get("topologySpreadConstraints", ()):
        constraint["labelSelector"] = {"matchLabels": names.selector(resolved.name)}
    # An empty map or list belongs to nobody after an apply, so that it would look like a difference for ever.
    return {key: value for key, value in fields.items() if value not in ({}, [])}
