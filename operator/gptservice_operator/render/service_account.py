"""The pods' own ServiceAccount."""

from typing import Any

from gptservice_operator import names

from .resolved import Resolved


def render_service_account(resolved: Resolved) -> dict[str, Any] | None:
    """Return the account, or None where the user names one: pods share no account, and none gets a token."""
    if not resolved.companions.makes_service_account:
        return None
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": resolved.metadata(names.service_account(resolved.name)),
        "automountServiceAccountToken": False,
    }
