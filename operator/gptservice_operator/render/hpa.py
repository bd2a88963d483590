"""The HorizontalPodAutoscaler: it alone writes the number of replicas while there is one."""

from typing import Any

from gptservice_operator import names
from gptservice_operator.api import kinds
from gptservice_operator.api.autoscaling import Autoscaling, Behavior, Metric, ScalingRules

from .resolved import Resolved

DEFAULT_CPU_UTILIZATION = 80
"""Percent of the requested CPU to hold on average where no metric is given."""

# What the API server would set where one direction or part is left out. Rendered in full, so that it is ours to prune;
# but for the window of scaling down, whose default is an option of the controller's.
_UP: dict[str, Any] = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
_DOWN: dict[str, Any] = {
    "selectPolicy": "Max",
    "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
}


def render_hpa(resolved: Resolved) -> dict[str, Any] | None:
    """Return the HorizontalPodAutoscaler; None without autoscaling, and for a stopped service."""
    scaling = resolved.autoscaling
    if scaling is None:
        return None
    target = {
        "apiVersion": kinds.DEPLOYMENT.api_version,
        "kind": kinds.DEPLOYMENT.name,
        "name": names.deployment(resolved.name),
    }
    return {
        "apiVersion": kinds.HPA.api_version,
        "kind": kinds.HPA.name,
        "metadata": resolved.metadata(names.hpa(resolved.name)),
        "spec": {
            "scaleTargetRef": target,
            "minReplicas": scaling.least_replicas,
            "maxReplicas": scaling.max_replicas,
            "metrics": _metrics(scaling),
            "behavior": _behavior(scaling.behavior or Behavior()),
        },
    }


def _metrics(scaling: Autoscaling) -> list[dict[str, Any]]:
    default = Metric.model_validate({"type": "CPU", "averageUtilization": DEFAULT_CPU_UTILIZATION})
    return [_metric(metric) for metric in scaling.metrics or [default]]


def _metric(metric: Metric) -> dict[str, Any]:
    if metric.type == "CPU":
        target = {"type": "Utilization", "averageUtilization": metric.average_utilization}
        return {"type": "Resource", "resource": {"name": "cpu", "target": target}}
    target = {"type": "AverageValue", "averageValue": metric.average_value}
    return {"type": "Pods", "pods": {"metric": {"name": metric.name}, "target": target}}


def _behavior(behavior: Behavior) -> dict[str, Any]:
    return {"scaleUp": {**_UP, **_rules(behavior.scale_up)}, "scaleDown": {**_DOWN, **_rules(behavior.scale_down)}}


def _rules(rules: ScalingRules | None) -> dict[str, Any]:
    return {} if rules is None else rules.model_dump(by_alias=True, exclude_none=True)
