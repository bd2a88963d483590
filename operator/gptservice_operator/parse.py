"""From a stored object to its parsed spec, or to a refusal that names the fields."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from . import names
from .api import conditions, schema, v1
from .render.resolved import Refusal

# pydantic adds the name of the union's branch to the path.
_UNION_BRANCHES = frozenset({"str", "int", "constrained-str", "constrained-int"})
_MAX_EXPLAINED = 5
_MAX_PROBLEM = 400
_MAX_PATH = 200


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


def explain(error: ValidationError, root: str) -> str:
    """Say which fields are wrong and why, as the API server would: ``spec.gpu.count: Input should be ...``."""
    by_path: dict[str, str] = {}
    for issue in error.errors(include_url=False, include_input=False):
        by_path.setdefault(_path(root, issue["loc"]), issue["msg"].removeprefix("Value error, "))
    listed = [f"{path}: {message}"[:_MAX_PROBLEM] for path, message in list(by_path.items())[:_MAX_EXPLAINED]]
    more = len(by_path) - len(listed)
    return "; ".join([*listed, *([f"and {more} more"] if more > 0 else [])])


def _path(root: str, location: tuple[int | str, ...]) -> str:
    parts = [part for part in location if part not in _UNION_BRANCHES]
    path = root + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)
    return path if len(path) <= _MAX_PATH else f"{path[: _MAX_PATH - 1]}…"


def unknown_fields(body: Mapping[str, Any]) -> list[str]:
    """Return the paths of a GPTService's spec fields that this operator does not know: the CRD is newer than it is."""
    return list(schema.unknown(schema.spec_schemas()["GPTService"], body.get("spec"), "spec"))
