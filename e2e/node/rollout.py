"""Rollouts as tests follow them: to a stable revision, through a rollback, and pod by pod while a load runs."""

from __future__ import annotations

from e2e.api.state import REVISION_LABEL, Observer, condition, holds, revision_of
from e2e.kube import Kube, Object, wait_until
from e2e.node.load import Load

# More than the drain time-out of 60 s with what comes before and after it.
_LEAVING_SECONDS = 100


def wait_stable(observer: Observer, name: str, *, timeout: float) -> str:
    """Waits until what a service runs is Ready and its stable revision, and returns the key of that.

    No other pod is left then: one that is leaving still holds its GPUs.
    """

    def is_stable(gpt: Object | None) -> bool:
        stable = (gpt or {})["status"].get("stableRevision")
        return stable is not None and _key(observer, stable) == revision_of(observer.child("Deployment", name))

    observer.wait_ready(name, timeout=timeout)
    observer.wait(is_stable, "what runs to be stable", name, timeout=timeout)
    replicas = observer.child("Deployment", name)["spec"]["replicas"]
    wait_until(lambda: _all_pods(observer, name), lambda pods: len(pods) == replicas, "no other pod", timeout=timeout)
    return str(revision_of(observer.child("Deployment", name)))


def _all_pods(observer: Observer, name: str) -> list[Object]:
    return observer.kube.all("Pod", observer.namespace, labels=f"gptservice-name={name}")


def _key(observer: Observer, revision: str) -> str:
    return str(observer.child("ControllerRevision", revision)["metadata"]["labels"][REVISION_LABEL])


def wait_rolled_back(observer: Observer, name: str, *, timeout: float) -> Object:
    """Waits until a service is rolled back and serves, and returns it."""

    def back(gpt: Object | None) -> bool:
        return holds(gpt, "Ready", "False", "RolledBack") and holds(gpt, "Available")

    return observer.wait(back, "to be rolled back, and to serve", name, timeout=timeout)


def edit_engine_under(
    load: Load, kube: Kube, observer: Observer, arguments: list[str], *, timeout: float
) -> list[float]:
    """Changes the engine's arguments as `kubectl edit` does, and returns when every old pod is gone.

    The result is the time, in seconds of the load, at which each old pod was first seen to be leaving.
    """
    old = {pod["metadata"]["uid"] for pod in observer.pods(load.name)}
    engine = observer.child("GPTService", load.name)["spec"].get("engine", {})
    kube.merge("GPTService", load.name, load.namespace, {"spec": {"engine": {**engine, "args": arguments}}})
    left = watch_leave(load, observer, old, timeout=timeout)
    observer.wait_ready(load.name, timeout=timeout)
    return left


def watch_leave(load: Load, observer: Observer, old: set[str], *, timeout: float) -> list[float]:
    """Waits until the pods of these UIDs are gone, and returns when each was first seen to be leaving."""
    left: dict[str, float] = {}

    def still_there() -> list[str]:
        found = {pod["metadata"]["uid"]: pod for pod in _all_pods(observer, load.name)}
        for uid in old - set(left):
            if uid not in found or "deletionTimestamp" in found[uid]["metadata"]:
                left[uid] = load.seconds
        if not old & set(found):
            return []
        return [*map(_described, found.values()), str(condition(observer.gpt(load.name), "Ready").get("message"))]

    wait_until(still_there, lambda names: not names, "the old pods to go", timeout=timeout + _LEAVING_SECONDS)
    return list(left.values())


def _described(pod: Object) -> str:
    """A pod in one line: what a person needs to know of it when the others did not go."""
    metadata, status = pod["metadata"], pod["status"]
    ready = next((one["status"] for one in status.get("conditions", []) if one["type"] == "Ready"), "?")
    states = {one["name"]: one.get("state") for one in status.get("containerStatuses", [])}
    leaving = f", leaving since {metadata['deletionTimestamp']}" if "deletionTimestamp" in metadata else ""
    return f"{metadata['name']}: {status.get('phase')}, ready {ready}{leaving}, {states}"
