"""Waiting for parts of a cluster, with an error that says what it waited for and what the part last said."""

import time
from collections.abc import Callable
from pathlib import Path

from e2e.cluster import processes, rest


class NotReadyError(Exception):
    """A part did not become ready in time, or its process ended."""


def wait(
    what: str,
    probe: Callable[[], bool],
    *,
    seconds: float,
    process: processes.Process | None = None,
    log: Path | None = None,
    interval_seconds: float = 0.1,
) -> None:
    """Calls `probe` until it is true; an OSError or ApiError counts as "not yet".

    Raises NotReadyError at once when `process` ends, and after `seconds`; the end of `log` goes into its message.
    """
    deadline = time.monotonic() + seconds
    last = "no answer yet"
    while time.monotonic() < deadline:
        try:
            if probe():
                return
            last = "not yet"
        except (OSError, rest.ApiError) as error:
            last = str(error)
        if process and not processes.alive(process):
            raise NotReadyError(f"{what} ended while it was waited for{_end_of(log)}")
        time.sleep(interval_seconds)
    raise NotReadyError(f"{what} not ready after {seconds:.0f} s; last: {last}{_end_of(log)}")


def api_ready(api: rest.ApiClient) -> bool:
    """Whether the API server says it is ready, default roles included."""
    return api.text("/readyz") == "ok"


def nodes_ready(api: rest.ApiClient, count: int) -> bool:
    """Whether there are `count` nodes and all are Ready."""
    items = api.get("/api/v1/nodes")["items"]
    return len(items) >= count and all(is_ready(item) for item in items)


def allocatable(api: rest.ApiClient, node: str, resource: str) -> int:
    """How much of a countable resource a node offers."""
    return int(api.get(f"/api/v1/nodes/{node}")["status"].get("allocatable", {}).get(resource, 0))


def default_account(api: rest.ApiClient) -> bool:
    """Whether pods can be created in the namespace `default`: its service account is made in the background."""
    return api.exists("/api/v1/namespaces/default/serviceaccounts/default")


def _end_of(log: Path | None) -> str:
    return f"\n{log} ends with:\n{processes.log_tail(log)}" if log else ""


def is_ready(node: rest.Object) -> bool:
    """Whether a Node object is Ready."""
    conditions: list[dict[str, str]] = node.get("status", {}).get("conditions") or []
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
