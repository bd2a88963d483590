"""What the pods have fetched, as their init containers say."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from . import names, pod_state
from .api.body import Body, entries, first, section
from .render.fetch_container import FETCH_CONTAINER

_TOLD = ("revision", "digest")


def effective(decided: Mapping[str, Any], pods: Sequence[Body], key: str, before: Body) -> dict[str, Any]:
    """Return ``status.effective`` with the model's revision and digest, where a pod has told them.

    Args:
        decided: what the layers came to when the revision was made.
        pods: the service's.
        key: the revision's.
        before: what ``status.effective`` says now: without pods, what they said stays true of the same model.
    """
    newest = max(_results(pods, key), key=lambda result: str(result["at"]), default=None)
    told = newest or (before if before.get("uri") == decided.get("uri") else {})
    return {**decided, **{field: told[field] for field in _TOLD if isinstance(told.get(field), str)}}


def disagreement(pods: Sequence[Body], key: str) -> Iterator[str]:
    """Yield the warning that pods of one revision of the service serve different revisions of the model."""
    found = sorted({str(result["revision"]) for result in _results(pods, key) if result.get("revision")})
    if len(found) > 1:
        listed = ", ".join(found)
        yield (
            f"pods serve different revisions of the model ({listed}), since it has changed at its source: write the "
            "uri with @commit or @sha256:…, or give what changed a path of its own, or make all pods anew with "
            "`kubectl rollout restart` of the Deployment"
        )


def _results(pods: Sequence[Body], key: str) -> Iterator[dict[str, Any]]:
    for pod in pods:
        if section(pod, "metadata", "labels").get(names.REVISION) != key:
            continue
        if pod_state.is_leaving(pod) or pod_state.has_failed(pod):
            continue
        container = first(entries(pod, "status", "initContainerStatuses"), name=FETCH_CONTAINER)
        ended = section(container, "state", "terminated")
        if ended.get("exitCode") != 0:
            continue
        try:
            told = json.loads(ended.get("message") or "")
        except ValueError:
            continue
        if isinstance(told, dict):
            yield {**told, "at": ended.get("finishedAt")}
