"""The ControllerRevision that keeps a pod template, and what has to be known about it."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, cast

from gptservice_operator import names
from gptservice_operator.api.body import Body, entries, section

from . import pod
from .resolved import Resolved

MAX_WITH_PATCH = 1_000_000
"""Bytes from which on the patch is left out: what the API server can store has an end, and pods come first."""


_UNMARKED: Mapping[str, str] = {}


def render_data(resolved: Resolved) -> dict[str, Any]:
    """Return what a new revision keeps: the template, and what a service goes on by once the catalogue has changed."""
    template, origin = pod.render_pod_template(resolved), resolved.origin
    data: dict[str, Any] = {
        "template": template,
        "effective": effective(resolved),
        "image": resolved.image,
        "references": references(template),
        **{
            name: value for name, value in (("model", origin.model), ("rerender", origin.rerender)) if value is not None
        },
    }
    with_patch = {**data, "patch": origin.patch}
    return with_patch if len(json.dumps(with_patch, ensure_ascii=False).encode()) <= MAX_WITH_PATCH else data


def render_controller_revision(
    resolved: Resolved,
    data: Mapping[str, Any],
    number: int,
    *,
    key: str | None = None,
    marks: Mapping[str, str] = _UNMARKED,
) -> dict[str, Any]:
    """Return the ControllerRevision; its ``data`` never differs for a name, as the API server allows no change.

    Args:
        resolved: the service.
        data: what the revision keeps.
        number: Kubernetes' ``revision``.
        key: the revision's, if it is not the one of the spec.
        marks: annotations that say what became of it. Each apply repeats them, or it would take them away.
    """
    key = key or resolved.origin.key
    metadata = resolved.metadata(names.controller_revision(resolved.name, key))
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            **metadata,
            "labels": {**metadata["labels"], names.REVISION: key},
            **({"annotations": dict(marks)} if marks else {}),
        },
        "data": data,
        "revision": number,
    }


def effective(resolved: Resolved) -> dict[str, Any]:
    """Return what the layers come to, as ``status.effective`` shows it."""
    arguments = json.dumps(resolved.engine_args).encode()
    return {
        "uri": resolved.source.uri,
        "image": resolved.image,
        "gpuCount": resolved.gpu.count,
        "gpuResourceName": resolved.gpu.resource_name,
        "servedModelNames": list(resolved.served_model_names),
        "argsHash": hashlib.sha256(arguments).hexdigest()[:16],
    }


def references(template: Body) -> list[dict[str, str]]:
    """Return kind and name of every object in the namespace that pods of the template use."""
    spec = section(template, "spec")
    named = [
        ("ServiceAccount", str(spec.get("serviceAccountName") or "default")),
        *(("Secret", str(secret.get("name"))) for secret in entries(spec, "imagePullSecrets")),
        *_sources(spec),
    ]
    return [{"kind": kind, "name": name} for kind, name in sorted(set(named))]


_SOURCES = {
    "configMap": "ConfigMap",
    "configMapKeyRef": "ConfigMap",
    "persistentVolumeClaim": "PersistentVolumeClaim",
    "secret": "Secret",
    "secretKeyRef": "Secret",
}
"""By the field of a volume or variable that names an object: its kind."""


def _sources(part: Any) -> Iterator[tuple[str, str]]:
    if isinstance(part, list):
        for item in part:  # pyright: ignore[reportUnknownVariableType]
            yield from _sources(item)
    if isinstance(part, dict):
        for field, inner in cast("dict[str, Any]", part).items():
            if field in _SOURCES and isinstance(inner, dict):
                source = cast("dict[str, Any]", inner)
                yield _SOURCES[field], str(source.get("name") or source.get("secretName") or source.get("claimName"))
            else:
                yield from _sources(inner)
