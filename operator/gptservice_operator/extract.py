"""What the store keeps of an object: small, without managedFields, as compact JSON."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson

from . import names
from .api import kinds
from .api.body import Body, entries, first, section

Key = tuple[str, str]
"""Namespace and name of a GPTService."""

EntryKey = tuple[str, str, str]
"""Kind, namespace (empty for cluster-scoped kinds) and name."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An object as the store keeps it."""

    key: EntryKey
    uid: str
    resource_version: int
    owner: Key | None
    """The GPTService whose pass looks at this object."""
    controller_uid: str | None
    models: frozenset[str]
    """For a GPTService: the catalogue names that it may refer to."""
    replicas_managers: frozenset[str]
    """For a Deployment: the field managers that own ``spec.replicas``."""
    unplaced: bool
    """For a pod: whether the scheduler has found no node for it."""
    data: bytes

    def body(self) -> dict[str, Any]:
        """Return a fresh copy of what was kept."""
        loaded: dict[str, Any] = orjson.loads(self.data)
        return loaded


def key_of(kind: kinds.Kind, metadata: Body) -> EntryKey:
    """Return the store's key of an object."""
    return kind.name, metadata.get("namespace") or "", metadata["name"]


def entry(kind: kinds.Kind, body: Body) -> Entry:
    """Make the store's entry of an object as the API server sent it."""
    metadata = body["metadata"]
    return Entry(
        key=key_of(kind, metadata),
        uid=metadata["uid"],
        resource_version=int(metadata["resourceVersion"]),
        owner=_owner(kind, metadata),
        controller_uid=names.controller_uid(metadata),
        models=_models(section(body, "spec")) if kind is kinds.GPT_SERVICE else frozenset(),
        replicas_managers=_replicas_managers(metadata) if kind is kinds.DEPLOYMENT else frozenset(),
        unplaced=kind is kinds.POD and _is_unplaced(body),
        # Sorted: the same object comes with its keys in another order from a list and from a watch.
        data=orjson.dumps(_KEEP.get(kind, _child)(body), option=orjson.OPT_SORT_KEYS),
    )


def _owner(kind: kinds.Kind, metadata: Body) -> Key | None:
    if kind is kinds.GPT_MODEL:
        return None
    namespace = metadata.get("namespace") or ""
    if kind is kinds.GPT_SERVICE:
        return namespace, metadata["name"]
    for reference in entries(metadata, "ownerReferences"):
        if reference.get("kind") == kinds.GPT_SERVICE.name and reference.get("controller"):
            return namespace, reference["name"]
    label = section(metadata, "labels").get(names.SERVICE_LABEL)
    return (namespace, label) if label else None


def _models(spec: Body) -> frozenset[str]:
    return frozenset(value for value in (spec.get("model"), spec.get("modelRef")) if isinstance(value, str))


def _replicas_managers(metadata: Body) -> frozenset[str]:
    managed = entries(metadata, "managedFields")
    return frozenset(
        str(entry.get("manager")) for entry in managed if "f:replicas" in section(entry, "fieldsV1", "f:spec")
    )


def _metadata(body: Body, *fields: str) -> dict[str, Any]:
    metadata = body["metadata"]
    return {field: metadata[field] for field in fields if field in metadata}


_ANNOTATIONS = frozenset({names.RERENDER, names.RETRY})
"""Annotations of a user's object that a pass looks at; others may be large, and are nobody's business here."""


def _own(body: Body) -> dict[str, Any]:
    fields = ("name", "namespace", "uid", "generation", "creationTimestamp", "deletionTimestamp")
    annotations = {key: value for key, value in section(body, "metadata", "annotations").items() if key in _ANNOTATIONS}
    return {
        "metadata": {**_metadata(body, *fields), **({"annotations": annotations} if annotations else {})},
        **{key: body[key] for key in ("spec", "status") if key in body},
    }


def _child(body: Body) -> dict[str, Any]:
    metadata = {key: value for key, value in body["metadata"].items() if key != "managedFields"}
    return {**body, "metadata": metadata}


_POD_METADATA = ("name", "uid", "labels", "ownerReferences", "creationTimestamp", "deletionTimestamp")


def _pod(body: Body) -> dict[str, Any]:
    status = section(body, "status")
    kept = ("phase", "reason", "message", "conditions", "initContainerStatuses", "containerStatuses")
    # What it waits for is of interest until it has gone somewhere.
    wanted = _wanted(section(body, "spec")) if _is_unplaced(body) else {}
    return {
        "metadata": _metadata(body, *_POD_METADATA),
        **({"spec": wanted} if wanted else {}),
        "status": {key: status[key] for key in kept if key in status},
    }


def _wanted(spec: Body) -> dict[str, Any]:
    resources = [{"resources": section(container, "resources")} for container in entries(spec, "containers")]
    kept = {key: spec[key] for key in ("nodeSelector", "priority") if key in spec}
    return {**kept, **({"containers": resources} if resources else {})}


def _is_unplaced(body: Body) -> bool:
    scheduled = first(entries(body, "status", "conditions"), type="PodScheduled")
    is_leaving = "deletionTimestamp" in body["metadata"]
    return scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable" and not is_leaving


_KEEP: dict[kinds.Kind, Callable[[Body], dict[str, Any]]] = {
    kinds.GPT_SERVICE: _own,
    kinds.GPT_MODEL: _own,
    kinds.POD: _pod,
}
