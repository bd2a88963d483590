"""From a stored object to its parsed spec, or to a refusal that names the fields."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from . import names
from .api import conditions, schema, v1
from .api.problems import explain
from .render.resolved import Refusal


def parse(body: Mapping[str, Any]) -> v1.GPTServiceSpec | Refusal:
    """Parse a stored object's spec; the cluster's CRD may be older than this operator and let more through."""
    if len(body["metadata"]["name"]) > names.MAX_SERVICE_NAME:
        what = f"metadata.name: must be no more than {names.MAX_SERVICE_NAME} characters: it becomes a label"
        return Refusal(conditions.INVALID_SPEC, conditions.INVALID_SPEC.message(what))
    spec = body.get("spec")
    try:
        return v1.GPTServiceSpec.model_validate({} if spec is None else spec)
    except ValidationError as error:
        return Refusal(conditions.INVALID_SPEC, conditions.INVALID_SPEC.message(explain(error, "spec")))


def unknown_fields(body: Mapping[str, Any]) -> list[str]:
    """Return the paths of a GPTService's spec fields that this operator does not know: the CRD is newer than it is."""
    return list(schema.unknown(schema.spec_schemas()["GPTService"], body.get("spec"), "spec"))
