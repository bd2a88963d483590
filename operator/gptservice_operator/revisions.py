"""Revisions of a service's pods: what tells them apart, what is kept of each, and for how long.

A pod template is rendered once per key and kept in a ControllerRevision; from then on it is applied as it was kept,
whatever a later operator, configuration or catalogue would make of the same spec. So an upgrade of the operator rolls
nothing, and going back to an earlier spec brings back exactly the earlier pods.
"""

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from . import names
from .api import kinds
from .api.body import Body, section
from .store import Observed

POD_SHAPING: tuple[str, ...] = (
    "model",
    "modelRef",
    "servedModelNames",
    "modelDigest",
    "maxTokens",
    "contextLength",
    "rollout.readyLatencyMilliseconds",
    "gpu",
    "resources",
    "engine",
    "auth",
    "huggingFaceTokenSecretRef",
    "modelCredentialsSecretRef",
    "decryptionKeySecretRef",
    "tls.secretName",
    "tls.issuerRef",
    "tls.clientCASecretRef",
    "cache.persistentVolumeClaim",
    "cache.size",
    "cache.storageClassName",
    "cache.accessModes",
    "scheduling",
    "podLabels",
    "podAnnotations",
    "serviceAccountName",
    "imagePullSecrets",
    "startupTimeoutSeconds",
    "drainTimeoutSeconds",
    "priority",
    "tracing",
)
"""The spec fields that reach the pod template. All others (replicas, the Service, how a change is rolled out, limits
that the pods read anew) follow the current spec and never make a revision.

A path that is added later changes no key of a service that does not use it, so that it may be added in any release.
"""

BY_PRESENCE: frozenset[str] = frozenset({"cache.size", "tls.issuerRef"})
"""Fields of which only counts whether they are there: a claim is mounted, and a certificate, whatever they say."""

STANDS_FOR_ABSENCE: Mapping[str, Any] = {
    "auth": {"apiKeys": {"generate": True}},
    "startupTimeoutSeconds": 1800,
    "drainTimeoutSeconds": 60,
}
"""Values that count as if the field were absent, so that a default which an upgraded CRD begins to fill in makes no new
key. An entry never changes, even if the API's default does: every service would roll.
"""

HISTORY = 5
"""Revisions that are kept besides those that something refers to."""

KEY_LENGTH = 12


def key(service: Body) -> str:
    """Return what tells a service's revision from others: a hash of the spec's pod-shaping fields as they are written.

    The annotation ``ai.example.com/rerender`` counts, too: another value makes a new revision of the same spec.
    """
    spec, content = section(service, "spec"), dict[str, Any]()
    for path in POD_SHAPING:
        *parents, last = path.split(".")
        value = _filled(section(spec, *parents).get(last))
        if value not in _NOTHING and value != STANDS_FOR_ABSENCE.get(path):
            content[path] = True if path in BY_PRESENCE else value
    if (asked := rerender(service)) is not None:
        content[names.RERENDER] = asked
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:KEY_LENGTH]


_NOTHING: tuple[Any, ...] = (None, {}, [])


def _filled(value: Any) -> Any:
    """Leave out a field's empty fields: they are the same as absent ones. Deeper down, emptiness can mean something."""
    if not isinstance(value, dict):
        return value
    return {name: inner for name, inner in cast("Body", value).items() if inner not in _NOTHING}


def rerender(service: Body) -> str | None:
    """Return the value of the annotation that asks for a new rendering."""
    return section(service, "metadata", "annotations").get(names.RERENDER)


def retry(service: Body) -> str | None:
    """Return the value of the annotation that asks for another try of a revision that was rolled back."""
    return section(service, "metadata", "annotations").get(names.RETRY)


def patch(service: Body) -> list[dict[str, Any]]:
    """Return a JSON patch that sets every pod-shaping top-level field to what it is now, absent ones to absent.

    Not a merge patch: that could not take away what has been added inside a field since, such as one of the podLabels.
    """
    spec = section(service, "spec")
    operations: list[dict[str, Any]] = []
    for name in dict.fromkeys(path.partition(".")[0] for path in POD_SHAPING):
        value = spec.get(name)
        operations.append({"op": "add", "path": f"/spec/{name}", "value": _PLACEHOLDER if value is None else value})
        if value is None:
            # What is not there cannot be removed; what was just added can.
            operations.append({"op": "remove", "path": f"/spec/{name}"})
    return operations


