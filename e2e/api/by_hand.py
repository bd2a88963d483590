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


def the_pod(observer: Observer, *, but: frozenset[str] = frozenset(), of: str = "gpt") -> Object:
    """Wait for the only pod of a service that is bound to a node and is none of these, and return it."""
    return the_pods(observer, 1, but=but, of=of)[0]


def the_pods(observer: Observer, count: int, *, but: frozenset[str] = frozenset(), of: str = "gpt") -> list[Object]:
    """The same for several, in the order of their names."""

    def bound() -> list[Object]:
        found = [pod for pod in observer.pods(of) if "nodeName" in pod["spec"] and pod["metadata"]["name"] not in but]
        return sorted(found, key=lambda pod: str(pod["metadata"]["name"]))

    return wait_until(bound, lambda found: len(found) == count, f"{count} pods")


def load(kube: Kube, pod: Object, *, restarts: int = 0, minutes: int = 0, answers: bool = False) -> None:
    """Its engine has run for so long and is not ready; `answers`: the start-up probe has passed all the same."""
    engine = _engine(pod, restarts, state={"running": {"startedAt": _now(minutes)}})
    _tell(kube, pod, {**engine, "started": answers}, ready=False, minutes=minutes)


def serve(kube: Kube, pod: Object, *, restarts: int = 0, message: str = "", gpu: str = "") -> None:
    """Its engine is ready; it ended that often before, the last time with this termination message.

    `gpu` is what the device plugin says of the one that it was given: Healthy or Unhealthy.
    """
    last = {"terminated": _end(message)} if restarts else {}
    engine = _engine(pod, restarts, ready=True, state={"running": {"startedAt": _now()}}, last=last)
    _tell(kube, pod, {**engine, **_given(pod, gpu)}, ready=True)


def hang(kube: Kube, pod: Object, *, gpu: str) -> None:
    """Its engine runs on a GPU of this health, and is not ready any more."""
    engine = _engine(pod, 0, state={"running": {"startedAt": _now()}})
    _tell(kube, pod, {**engine, **_given(pod, gpu)}, ready=False)


def gpu_of(pod: Object) -> str:
    """The name of the GPU that `serve` and `hang` give to a pod."""
    return f"GPU-of-{pod['metadata']['name']}"


def _given(pod: Object, health: str) -> Object:
    resources = [{"resourceID": gpu_of(pod), "health": health}]
    return {"allocatedResourcesStatus": [{"name": "nvidia.com/gpu", "resources": resources}]} if health else {}


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


def _tell(kube: Kube, pod: Object, engine: Object, *, ready: bool, minutes: int = 0) -> None:
    states = {"PodScheduled": True, "Initialized": True, "ContainersReady": ready, "Ready": ready}
    conditions = [
        {"type": kind, "status": str(holds), "lastTransitionTime": _now(minutes)} for kind, holds in states.items()
    ]
    status = {"phase": "Running", "conditions": conditions, "containerStatuses": [engine]}
    kube.merge("Pod", pod["metadata"]["name"], pod["metadata"]["namespace"], {"status": status}, subresource="status")


def _now(minutes_ago: int = 0) -> str:
    moment = datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=minutes_ago)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
