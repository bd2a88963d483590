"""Desired manifests: pure functions of what was resolved, one module per kind of child."""

from collections.abc import Mapping
from typing import Any

from . import config_map, controller_revision, deployment, hpa, service
from .resolved import Resolved

Manifest = dict[str, Any]


def render(resolved: Resolved, kept: Mapping[str, Any] | None = None, number: int = 1) -> list[Manifest]:
    """Return the manifest of every child that is asked for, in the order in which a pass writes them.

    Args:
        resolved: the service.
        kept: what its revision keeps; None renders a new one.
        number: the revision's number.
    """
    revision = controller_revision.render_data(resolved) if kept is None else kept
    rendered = (
        config_map.render_config_map(resolved),
        controller_revision.render_controller_revision(resolved, revision, number),
        deployment.render_deployment(resolved, revision["template"]),
        service.render_service(resolved),
        hpa.render_hpa(resolved),
    )
    return [manifest for manifest in rendered if manifest is not None]
