"""What tests of rollouts do and look at: specs that fail or find no room, and how the Deployment stands."""

from __future__ import annotations

import json
from typing import Any

from e2e.api.state import Observer, holds, revision_of
from e2e.cluster.simulation import PRODUCTS
from e2e.kube import Kube, Object, wait_until

GPUS = 64
"""Of each simulated node that has any."""
RETRY = "ai.example.com/retry"
GAVE_UP = {"reason": "ModelLoadFailed", "message": "ValueError: these weights are broken", "phase": "load"}
FAILING = [{"name": "E2E_MODE", "value": "crash"}, {"name": "E2E_MESSAGE", "value": json.dumps(GAVE_UP)}]
WHOLE_NODE = {"count": GPUS, "product": PRODUCTS[0]}
MORE_THAN_HALF = {**WHOLE_NODE, "count": GPUS // 2 + 1}


def wait_running(observer: Observer, accepts: Any, what: str) -> str:
    """Wait until the Deployment runs a revision whose key is accepted, and return it."""
    found = wait_until(lambda: str(revision_of(observer.child("Deployment"))), accepts, what)
    return str(found)


def generation(observer: Observer) -> int:
    """How often the Deployment's spec has been written."""
    return int(observer.child("Deployment")["metadata"]["generation"])


def wait_tried(observer: Observer, since: int, back_to: str) -> None:
    """Wait until the Deployment was given another revision, and this one again; `since`: its generation before.

    The other one may be there for so short a time that nobody who looks now and then sees it.
    """

    def state() -> tuple[int, str]:
        deployment = observer.child("Deployment")
        return int(deployment["metadata"]["generation"]), str(revision_of(deployment))

    wait_until(state, lambda now: now[0] >= since + 2 and now[1] == back_to, "another try, and the way back")


def wait_reason(observer: Observer, reason: str) -> Object:
    return observer.wait(lambda o: holds(o, "Ready", "False", reason), reason)


def strategy(observer: Observer) -> tuple[Any, Any]:
    """maxSurge and maxUnavailable."""
    found = observer.child("Deployment")["spec"]["strategy"]["rollingUpdate"]
    return found["maxSurge"], found["maxUnavailable"]


def uids(observer: Observer) -> set[str]:
    return {str(pod["metadata"]["uid"]) for pod in observer.pods()}


def annotate(kube: Kube, namespace: str, value: str) -> None:
    """Ask for a retry, as a user does."""
    kube.merge("GPTService", "gpt", namespace, {"metadata": {"annotations": {RETRY: value}}})


def marks(observer: Observer) -> set[str]:
    """What is kept of what became of the service's revisions."""
    kept = [name for one in observer.revisions() for name in one["metadata"].get("annotations", {})]
    return {name.removeprefix("ai.example.com/") for name in kept} - {"applied-hash"}
