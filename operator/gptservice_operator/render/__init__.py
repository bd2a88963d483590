"""Desired manifests: pure functions of what was resolved, one module per kind of child."""

from typing import Any

from . import config_map, deployment, service
from .resolved import Resolved

Manifest = dict[str, Any]


def render(resolved: Resolved) -> list[Manifest]:
    """Return every child's manifest, in the order in which a pass writes them."""
    return [
        config_map.render_config_map(resolved),
        deployment.render_deployment(resolved),
        service.render_service(resolved),
    ]
