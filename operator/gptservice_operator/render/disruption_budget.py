"""The PodDisruptionBudget of the pods."""

from typing import Any

from gptservice_operator import names

from .resolved import Resolved


def render_disruption_budget(resolved: Resolved) -> dict[str, Any] | None:
    """Return the budget, or None where it is switched off or too few replicas are guaranteed.

    A pod that does not answer may always be evicted: it protects nobody, and would block the drain of its node.
    """
    if not resolved.companions.has_disruption_budget:
        return None
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": resolved.metadata(names.disruption_budget(resolved.name)),
        "spec": {
            "maxUnavailable": 1,
            "selector": {"matchLabels": names.selector(resolved.name)},
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }
