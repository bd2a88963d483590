"""The Prometheus operator's PodMonitor of the pods."""

from typing import Any

from gptservice_operator import names
from gptservice_runtime import contract

from .resolved import Resolved

PROBES_PORT_NAME = "probes"
"""Name of the pods' port that is plain HTTP; the serving port has no metrics."""


def render_pod_monitor(resolved: Resolved) -> dict[str, Any] | None:
    """Return the PodMonitor, or None where it is switched off or the cluster has no such kind."""
    if not resolved.companions.has_pod_monitor:
        return None
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PodMonitor",
        "metadata": resolved.metadata(names.pod_monitor(resolved.name)),
        "spec": {
            "selector": {"matchLabels": names.selector(resolved.name)},
            # vLLM's metrics name the model and not the service: dashboards and alerts go by the label gptservice_name.
            "podTargetLabels": [names.SERVICE_LABEL],
            "podMetricsEndpoints": [{"port": PROBES_PORT_NAME, "path": contract.METRICS_PATH}],
        },
    }
