"""Names, labels, annotation keys, selectors and owner references: the only module that makes them."""

import hashlib
import json
import re
from collections.abc import Iterable
from typing import Any

from .api import kinds, v1
from .api.body import Body, entries

MANAGER = "gptservice-operator"
"""Field manager of everything that the operator applies, and value of the managed-by label."""

REPLICAS_MANAGER = f"{MANAGER}-replicas"
"""Field manager of a replica count that is handed over to an autoscaler."""

APPLIED_HASH = f"{kinds.GROUP}/applied-hash"
"""Annotation of a child: hash of the manifest that was last applied."""

REVISION = f"{kinds.GROUP}/revision"
"""Label of a pod, a pod template and a ControllerRevision: the key of the revision."""

RERENDER = f"{kinds.GROUP}/rerender"
"""Annotation of a GPTService: another value has its pod template rendered anew."""

RETRY = f"{kinds.GROUP}/retry"
"""Annotation of a GPTService: another value has a revision tried again that was rolled back."""

FAILED = f"{kinds.GROUP}/failed"
"""Mark of a ControllerRevision: why it was rolled back."""

RETRY_SEEN = f"{kinds.GROUP}/retry-seen"
"""Mark of a ControllerRevision: the value that the annotation of a retry had when it failed."""

SWITCHED = f"{kinds.GROUP}/switched"
"""Mark of a ControllerRevision: since when its rollout, or its rollback, takes an old pod away first; RFC 3339."""

HELD = f"{kinds.GROUP}/held"
"""Mark of a ControllerRevision: how many of the service's pods had a node when an old one was first taken away."""

FREEING = f"{kinds.GROUP}/freeing"
"""Mark of a ControllerRevision: until when pods that are being deleted may hold what a new one waits for; RFC 3339."""

TRIED = f"{kinds.GROUP}/tried"
"""Mark of a ControllerRevision: when it was given another try; what failed before does not count. RFC 3339."""

OUTAGE = f"{kinds.GROUP}/outage"
"""Mark of a ControllerRevision: from when to when nothing served after it failed, as an interval of ISO 8601."""

GPU_UNHEALTHY = f"{kinds.GROUP}/gpu-unhealthy"
"""Mark of a ControllerRevision: the UID of the pod that was last deleted for its GPU, and when, with a / between."""

MARKS: tuple[str, ...] = (FAILED, RETRY_SEEN, SWITCHED, HELD, FREEING, TRIED, OUTAGE, GPU_UNHEALTHY)
"""Annotations of a ControllerRevision that say what became of it."""

KEY_SECRET = f"{kinds.GROUP}/key-secret"
"""Annotation of the Deployment: name of the Secret with the generated API key, which was made before it."""

FINALIZER = f"{kinds.GROUP}/unused"
"""A name that nobody sets; kopf would otherwise strip its default finalizer from other operators' objects."""

SERVICE_LABEL = "gptservice-name"
LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
PRIORITY_ANNOTATION = "inference.ai/priority"
"""Annotation of the pods: the service's priority in lower case."""

LABEL_INSTANCE = "app.kubernetes.io/instance"
WATCH_SELECTOR = f"{LABEL_MANAGED_BY}={MANAGER}"

_RESERVED_DOMAINS = (
    f"{kinds.GROUP}/",
    "inference.ai/",
    "argocd.argoproj.io/",
    "kubectl.kubernetes.io/",
    "deployment.kubernetes.io/",
)
_RESERVED_LABELS = frozenset(
    {"app.kubernetes.io/name", LABEL_MANAGED_BY, LABEL_INSTANCE, SERVICE_LABEL, "pod-template-hash"}
)

_DNS_LABEL = re.compile(r"^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$")
_SUFFIX_ROOM = len("-xxxxxxxx")
_LIMIT = 63

MAX_SERVICE_NAME = v1.MAX_NAME
"""Longest name of a GPTService: it is a label's value."""


def _shortened(name: str, limit: int) -> str:
    """Return a DNS label for any legal object name: readable, and unlike that of every other name."""
    digest = hashlib.sha256(name.encode()).hexdigest()[: _SUFFIX_ROOM - 1]
    readable = re.sub(r"[^a-z0-9-]", "-", name)
    readable = readable if readable[0].isalpha() else f"g{readable}"
    return f"{readable[: limit - _SUFFIX_ROOM].rstrip('-')}-{digest}"


