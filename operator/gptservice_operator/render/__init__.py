"""Desired manifests: pure functions of what was resolved, one module per kind of child."""

from typing import Any

from . import config_map, deployment, hpa, service
from .resolved import Resolved

Manifest = dict[str, Any]


def render(resolved: Resolved) -> list[Manifest]:
    """Return the manifest of every child that is asked for, in the order in which a pass writes them."""
    rendered = (
        config_map.render_config_map(resolved),
        deployment.render_deployment(resolved),
        service.render_service(resolved),
        hpa.render_hpa(resolved),
    )
    return [manifest for manifest in rendered if manifest is not None]