_PLACEHOLDER = "absent"


@dataclass(frozen=True, slots=True)
class Kept:
    """A revision as its ControllerRevision keeps it."""

    key: str
    name: str
    uid: str
    number: int
    """Kubernetes' ``revision``: the current one's is the highest."""
    data: dict[str, Any]
    marks: Mapping[str, str] = field(default_factory=dict[str, str])
    """Those of its annotations that say what became of it."""
    is_leaving: bool = False
    """Whether it was deleted already, and only somebody's finalizer holds it."""

    @property
    def model(self) -> dict[str, Any]:
        """Name and spec of the catalogue entry that it was rendered from; empty if it was made from none."""
        return section(self.data, "model")


def kept(children: Mapping[tuple[str, str], Observed], owner_uid: str) -> dict[str, Kept]:
    """Return the revisions that are kept for the service of this UID, by key.

    One whose content is not what we write is left out; its name is taken all the same, so that writing it fails aloud.
    """
    found: dict[str, Kept] = {}
    for (kind, name), child in children.items():
        if kind != kinds.CONTROLLER_REVISION.name or child.controller_uid != owner_uid:
            continue
        data, number = section(child.body, "data"), child.body.get("revision")
        own_key = key_of_template(section(data, "template"))
        if own_key is not None and section(data, "effective") and isinstance(number, int):
            is_leaving = "deletionTimestamp" in section(child.body, "metadata")
            found[own_key] = Kept(own_key, name, child.uid, number, data, marks(child.body), is_leaving)
    return found


def marks(revision: Body) -> dict[str, str]:
    """Return the marks of a ControllerRevision, by annotation."""
    annotations = section(revision, "metadata", "annotations")
    return {name: str(annotations[name]) for name in names.MARKS if name in annotations}


def key_of_template(template: Body) -> str | None:
    """Return the key that a pod template, or a pod, carries; None for one that no revision made."""
    label = section(template, "metadata", "labels").get(names.REVISION)
    return label if isinstance(label, str) else None


def number(known: Mapping[str, Kept], current: str) -> int:
    """Return the current revision's number: the highest, so that one that is gone back to gets a new one."""
    highest = max((revision.number for revision in known.values() if revision.key != current), default=0)
    own = known[current].number if current in known else 0
    return own if own > highest else highest + 1


def expired(known: Mapping[str, Kept], referred: Collection[str]) -> list[Kept]:
    """Return what has to go from the history, oldest first.

    Args:
        known: all revisions that are kept.
        referred: keys of those that something refers to, which stay however old they are.
    """
    staying = [one for one in known.values() if one.key not in referred and not one.is_leaving]
    free = sorted(staying, key=lambda one: one.number)
    return free[: max(0, len(free) - HISTORY)]


def catalogue(models: Mapping[str, dict[str, Any]], revision: Kept | None) -> Mapping[str, dict[str, Any]]:
    """Return the catalogue as a revision saw it: what it keeps goes before what is there now."""
    if revision is None or not revision.model:
        return models
    return {**models, revision.model["name"]: {"spec": revision.model["spec"]}}


def model_changed(models: Mapping[str, dict[str, Any]], revision: Kept) -> str | None:
    """Return the warning that the catalogue says something else than what the service runs; None if it does not."""
    if not revision.model:
        return None
    name = revision.model["name"]
    if name not in models:
        what = "was deleted"
    elif models[name].get("spec") != revision.model["spec"]:
        what = "was made again with other content"
    else:
        return None
    return f"ModelChanged: GPTModel {name} {what}; the service goes on as it was made; {_TAKE_UP}"


def renderer_outdated() -> str:
    """Return the warning that this operator would make other pods of the same spec."""
    return f"RendererOutdated: this version or configuration of the operator would make other pods; {_TAKE_UP}"


_TAKE_UP = f"to take that up, give the annotation {names.RERENDER} another value"


def unowned(template: Body) -> dict[str, Any]:
    """Return a live pod template without what others put on it by annotation, such as ``kubectl rollout restart``."""
    metadata = {name: value for name, value in section(template, "metadata").items() if value is not None}
    annotations = {
        name: value
        for name, value in section(metadata, "annotations").items()
        if not name.startswith("kubectl.kubernetes.io/")
    }
    metadata = {name: value for name, value in metadata.items() if name != "annotations"}
    return {**template, "metadata": {**metadata, **({"annotations": annotations} if annotations else {})}}
