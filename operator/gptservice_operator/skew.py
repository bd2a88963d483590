"""An operator beside an older CRD: which of its fields the API server would take away unseen."""

import logging
from dataclasses import dataclass, field
from typing import Any

from . import errors, metrics
from .api import schema
from .api.body import Body, entries, section
from .cluster import Cluster

logger = logging.getLogger(__name__)

_MAX_NAMED = 5


@dataclass(slots=True)
class Skew:
    """What the cluster's CRDs lack of the generated ones: paths such as ``spec.gpu.product``, by kind."""

    lacking: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    async def refresh(self, cluster: Cluster) -> None:
        """Read what the API server publishes. What cannot be read is no news: nothing depends on it."""
        try:
            document = await cluster.openapi()
        except errors.OperatorError as error:
            logger.warning("the cluster's schema could not be read, so it is not compared: %s", error)
            return
        found = compare(document)
        for kind, paths in found.items():
            metrics.SCHEMA_MISSING.labels(kind).set(len(paths))
        if found != self.lacking and any(found.values()):
            logger.warning(
                "SchemaOutdated: the cluster's CRDs lack %s; what is written there is lost: apply this version's CRDs",
                "; ".join(f"of {kind} {', '.join(paths)}" for kind, paths in found.items() if paths),
            )
        self.lacking = found

    def warnings(self) -> list[str]:
        """Return what each service has to be told. Which are concerned cannot be known: the field is gone."""
        paths = [path for path in self.lacking.get("GPTService", ()) if path.startswith("spec.")]
        if not paths:
            return []
        more = f" and {len(paths) - _MAX_NAMED} more" if len(paths) > _MAX_NAMED else ""
        named = ", ".join(paths[:_MAX_NAMED]) + more
        return [f"SchemaOutdated: the cluster's CRD lacks {named}, so that the API server drops these fields unseen"]

    def storable(self, status: dict[str, Any]) -> dict[str, Any]:
        """Return a status without the fields that the CRD lacks: an apply with them would be refused as a whole."""
        for path in self.lacking.get("GPTService", ()):
            root, _, rest = path.partition(".")
            if root == "status" and rest:
                status = _without(status, rest)
        return status


def compare(document: Body) -> dict[str, tuple[str, ...]]:
    """Return what the schemas of an OpenAPI document lack, by kind; a kind that it does not have is left out."""
    found: dict[str, tuple[str, ...]] = {}
    for live in section(document, "components", "schemas").values():
        for kind in (entry.get("kind") for entry in entries(live, "x-kubernetes-group-version-kind")):
            if kind in schema.schemas():
                found[str(kind)] = tuple(schema.lacking(schema.schemas()[kind], live))
    return found


def _without(value: dict[str, Any], path: str) -> dict[str, Any]:
    name, _, rest = path.partition(".")
    key, is_list = name.removesuffix("[]"), name.endswith("[]")
    if key not in value:
        return value
    if not rest:
        return {other: inner for other, inner in value.items() if other != key}
    inner = [_without(item, rest) for item in value[key]] if is_list else _without(value[key], rest)
    return {**value, key: inner}
