"""What one Kubernetes API request is about, read from its method, path, query and content type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

READ_VERBS = frozenset({"get", "list", "watch"})
WRITE_VERBS = frozenset({"apply", "patch", "create", "update", "delete", "deletecollection", "status"})

_METHOD_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})


@dataclass(frozen=True, kw_only=True)
class Target:
    """One request's verb and object.

    `verb` is Kubernetes' own, with two refinements: a server-side apply is `apply` and any write to the
    status subresource is `status`. `resource` is the plural name, empty for paths that are not objects
    (`/healthz`, discovery).
    """

    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def is_write(self) -> bool:
        return self.verb in WRITE_VERBS


def classify(*, method: str, path: str, query: Mapping[str, str], content_type: str = "") -> Target:
    """Read a request line into a Target; never fails, an unknown path has an empty resource."""
    parts = [part for part in path.split("/") if part]
    group, version, rest = _split_group(parts)
    namespace, resource, name, subresource = _split_object(rest)
    return Target(
        verb=_verb(method, name=name, subresource=subresource, query=query, content_type=content_type),
        group=group,
        version=version,
        resource=resource,
        namespace=namespace,
        name=name,
        subresource=subresource,
    )


def _split_group(parts: list[str]) -> tuple[str, str, list[str]]:
    if len(parts) >= 2 and parts[0] == "api":
        return "", parts[1], parts[2:]
    if len(parts) >= 3 and parts[0] == "apis":
        return parts[1], parts[2], parts[3:]
    return "", "", []


def _split_object(rest: list[str]) -> tuple[str, str, str, str]:
    """Namespace, resource, name and subresource of the part of a path behind its group and version."""
    namespace = ""
    if len(rest) >= 3 and rest[0] == "namespaces" and rest[2] not in _NAMESPACE_SUBRESOURCES:
        namespace, rest = rest[1], rest[2:]
    resource, name, subresource = [*rest, "", "", ""][:3]
    return namespace, resource, name, subresource


def _verb(method: str, *, name: str, subresource: str, query: Mapping[str, str], content_type: str) -> str:
    if method in ("GET", "HEAD"):
        if query.get("watch", "").lower() in ("true", "1"):
            return "watch"
        return "get" if name else "list"
    if subresource == "status":
        return "status"
    if method == "PATCH" and content_type.startswith("application/apply-patch"):
        return "apply"
    if method == "DELETE" and not name:
        return "deletecollection"
    return _METHOD_VERBS.get(method, method.lower())
