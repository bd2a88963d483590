"""Desired manifests: pure functions of what was resolved, one module per kind of child."""

from typing import Any

from . import (
    certificate,
    config_map,
    deployment,
    disruption_budget,
    hpa,
    network_policy,
    persistent_volume_claim,
    pod_monitor,
    pods_service,
    service,
    service_account,
)
from .resolved import Resolved

Manifest = dict[str, Any]


def render(resolved: Resolved) -> list[Manifest]:
    """Return the manifest of every child that is wanted, in the order in which a pass writes them."""
    wanted = (
        service_account.render_service_account(resolved),
        persistent_volume_claim.render_persistent_volume_claim(resolved),
        config_map.render_config_map(resolved),
        certificate.render_certificate(resolved),
        deployment.render_deployment(resolved),
        service.render_service(resolved),
        pods_service.render_pods_service(resolved),
        hpa.render_hpa(resolved),
        disruption_budget.render_disruption_budget(resolved),
        network_policy.render_network_policy(resolved),
        pod_monitor.render_pod_monitor(resolved),
    )
    return [manifest for manifest in wanted if manifest is not None]
