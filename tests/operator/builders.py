"""Objects as the API server sends them, one call each: a test names only what it is about."""

import copy
import uuid
from collections.abc import Mapping
from typing import Any, cast

from gptservice_operator import companions, extract, names, parse, render, resolve
from gptservice_operator.actions import child_key
from gptservice_operator.api import kinds
from gptservice_operator.config import Config
from gptservice_operator.render.resolved import Refusal, Resolved

Body = dict[str, Any]

NAMESPACE = "team-a"
IMAGE = "registry.example.com/gptservice-runtime:1.2.3"
CREATED = "2026-01-05T10:00:00Z"
EVERYTHING_SERVED = companions.Seen(served=frozenset(kinds.OPTIONAL))
"""A cluster that has cert-manager and the Prometheus operator."""
KINDS = {kind.name: kind for kind in kinds.WATCHED}


def uid_of(*parts: str) -> str:
    """Return the UID that the object of this kind and name has in every test."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, "/".join(parts)))


def config(**changes: Any) -> Config:
    return Config(runtime_image=IMAGE, **changes)


def service(name: str = "chat", spec: Body | None = None, **metadata: Any) -> Body:
    """Return a GPTService; the smallest valid spec if none is given."""
    return {
        "apiVersion": kinds.API_VERSION,
        "kind": "GPTService",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": uid_of("GPTService", name),
            "resourceVersion": "10",
            "generation": 1,
            "creationTimestamp": CREATED,
            **metadata,
        },
        "spec": {"model": "pvc://models/smollm2", "replicas": 1} if spec is None else spec,
    }


def gpt_model(name: str = "gpt-4-turbo", **spec: Any) -> Body:
    return {
        "apiVersion": kinds.API_VERSION,
        "kind": "GPTModel",
        "metadata": {"name": name, "uid": uid_of("GPTModel", name), "resourceVersion": "5", "generation": 1},
        "spec": {"uri": f"pvc://models/{name}", **spec},
    }


def decide(
    body: Body, *models: Body, settings: Config | None = None, seen: companions.Seen = companions.NOTHING_SEEN
) -> Resolved | Refusal:
    """Parse and resolve a service as a pass does."""
    spec = parse.parse(body)
    if isinstance(spec, Refusal):
        return spec
    catalogue = {model["metadata"]["name"]: model for model in models}
    return resolve.resolve(body, spec, catalogue, settings or config(), seen)


def resolved(
    spec: Body | None = None,
    *models: Body,
    name: str = "chat",
    settings: Config | None = None,
    seen: companions.Seen = companions.NOTHING_SEEN,
) -> Resolved:
    """Return what a valid service comes to."""
    outcome = decide(service(name, spec), *models, settings=settings, seen=seen)
    assert isinstance(outcome, Resolved), outcome
    return outcome


def child(decided: Resolved, kind: str) -> Body:
    """Return the manifest of a service's only child of a kind."""
    (manifest,) = [manifest for manifest in render.render(decided) if manifest["kind"] == kind]
    return manifest


def refusal(spec: Body, *models: Body, name: str = "chat") -> Refusal:
    """Return why a service is refused."""
    outcome = decide(service(name, spec), *models)
    assert isinstance(outcome, Refusal), outcome
    return outcome


def merged(base: Any, over: Any) -> Any:
    """Return ``over`` laid over ``base``, maps key by key."""
    if isinstance(base, dict) and isinstance(over, dict):
        known = cast("Body", base)
        return {**known, **{key: merged(known.get(key), value) for key, value in cast("Body", over).items()}}
    return copy.deepcopy(over)


def steps(value: Any) -> list[tuple[str, Any]]:
    """Return the parts of a map or a list, each with the step that leads to it; none for anything else."""
    if isinstance(value, dict):
        return [(f".{key}", inner) for key, inner in cast("Body", value).items()]
    if isinstance(value, list):
        items: list[Any] = value  # pyright: ignore[reportUnknownVariableType]
        return [(f"[{index}]", inner) for index, inner in enumerate(items)]
    return []


