"""What the operator is granted, what it has used, and services that make it use all of it."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from urllib.parse import parse_qs

from e2e.api.by_hand import by_hand, hang, the_pod
from e2e.api.state import Observer, is_stopped, service
from e2e.kube import Kube, Object, wait_until
from e2e.proxy import Switchboard
from e2e.proxy.log import Entry
from gptservice_operator.api import kinds

# By want of a grant; quotas, and namespaces and kinds that are being deleted, answer 403 as well.
NOT_GRANTED = re.compile(r"is forbidden: User .* cannot ")

Rights = set[tuple[str, str, str]]
"""Group, resource and verb."""


def refused(entries: Iterable[Entry]) -> list[str]:
    """What the API server said to requests that the operator has no right to."""
    return [entry.error for entry in _of_objects(entries) if entry.code == 403 and NOT_GRANTED.search(entry.error)]


def used(entries: Iterable[Entry]) -> Rights:
    return {
        (entry.target.group, "/".join(filter(None, (entry.target.resource, entry.target.subresource))), verb)
        for entry in _of_objects(entries)
        for verb in _verbs(entry.target.verb, entry.code)
    }


def _of_objects(entries: Iterable[Entry]) -> list[Entry]:
    return [e for e in entries if e.target.resource and e.target.group != "authentication.k8s.io"]


def exercise(board: Switchboard, kube: Kube, namespace: str, observer: Observer) -> None:
    """Have it use every verb but those on kinds of other operators and on the Lease."""
    # A simulated pod of this mode stays in ContainerCreating, until the operator asks for its Events.
    kube.apply(service("stuck", engine={"env": [{"name": "E2E_MODE", "value": "pending"}]}), namespace)
    kube.apply(service(replicas=2, autoscaling={"minReplicas": 2, "maxReplicas": 2}), namespace)
    observer.wait_ready()
    # Children that are missing are looked for, but for those of a new service.
    for kind, name in (("Service", "gpt"), ("ConfigMap", "gpt-limits"), ("Deployment", "gpt")):
        observer.delete_and_wait_for_another(kind, name)
    observer.wait_ready()
    wait_until(lambda: listed_events(board, namespace), bool, "the stuck pod's Events to be listed")
    kube.apply(service("stopped", replicas=0), namespace)
    observer.wait(is_stopped, "to be Stopped", "stopped")
    kube.apply(service("stopped", replicas=0, cache={"size": "1Gi"}), namespace)
    wait_until(lambda: kube.all("PersistentVolumeClaim", namespace), bool, "the claim")
    edited = kube.merge("GPTService", "stopped", namespace, {"spec": {"replicas": 1}})
    # Two edits that one pass sees are no edit.
    observer.wait(functools.partial(_has_seen, edited["metadata"]["generation"]), "to run", "stopped")
    kube.scale("stopped", namespace, 0)
    observer.wait(is_stopped, "to be Stopped again, which is the same Event", "stopped")
    outgrow_the_history(kube, namespace, observer, "stopped")
    have_a_gpu_fail(kube, namespace, observer, "ill")


def exercise_other_operators(kube: Kube, namespace: str, observer: Observer) -> None:
    """After `exercise`: have it make what other operators act on, whose CRDs are there, and delete all that can be."""
    make_what_other_operators_act_on(kube, namespace)
    switch_off_what_can_be(kube, namespace, observer)


def have_a_gpu_fail(kube: Kube, namespace: str, observer: Observer, name: str) -> None:
    """A pod that does not serve on an unhealthy GPU is deleted."""
    kube.apply({**by_hand(gpu={"count": 1}), "metadata": {"name": name}}, namespace)
    pod = the_pod(observer, of=name)
    hang(kube, pod, gpu="Unhealthy")
    the_pod(observer, of=name, but=frozenset({str(pod["metadata"]["name"])}))


def listed_events(board: Switchboard, namespace: str) -> list[str]:
    """The field selectors of the lists of Events that the operator has got."""
    wanted = ("list", "events", namespace)
    found = board.log.since(
        where=lambda e: (e.target.verb, e.target.resource, e.target.namespace) == wanted and e.code == 200
    )
    return [parse_qs(entry.query)["fieldSelector"][0] for entry in found]


def outgrow_the_history(kube: Kube, namespace: str, observer: Observer, name: str) -> None:
    """Make so many revisions of a service that the first one is deleted."""
    first = observer.revisions(name)[0]
    for number in range(1, 8):
        edited = kube.merge("GPTService", name, namespace, {"spec": {"maxTokens": number}})
        generation = edited["metadata"]["generation"]
        seen = functools.partial(_has_seen, generation)
        observer.wait(seen, "the edit to be seen", name)
    gone = functools.partial(kube.find, "ControllerRevision", first["metadata"]["name"], namespace)
    wait_until(gone, lambda found: found is None, "the oldest revision to go")


def _has_seen(generation: int, gpt: Object | None) -> bool:
    return gpt is not None and gpt["status"].get("observedGeneration") == generation


def make_what_other_operators_act_on(kube: Kube, namespace: str) -> None:
    kube.merge("GPTService", "gpt", namespace, {"spec": {"tls": {"issuerRef": {"name": "internal"}}}})
    for kind in kinds.OPTIONAL:
        wait_until(functools.partial(kube.find, kind.name, "gpt", namespace), bool, f"the {kind.name}")


def switch_off_what_can_be(kube: Kube, namespace: str, observer: Observer) -> None:
    off = {
        "autoscaling": None,
        "networkPolicy": {"disabled": True},
        "disruptionBudget": {"disabled": True},
        "serviceAccountName": "default",
        "monitoring": {"podMonitor": "Disabled"},
        "tls": None,
    }
    kube.merge("GPTService", "gpt", namespace, {"spec": off})
    for kind in kinds.OPTIONAL:
        wait_until(
            functools.partial(kube.find, kind.name, "gpt", namespace),
            lambda found: found is None,
            f"the {kind.name} to go",
        )
    gone = {"NetworkPolicy/gpt", "PodDisruptionBudget/gpt", "ServiceAccount/gpt-pods", "HorizontalPodAutoscaler/gpt"}
    wait_until(observer.children, lambda found: not gone & set(found), f"{', '.join(sorted(gone))} to go")


def _verbs(verb: str, code: int | None) -> set[str]:
    """RBAC's verbs for one request: an apply that makes the object needs `create` too."""
    if verb in ("apply", "status"):
        return {"patch", "create"} if code == 201 else {"patch"}
    return {verb}


def granted(role: Object) -> set[tuple[str, str, str]]:
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule.get("apiGroups", [])
        for resource in rule.get("resources", [])
        for verb in rule["verbs"]
    }
