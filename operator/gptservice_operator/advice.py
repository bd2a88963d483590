"""Warnings: what a service asks for and does not get in this version, though it is served."""

from collections.abc import Iterator, Mapping
from typing import Any

from . import names, parse
from .api import v1
from .api.body import section

_TAKEN_OVER = ("podLabels", "podAnnotations", "service.annotations")
_MAX_LISTED = 5


def of_service(body: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each thing in a service's own spec that has no effect."""
    spec = section(body, "spec")
    for path in _TAKEN_OVER:
        for key in section(spec, *path.split(".")):
            if names.is_reserved(key):
                yield f"spec.{path}[{key}] is left out: the key is reserved"
    unknown = parse.unknown_fields(body)
    for path in unknown[:_MAX_LISTED]:
        yield f"{path} is not known to this version of the operator"
    if len(unknown) > _MAX_LISTED:
        yield f"{len(unknown) - _MAX_LISTED} further fields are not known to this version of the operator"


def of_scaling(spec: v1.GPTServiceSpec) -> Iterator[str]:
    """Yield a sentence where the number of replicas is the autoscaler's, and another was written.

    The schema's own 1 cannot be told from one that was written, so that it is never warned of.
    """
    scaling = spec.autoscaling
    if scaling is None or spec.replicas <= 1 or scaling.least_replicas <= spec.replicas <= scaling.max_replicas:
        return
    bounds = f"{scaling.least_replicas} to {scaling.max_replicas}"
    yield f"spec.replicas: {spec.replicas} is outside of what spec.autoscaling allows ({bounds}) and is ignored"
