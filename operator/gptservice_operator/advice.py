"""Warnings: what a service asks for and does not get in this version, though it is served."""

from collections.abc import Iterator, Mapping
from typing import Any

from . import names, parse
from .api import schema

NO_EFFECT: tuple[str, ...] = (
    "auth",
    "autoscaling",
    "cache",
    "decryptionKeySecretRef",
    "disruptionBudget",
    "huggingFaceTokenSecretRef",
    "modelCredentialsSecretRef",
    "modelDigest",
    "monitoring",
    "networkPolicy",
    "rollout.autoRollback",
    "rollout.readyLatencyMilliseconds",
    "rollout.surgeWaitSeconds",
    "tls",
    "tracing",
)
"""Fields of a GPTService that are accepted and checked, and do nothing yet. Whoever gives one its effect takes it out."""

NO_EFFECT_IN_MODEL: tuple[str, ...] = ("digest", "tokenSecretRef")
"""The same of a GPTModel."""

_TAKEN_OVER = ("podLabels", "podAnnotations", "service.annotations")
_MAX_LISTED = 5


def of_service(body: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each thing in a service's own spec that has no effect."""
    spec = body.get("spec") or {}
    for path in NO_EFFECT:
        if schema.has(spec, path):
            yield f"spec.{path} has no effect in this version"
    for path in _TAKEN_OVER:
        for key in _at(spec, path):
            if names.is_reserved(key):
                yield f"spec.{path}[{key}] is left out: the key is reserved"
    unknown = parse.unknown_fields(body)
    for path in unknown[:_MAX_LISTED]:
        yield f"{path} is not known to this version of the operator"
    if len(unknown) > _MAX_LISTED:
        yield f"{len(unknown) - _MAX_LISTED} further fields are not known to this version of the operator"


def of_model(name: str, body: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each thing in a catalogue entry that has no effect."""
    spec = body.get("spec") or {}
    for path in NO_EFFECT_IN_MODEL:
        if schema.has(spec, path):
            yield f"GPTModel {name}: spec.{path} has no effect in this version"


def _at(spec: Mapping[str, Any], path: str) -> Mapping[str, Any]:
    value: Any = spec
    for part in path.split("."):
        value = value.get(part) or {}
    return value  # type: ignore[no-any-return]  # it was parsed
