"""The operator as a process: how it starts, ends, and what it may do."""

from __future__ import annotations

import functools
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from e2e.api import optional_crds
from e2e.api.by_hand import by_hand, hang, the_pod
from e2e.api.state import Observer, is_stopped, service
from e2e.kube import Kube, Object, wait_until
from e2e.operator_process import NAMESPACE, RELEASE, ROOT, Access, OperatorProcess
from e2e.proxy import Switchboard
from gptservice_operator.api import kinds

# kopf gives tasks that it does not know five seconds before it cancels them; ours must not be among them.
_BEFORE_KOPF_GIVES_UP = 4.0
# By want of a grant; quotas, and namespaces and kinds that are being deleted, answer 403 as well.
NOT_GRANTED = re.compile(r"is forbidden: User .* cannot ")


def test_ends_at_once_on_sigterm(operator: OperatorProcess, kube: Kube, namespace: str, observer: Observer) -> None:
    kube.apply(service(), namespace)
    observer.wait_ready()
    operator.terminate()
    assert operator.wait_ended(_BEFORE_KOPF_GIVES_UP) == 0
    kube.scale("gpt", namespace, 2)
    operator.start()
    observer.wait_ready()


def test_ends_when_a_watch_fails_for_good(
    operator: OperatorProcess, board: Switchboard, kube: Kube, namespace: str, observer: Observer
) -> None:
    """Its supervisor starts another, which lists everything anew; a deaf process would stay deaf."""
    kube.apply(service(), namespace)
    observer.wait_ready()
    board.answer_gone("deployments", how="http")
    board.cut_watches("deployments")
    assert operator.wait_ended(10) != 0
    uid = observer.uid("Deployment")
    kube.delete("Deployment", "gpt", namespace)
    operator.start()
    observer.wait_for_another("Deployment", "gpt", uid)
    observer.wait_ready()


def test_says_what_is_missing() -> None:
    command = [sys.executable, "-m", "gptservice_operator"]
    done = subprocess.run(command, cwd=ROOT, env={"PATH": "/usr/bin"}, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "GPTSERVICE_RUNTIME_IMAGE is not set" in done.stderr


def test_never_runs_as_administrator(operator: OperatorProcess, access: Access, tmp_path: Path) -> None:
    token = json.loads(operator.kubeconfig.read_text())["users"][0]["user"]["token"]
    assert token == access.token
    own = Kube(access.write(tmp_path / "direct"))
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = own.request("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", body=review)
    assert answer["status"]["userInfo"]["username"] == f"system:serviceaccount:{NAMESPACE}:{RELEASE}"


def test_uses_every_verb_that_it_is_granted_and_no_other(
    operator: OperatorProcess,
    configure: Callable[..., None],
    board: Switchboard,
    kube: Kube,
    namespace: str,
    observer: Observer,
) -> None:
    """Granted and used are compared over all that this level's tests have made it do, and at least this."""
    # A simulated pod of this mode stays in ContainerCreating, until the operator asks for its Events.
    kube.apply(service("stuck", engine={"env": [{"name": "E2E_MODE", "value": "pending"}]}), namespace)
    kube.apply(service(replicas=2, autoscaling={"minReplicas": 2, "maxReplicas": 2}), namespace)
    observer.wait_ready()
    observer.delete_and_wait_for_another("Service")
    observer.wait_ready()
    wait_until(lambda: listed_events(board, namespace), bool, "the stuck pod's Events to be listed")
    kube.apply(service("stopped", replicas=0, cache={"size": "1Gi"}), namespace)
    observer.wait(is_stopped, "to be Stopped", "stopped")
    kube.scale("stopped", namespace, 1)
    observer.wait(lambda o: not is_stopped(o), "to run", "stopped")
    kube.scale("stopped", namespace, 0)
    observer.wait(is_stopped, "to be Stopped again, which is the same Event", "stopped")
    outgrow_the_history(kube, namespace, observer, "stopped")
    have_a_gpu_fail(kube, namespace, observer, "ill")
    with optional_crds.installed(kube):
        make_what_other_operators_act_on(kube, namespace)
        switch_off_what_can_be(kube, namespace, observer)
    configure(lease_seconds="3")
    renewals = functools.partial(board.log.since, where=lambda e: e.target.verb == "update" and e.code == 200)
    wait_until(renewals, bool, "the Lease to be renewed")
    entries = [e for e in board.log.since() if e.target.resource and e.target.group != "authentication.k8s.io"]
    refused = [entry for entry in entries if entry.code == 403 and NOT_GRANTED.search(entry.error)]
    assert [entry.error for entry in refused] == []
    used = {
        (entry.target.group, "/".join(filter(None, (entry.target.resource, entry.target.subresource))), verb)
        for entry in entries
        for verb in _verbs(entry.target.verb, entry.code)
    }
    assert used == granted(kube.get("ClusterRole", RELEASE)) | granted(kube.get("Role", f"{RELEASE}-lease", NAMESPACE))


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
    (first,) = observer.revisions(name)
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


@pytest.mark.parametrize("kind", ["deployments", "gptservices"])
def test_reads_only_what_carries_our_label(operator: OperatorProcess, board: Switchboard, kind: str) -> None:
    """Watches and lists of kinds that are not ours are filtered by the server."""
    seen = board.log.since(where=lambda e: e.target.resource == kind and e.target.verb in ("list", "watch"))
    assert seen
    filtered = ["labelSelector=" in entry.query for entry in seen]
    assert all(filtered) if kind == "deployments" else not any(filtered)
