"""The Deployment that runs the pods."""

from collections.abc import Mapping
from typing import Any

from gptservice_operator import names

from .resolved import Resolved

PROGRESS_MARGIN_SECONDS = 120
"""What image pull and scheduling may take on top of the start-up budget before the Deployment calls it stuck."""


def render_deployment(resolved: Resolved, template: Mapping[str, Any]) -> dict[str, Any]:
    """Return the Deployment. Blocks that can be switched are rendered in full, so that they are ours to prune.

    The template is the revision's, as it was kept; all the rest follows the current spec.
    """
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(resolved),
        "spec": {
            # Under autoscaling it has another writer: whoever sends it here would undo what that one has set.
            **({} if resolved.autoscaling is not None else {"replicas": resolved.replicas}),
            "selector": {"matchLabels": names.selector(resolved.name)},
            "strategy": _strategy(resolved),
            "progressDeadlineSeconds": resolved.startup_timeout_seconds + PROGRESS_MARGIN_SECONDS,
            "revisionHistoryLimit": 5,
            "template": template,
        },
    }


def _metadata(resolved: Resolved) -> dict[str, Any]:
    metadata = resolved.metadata(names.deployment(resolved.name))
    if resolved.api_keys is not None and resolved.api_keys.generated:
        # The proof that the Secret was made: nothing may read Secrets to find out.
        metadata["annotations"] = {names.KEY_SECRET: resolved.api_keys.secret}
    return metadata


def _strategy(resolved: Resolved) -> dict[str, Any]:
    # Kubernetes never scales a Recreate Deployment that has pods of two revisions: stopped, it would go on for ever.
    if resolved.rollout.strategy == "Recreate" and resolved.replicas > 0:
        return {"type": "Recreate"}
    bounds = {"maxSurge": resolved.rollout.max_surge, "maxUnavailable": resolved.rollout.max_unavailable}
    return {"type": "RollingUpdate", "rollingUpdate": bounds}
