"""Desired manifests: pure functions of what was resolved, one module per kind of child."""

from collections.abc import Mapping
from typing import Any

from . import (
    certificate,
    config_map,
    controller_revision,
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
_UNMARKED: Mapping[str, str] = {}


def render(
    resolved: Resolved,
    kept: Mapping[str, Any] | None = None,
    number: int = 1,
    *,
    marks: Mapping[str, str] = _UNMARKED,
    runs: Mapping[str, Any] | None = None,
) -> list[Manifest]:
    """Return the manifest of every child that is wanted, in the order in which a pass writes them.

    Args:
        resolved: the service.
        kept: what its revision keeps; None renders a new one.
        number: the revision's number.
        marks: annotations of the revision that say what became of it.
        runs: what the revision keeps that is run, if it is another one.
    """
    revision = controller_revision.render_data(resolved) if kept is None else kept
    template = (runs or revision)["template"]
    wanted = (
        service_account.render_service_account(resolved),
        persistent_volume_claim.render_persistent_volume_claim(resolved),
        config_map.render_config_map(resolved),
        certificate.render_certificate(resolved),
        controller_revision.render_controller_revision(resolved, revision, number, marks=marks),
        deployment.render_deployment(resolved, template),
        service.render_service(resolved),
        pods_service.render_pods_service(resolved),
        hpa.render_hpa(resolved),
        disruption_budget.render_disruption_budget(resolved),
        network_policy.render_network_policy(resolved),
        pod_monitor.render_pod_monitor(resolved),
    )
    return [manifest for manifest in wanted if manifest is not None]
