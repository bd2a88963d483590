"""Pods whose kubelet is the test: a simulated node takes them, and what they say is written here."""

from __future__ import annotations

import datetime
import json
from typing import Any

from e2e.api.state import Observer, service
from e2e.kube import Kube, Object, wait_until

# A mode that the simulated nodes know nothing of: the pod is bound, and nothing more happens.
_ANNOTATIONS = {"e2e.example.com/mode": "by-hand"}


def by_hand(**spec: Any) -> Object:
    """A GPTService whose pods do nothing by themselves."""
    return service(podAnnotations=_ANNOTATIONS, **spec)


def the_pod(observer: Observer, *, but: frozenset[str] = frozenset()) -> Object:
    """Wait for the only pod that is bound to a node and is none of these, and return it."""

    def bound() -> list[Object]:
        return [pod for pod in observer.pods() if "nodeName" in pod["spec"] and pod["metadata"]["name"] not in but]

    return wait_until(bound, lambda found: len(found) == 1, "the one pod")[0]


def load(kube: Kube, pod: Object, *, restarts: int = 0) -> None:
    """Its engine runs and is not ready."""
    _tell(kube, pod, _engine(pod, restarts, state={"running": {"startedAt": _now()}}), ready=False)


def serve(kube: Kube, pod: Object, *, restarts: int = 0, message: str = "") -> None:
    """Its engine is ready; it ended that often before, the last time with this termination message."""
    last = {"terminated": _end(message)} if restarts else {}
    _tell(
        kube, pod, _engine(pod, restarts, ready=True, state={"running": {"startedAt": _now()}}, last=last), ready=True
    )


def crash(kube: Kube, pod: Object, *, restarts: int, message: str = "") -> None:
    """Its engine has ended with code 1 and this termination message, and is to be started again."""
    state = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off restarting failed container"}}
    _tell(kube, pod, _engine(pod, restarts, state=state, last={"terminated": _end(message)}), ready=False)


def fail(kube: Kube, pod: Object, reason: str, message: str) -> None:
    """The kubelet gives the pod up."""
    kube.merge("Pod", pod["metadata"]["name"], pod["metadata"]["namespace"],
               {"status": {"phase": "Failed", "reason": reason, "message": message}}, subresource="status")  # fmt: skip


def told(reason: str, message: str) -> str:
    """A termination message of the runtime."""
    return json.dumps({"reason": reason, "message": message, "phase": "Loading"})


def _end(message: str) -> Object:
    return {"exitCode": 1, "reason": "Error", "message": message, "startedAt": _now(), "finishedAt": _now()}


def _engine(pod: Object, restarts: int, *, state: Object, ready: bool = False, last: Object | None = None) -> Object:
    (spec,) = [one for one in pod["spec"]["containers"] if one["name"] == "engine"]
    head = {"name": "engine", "image": spec["image"], "imageID": "", "ready": ready, "restartCount": restarts}
    return {**head, "state": state, "lastState": last or {}}


def _tell(kube: Kube, pod: Object, engine: Object, *, ready: bool) -> None:
    states = {"PodScheduled": True, "Initialized": True, "ContainersReady": ready, "Ready": ready}
    conditions = [{"type": kind, "status": str(holds), "lastTransitionTime": _now()} for kind, holds in states.items()]
    status = {"phase": "Running", "conditions": conditions, "containerStatuses": [engine]}
    kube.merge("Pod", pod["metadata"]["name"], pod["metadata"]["namespace"], {"status": status}, subresource="status")


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
