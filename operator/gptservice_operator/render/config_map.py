"""The ConfigMap with what pods read from files: limits that change without a restart, and whom downloads trust."""

import json
from typing import Any

from gptservice_operator import names
from gptservice_runtime import contract

from .resolved import Resolved


def render_config_map(resolved: Resolved) -> dict[str, Any]:
    """Return the ConfigMap; it is there even without a limit, so that one can be set while pods run."""
    limits: dict[str, int] = {}
    if resolved.max_inflight_requests is not None:
        limits[contract.LIMITS_KEY_MAX_INFLIGHT] = resolved.max_inflight_requests
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": resolved.metadata(names.limits_config_map(resolved.name)),
        "data": {contract.LIMITS_FILE: json.dumps(limits), **_authorities(resolved)},
    }


def _authorities(resolved: Resolved) -> dict[str, str]:
    """Those of now, whatever the pods' revision is: authorities are replaced, and all downloads have to follow."""
    return {contract.CA_FILE: resolved.ca_bundle} if resolved.ca_bundle else {}