def child(service_name: str, suffix: str = "") -> str:
    """Return the name of a child: the service's own name where that is a DNS label with room for ``suffix``."""
    limit = _LIMIT - len(suffix)
    legal = _DNS_LABEL.match(service_name) and len(service_name) <= limit
    return (service_name if legal else _shortened(service_name, limit)) + suffix


def deployment(service_name: str) -> str:
    """Return the Deployment's name; pods get up to 17 further characters from Kubernetes."""
    return child(service_name)


def hpa(service_name: str) -> str:
    """Return the HorizontalPodAutoscaler's name."""
    return child(service_name)


def k8s_service(service_name: str) -> str:
    """Return the Kubernetes Service's name."""
    return child(service_name)


def pods_service(service_name: str) -> str:
    """Return the name of the headless Service, by which clients find the single pods."""
    return child(service_name, "-pods")


def service_account(service_name: str) -> str:
    """Return the name of the pods' own ServiceAccount; with a suffix, since every namespace has one called default."""
    return child(service_name, "-pods")


def disruption_budget(service_name: str) -> str:
    """Return the PodDisruptionBudget's name."""
    return child(service_name)


def network_policy(service_name: str) -> str:
    """Return the NetworkPolicy's name."""
    return child(service_name)


def certificate(service_name: str) -> str:
    """Return the Certificate's name."""
    return child(service_name)


def certificate_secret(service_name: str, uid: str) -> str:
    """Return the name of the Secret into which the certificate is issued.

    It holds part of the GPTService's UID: cert-manager writes over whatever Secret has the name.
    """
    return child(service_name, f"-tls-{uid[:8]}")


def former_certificate_secret(service_name: str) -> str:
    """Return the name that this Secret had in version 0.1, which pods made then still mount."""
    return child(service_name, "-tls")


def pod_monitor(service_name: str) -> str:
    """Return the PodMonitor's name."""
    return child(service_name)


def cache_claim(service_name: str, storage_class: str | None, access_modes: Iterable[str]) -> str:
    """Return the name of the cache's claim. What cannot be changed in a claim is in its name: other values, another."""
    fixed = json.dumps([storage_class, sorted(access_modes)])
    return child(service_name, f"-cache-{hashlib.sha256(fixed.encode()).hexdigest()[:8]}")


def controller_revision(service_name: str, key: str) -> str:
    """Return the name of the ControllerRevision that keeps the revision of this key."""
    return child(service_name, f"-{key}")


def limits_config_map(service_name: str) -> str:
    """Return the name of the ConfigMap with the live limits."""
    return child(service_name, "-limits")


def key_secret(service_name: str, uid: str) -> str:
    """Return the name of the Secret with the generated API key.

    It holds part of the GPTService's UID: the key of one that was deleted never opens its successor of the same name.
    """
    return child(service_name, f"-key-{uid[:8]}")


def selector(service_name: str) -> dict[str, str]:
    """Return the pods' selector. It never changes: a Deployment's selector is immutable."""
    return {"app.kubernetes.io/name": "gptservice", SERVICE_LABEL: service_name}


def labels(service_name: str) -> dict[str, str]:
    """Return the labels of every child and pod. Nothing of the user's own labels is copied.

    ``app.kubernetes.io/instance`` is left out on purpose: Argo CD tracks by it, and would take a child for a resource
    of an application that has the service's name.
    """
    return {**selector(service_name), LABEL_MANAGED_BY: MANAGER}


def is_reserved(key: str) -> bool:
    """Return whether a label or annotation is never taken over from a user: ours, kubectl's or Argo CD's."""
    return key in _RESERVED_LABELS or key.startswith(_RESERVED_DOMAINS)


def selector_text(service_name: str) -> str:
    """Return the selector in the form of ``kubectl -l`` and of the scale subresource."""
    return ",".join(f"{key}={value}" for key, value in sorted(selector(service_name).items()))


def owner_reference(service_name: str, uid: str) -> dict[str, Any]:
    """Return the reference through which Kubernetes deletes a child with its GPTService."""
    return {
        "apiVersion": kinds.API_VERSION,
        "kind": kinds.GPT_SERVICE.name,
        "name": service_name,
        "uid": uid,
        "controller": True,
    }


def controller_uid(metadata: Body) -> str | None:
    """Return the UID of the object's controller, if it has one."""
    for reference in entries(metadata, "ownerReferences"):
        if reference.get("controller"):
            return str(reference.get("uid"))
    return None
