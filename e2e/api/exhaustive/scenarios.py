"""What is done to a GPTService while something goes wrong, and when that counts as finished."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from e2e.api.rolling import FAILING
from e2e.api.state import COLLECTED, Observer, holds, is_stopped, service
from e2e.kube import Kube, Object, wait_until

Act = Callable[[Kube, str], object]
NEW_KEY = "sk-the-one-that-a-person-wrote"
NEWER_IMAGE = "localhost/gptservice-standin:newer"
AUTOSCALING = {"minReplicas": 1, "maxReplicas": 4}
FEATURES: Object = {
    "disruptionBudget": {"disabled": True},
    "networkPolicy": {"disabled": True},
    "auth": {"disabled": True},
    "serviceAccountName": "default",
}
_SECONDS = 60


def ready(observer: Observer) -> None:
    observer.wait_ready(timeout=_SECONDS)


def stopped(observer: Observer) -> None:
    observer.wait(is_stopped, "to be stopped", timeout=_SECONDS)


def stable(observer: Observer) -> None:
    ready(observer)
    observer.wait(lambda o: "stableRevision" in (o or {}).get("status", {}), "a stable revision", timeout=_SECONDS)


def rolled_back(observer: Observer) -> None:
    def done(gpt: Object | None) -> bool:
        return holds(gpt, "Ready", "False", "RolledBack") and holds(gpt, "Available")

    observer.wait(done, "to be rolled back", timeout=_SECONDS)
    wait_until(lambda: len(observer.pods()), lambda count: count == 1, "the failed pod to go", timeout=_SECONDS)


def autoscaled(observer: Observer) -> None:
    """Nothing measures here, so that it is never Ready; the number of replicas stays what it was."""

    def told(gpt: Object | None) -> bool:
        return holds(gpt, "Degraded", "True", "AutoscalingInactive") and holds(gpt, "Available")

    observer.wait(told, "to serve, and the autoscaler's reason", timeout=_SECONDS)
    observer.wait_rolled("gpt", lambda d: d["spec"]["replicas"] == 2, "two replicas")


def of_the_newer(observer: Observer) -> None:
    def image(deployment: Object) -> object:
        return next(c["image"] for c in deployment["spec"]["template"]["spec"]["containers"] if c["name"] == "engine")

    observer.wait_rolled("gpt", lambda d: image(d) == NEWER_IMAGE, "the newer image")
    ready(observer)

    # No generation tells of this edit: what the status says from before it looks finished.
    def said(gpt: Object | None) -> bool:
        return bool(((gpt or {})["status"].get("effective") or {}).get("image") == NEWER_IMAGE)

    observer.wait(said, "to say which image it runs", timeout=_SECONDS)


def gone(observer: Observer) -> None:
    wait_until(observer.children, lambda found: not found, "the children to go", timeout=COLLECTED)
    keys = lambda: observer.kube.all("Secret", observer.namespace)  # noqa: E731
    wait_until(keys, lambda found: not found, "the key to go", timeout=COLLECTED)


def spec(**fields: Any) -> Act:
    """An edit of some fields; None takes one away."""
    return lambda kube, namespace: kube.merge("GPTService", "gpt", namespace, {"spec": fields})


def delete(kind: str) -> Act:
    return lambda kube, namespace: kube.delete(kind, "gpt", namespace)


def create(kube: Kube, namespace: str) -> None:
    kube.apply(service(replicas=2, maxInflightRequests=9), namespace)


def make_again(kube: Kube, namespace: str) -> None:
    kube.delete("GPTService", "gpt", namespace)
    wait_until(lambda: kube.find("GPTService", "gpt", namespace), lambda gpt: gpt is None, "the GPTService to go")
    create(kube, namespace)


def rotate(kube: Kube, namespace: str) -> None:
    """A person writes another key; then the Deployment, which alone knows that there is one, goes."""
    (secret,) = kube.all("Secret", namespace)
    kube.merge("Secret", secret["metadata"]["name"], namespace, {"stringData": {"api-key": NEW_KEY}})
    kube.delete("Deployment", "gpt", namespace)


def render_again(kube: Kube, namespace: str) -> None:
    kube.merge("GPTService", "gpt", namespace, {"metadata": {"annotations": {"ai.example.com/rerender": "1"}}})


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """`before` is there and `begins` has come true when `act` happens; it is over when `ends` says so."""

    act: Act
    before: Object | None = field(default_factory=lambda: service(replicas=1, engine={"args": ["--seed=1"]}))
    begins: Callable[[Observer], None] = ready
    ends: Callable[[Observer], None] = ready
    down: bool = False
    """Whether the operator is down while it happens, and meets it at its start."""
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    upgrade: Mapping[str, str] = field(default_factory=dict[str, str])
    """Settings that differ from then on."""
    new_key: bool = False
    """Whether another key than before is right in the end."""
    all_new: bool = False
    """Whether no child of before may stay."""


TWO = service(replicas=2)
STABLE = {"GPTSERVICE_STABLE_SECONDS": "1"}
NEWER = {"GPTSERVICE_RUNTIME_IMAGE": NEWER_IMAGE}

EDITS: dict[str, Scenario] = {
    "create": Scenario(act=create, before=None),
    "rollout": Scenario(act=spec(engine={"args": ["--seed=2"]})),
    "edit beside the pods": Scenario(act=spec(maxInflightRequests=7, service={"port": 8080})),
    "features off": Scenario(before=TWO, act=spec(**FEATURES)),
    "features on": Scenario(before=service(replicas=2, **FEATURES), act=spec(**dict.fromkeys(FEATURES))),
    "scale up": Scenario(act=lambda kube, namespace: kube.scale("gpt", namespace, 3)),
    "stop": Scenario(before=TWO, act=spec(replicas=0), ends=stopped),
    "key rotation": Scenario(act=rotate, new_key=True),
}
TRANSITIONS: dict[str, Scenario] = {
    "autoscaling on": Scenario(before=TWO, act=spec(autoscaling=AUTOSCALING), ends=autoscaled),
    "autoscaling off": Scenario(
        before=service(replicas=2, autoscaling=AUTOSCALING),
        begins=autoscaled,
        act=spec(autoscaling=None, replicas=3),
    ),
    "rollback": Scenario(act=spec(engine={"env": FAILING}), settings=STABLE, begins=stable, ends=rolled_back),
    "delete": Scenario(act=delete("GPTService"), ends=gone, all_new=True),
    "delete while down": Scenario(act=delete("GPTService"), ends=gone, down=True, all_new=True),
    "made again": Scenario(act=make_again, new_key=True, all_new=True),
    "made again while down": Scenario(act=make_again, down=True, new_key=True, all_new=True),
    "upgrade": Scenario(act=spec(maxInflightRequests=7), down=True, upgrade=NEWER),
    "upgrade, rendered again": Scenario(act=render_again, down=True, upgrade=NEWER, ends=of_the_newer),
}