_SERVER_DEFAULTS: dict[str, Body] = {
    "Certificate": {"status": {"conditions": [{"type": "Ready", "status": "True"}]}},
    "ConfigMap": {},
    "ControllerRevision": {},
    "Deployment": {
        "spec": {
            "template": {
                "spec": {"dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler"}
            }
        },
        "status": {"observedGeneration": 1},
    },
    "HorizontalPodAutoscaler": {},
    "NetworkPolicy": {},
    "PersistentVolumeClaim": {"spec": {"volumeMode": "Filesystem"}, "status": {"phase": "Pending"}},
    "PodDisruptionBudget": {"status": {"currentHealthy": 0, "disruptionsAllowed": 0}},
    "PodMonitor": {},
    "Service": {"spec": {"clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.7"], "sessionAffinity": "None"}},
    "ServiceAccount": {},
}


def live(manifest: Mapping[str, Any], *, uid: str | None = None, version: int = 20, old: Body | None = None) -> Body:
    """Return the object that the API server makes of an applied manifest: with identity, defaults and managedFields."""
    kind, name = child_key(manifest)
    stored: Body = merged(_SERVER_DEFAULTS[kind], manifest)
    if stored.get("spec", {}).get("publishNotReadyAddresses") is False:
        del stored["spec"]["publishNotReadyAddresses"]
    stored["metadata"] |= {
        "uid": uid or uid_of(kind, name),
        "resourceVersion": str(version),
        "creationTimestamp": CREATED,
        "generation": 1,
        "managedFields": [{"manager": names.MANAGER, "operation": "Apply", "fieldsV1": {}}],
    }
    if old is not None and "status" in old:
        stored["status"] = old["status"]
    return stored


def replicas_managers(deployment: Body) -> frozenset[str]:
    """Return the field managers that own ``spec.replicas``."""
    return entry(deployment).replicas_managers


def own_replicas(deployment: Body, *managers: str) -> None:
    """Have these field managers own ``spec.replicas``, and no other."""
    for each in deployment["metadata"]["managedFields"]:
        each.setdefault("fieldsV1", {}).setdefault("f:spec", {}).pop("f:replicas", None)
    deployment["metadata"]["managedFields"] += [
        {"manager": manager, "operation": "Apply", "fieldsV1": {"f:spec": {"f:replicas": {}}}} for manager in managers
    ]


def entry(body: Mapping[str, Any]) -> extract.Entry:
    """Return the store's entry of an object."""
    return extract.entry(KINDS[body["kind"]], body)


def condition(kind: str, status: str, **more: Any) -> Body:
    return {"type": kind, "status": status, **more}


def container(name: str = "engine", **state: Any) -> Body:
    """Return a container status; a state is given as ``waiting=...``, ``running=...``, ``terminated=...``."""
    last = state.pop("last", None)
    status: Body = {"name": name, "ready": False, "restartCount": 0, "image": IMAGE, "state": state, "lastState": {}}
    return status if last is None else {**status, "restartCount": 3, "lastState": {"terminated": last}}


def on_device(name: str = "engine", *, health: str = "Unhealthy", device: str = "GPU-1", **state: Any) -> Body:
    """Return the status of a container that was given a device, which its plugin calls healthy or not."""
    given = [{"name": "nvidia.com/gpu", "resources": [{"resourceID": device, "health": health}]}]
    return {**container(name, **(state or {"running": {}})), "allocatedResourcesStatus": given}


def pod(
    name: str = "chat-6d4c-x1",
    *,
    of: str = "chat",
    ready: bool = False,
    phase: str = "Pending",
    init: list[Body] | None = None,
    containers: list[Body] | None = None,
    conditions: list[Body] | None = None,
    created: str = CREATED,
    **metadata: Any,
) -> Body:
    """Return a pod of a service as the kubelet reports it."""
    listed = conditions if conditions is not None else [condition("PodScheduled", "True")]
    status: Body = {"phase": "Running" if ready else phase}
    status["conditions"] = [*listed, condition("Ready", "True" if ready else "False")]
    if init is not None:
        status["initContainerStatuses"] = init
    if containers is not None:
        status["containerStatuses"] = containers
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": uid_of("Pod", name),
            "resourceVersion": "30",
            "labels": names.labels(of),
            "creationTimestamp": created,
            "ownerReferences": [{"kind": "ReplicaSet", "name": f"{of}-6d4c", "uid": "rs", "controller": True}],
            **metadata,
        },
        "spec": {"nodeName": "node-1"},
        "status": status,
    }
