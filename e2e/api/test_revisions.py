"""What runs stays as it was rendered, on the real API server: across configurations, reverts and lost revisions."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime

import pytest

from e2e.api.quiet import assert_untouched, settle, wait_for_resyncs
from e2e.api.state import REVISION_LABEL, Observer, condition, engine_args, holds, revision_of, service
from e2e.kube import Kube, KubeError, Object, wait_until
from e2e.kubectl import Kubectl
from e2e.operator_process import OperatorProcess
from e2e.proxy import Switchboard

RERENDER = "ai.example.com/rerender"
OTHER_IMAGE = "localhost/gptservice-other:2"
HISTORY = 5
STABLE_SECONDS = 4
FIRST = service(engine={"args": ["--seed=1"]})
SECOND = service(engine={"args": ["--seed=2"]})


@pytest.fixture
def running(operator: OperatorProcess, kube: Kube, namespace: str, observer: Observer) -> Object:
    """A Ready GPTService."""
    kube.apply(FIRST, namespace)
    return observer.wait_ready()


def template(observer: Observer) -> Object:
    found: Object = observer.child("Deployment")["spec"]["template"]
    return found


def kept(observer: Observer) -> dict[str, str]:
    """What each ControllerRevision keeps, by name, as a text that can be compared."""
    return {one["metadata"]["name"]: json.dumps(one["data"], sort_keys=True) for one in observer.revisions()}


def replica_sets(kube: Kube, namespace: str) -> set[str]:
    return {str(one["metadata"]["uid"]) for one in kube.all("ReplicaSet", namespace)}


def pod_uids(observer: Observer) -> set[str]:
    return {str(pod["metadata"]["uid"]) for pod in observer.pods()}


def wait_warned(observer: Observer, word: str) -> Object:
    return observer.wait(
        lambda o: holds(o, "Accepted", "True", "AcceptedWithWarnings") and word in condition(o, "Accepted")["message"],
        f"the warning {word}",
    )


def test_the_template_is_kept_and_pods_tell_their_revision(running: Object, observer: Observer) -> None:
    (revision,) = observer.revisions()
    key = revision_of(observer.child("Deployment"))
    assert revision["metadata"]["labels"][REVISION_LABEL] == key
    assert revision["metadata"]["name"] == f"gpt-{key}"
    assert {pod["metadata"]["labels"][REVISION_LABEL] for pod in observer.pods()} == {key}
    assert revision["data"]["effective"] == running["status"]["effective"]


def test_what_is_kept_cannot_be_edited(running: Object, kube: Kube, namespace: str, observer: Observer) -> None:
    (revision,) = observer.revisions()
    with pytest.raises(KubeError, match="immutable"):
        kube.merge("ControllerRevision", revision["metadata"]["name"], namespace, {"data": {"image": "x"}})


def test_another_configuration_rolls_nothing(
    running: Object,
    configure: Callable[..., None],
    board: Switchboard,
    kube: Kube,
    namespace: str,
    observer: Observer,
) -> None:
    settle(board, {namespace})
    before, pods, children = template(observer), pod_uids(observer), observer.versions()
    configure(runtime_image=OTHER_IMAGE, runtime_cpu="3")
    wait_warned(observer, "RendererOutdated")
    wait_for_resyncs(board, 1)
    changed = {name for name, version in observer.versions().items() if children.get(name) != version}
    assert changed == {"GPTService/gpt"}
    assert_untouched(observer, lambda: wait_for_resyncs(board, 2))
    assert (template(observer), pod_uids(observer)) == (before, pods)
    # Scaled and repaired, it is still what was kept.
    kube.scale("gpt", namespace, 2)
    observer.wait_ready()
    observer.delete_and_wait_for_another("Deployment")
    observer.wait_ready()
    assert template(observer) == before
    configure()
    observer.wait(lambda o: holds(o, "Accepted", "True", "Accepted"), "the warning to go")
    assert template(observer) == before


def test_the_annotation_takes_up_the_configuration(
    running: Object, configure: Callable[..., None], kube: Kube, namespace: str, observer: Observer
) -> None:
    before = kept(observer)
    configure(runtime_image=OTHER_IMAGE)
    wait_warned(observer, "RendererOutdated")
    kube.merge("GPTService", "gpt", namespace, {"metadata": {"annotations": {RERENDER: "1"}}})
    observer.wait_rolled("gpt", lambda d: image(d) == OTHER_IMAGE, "the other image")
    observer.wait(lambda o: holds(o, "Accepted", "True", "Accepted"), "the warning to go")
    kube.merge("GPTService", "gpt", namespace, {"metadata": {"annotations": {RERENDER: None}}})
    observer.wait_rolled("gpt", lambda d: image(d) != OTHER_IMAGE, "the kept image")
    assert before.items() <= kept(observer).items()


def test_a_revert_brings_back_the_same_pods(
    running: Object, configure: Callable[..., None], kube: Kube, namespace: str, observer: Observer
) -> None:
    before, data, sets = template(observer), kept(observer), replica_sets(kube, namespace)
    kube.apply(SECOND, namespace)
    observer.wait_rolled("gpt", seeded(2), "the second spec")
    configure(runtime_image=OTHER_IMAGE)
    kube.apply(FIRST, namespace)
    observer.wait_rolled("gpt", seeded(1), "the first spec")
    assert template(observer) == before
    assert data.items() <= kept(observer).items()
    assert sets <= replica_sets(kube, namespace), "Kubernetes takes it for the former template, too"
    assert observer.revisions()[-1]["metadata"]["name"] in data


def test_one_documented_patch_chooses_a_revision(
    running: Object, kube: Kube, kubectl: Kubectl, namespace: str, observer: Observer
) -> None:
    (first,) = observer.revisions()
    name, before = first["metadata"]["name"], template(observer)
    edit = {"podLabels": {"team": "a"}, "startupTimeoutSeconds": 77, "maxInflightRequests": 3}
    kube.apply({**SECOND, "spec": {**SECOND["spec"], **edit, "replicas": 2}}, namespace)
    observer.wait_rolled("gpt", seeded(2), "the second spec")
    where = ("--namespace", namespace)
    patch = kubectl.run("get", "controllerrevision", name, *where, "--output", "jsonpath={.data.patch}")
    kubectl.run("patch", "gptservice", "gpt", *where, "--type", "json", "--patch", patch)
    observer.wait_rolled("gpt", seeded(1), "the first spec")
    assert template(observer) == before
    spec = (observer.gpt() or {})["spec"]
    assert (spec["replicas"], spec["maxInflightRequests"]) == (2, 3)
    assert spec["startupTimeoutSeconds"] == 1800, "absent then, so the default"


def test_a_deleted_revision_is_made_again_as_it_was(
    running: Object, kube: Kube, namespace: str, observer: Observer
) -> None:
    before, pods = kept(observer), pod_uids(observer)
    (name,) = before
    observer.delete_and_wait_for_another("ControllerRevision", name)
    assert kept(observer) == before
    assert pod_uids(observer) == pods


def test_a_deleted_revision_is_made_again_from_what_runs(
    running: Object,
    configure: Callable[..., None],
    board: Switchboard,
    kube: Kube,
    namespace: str,
    observer: Observer,
) -> None:
    before, pods = template(observer), pod_uids(observer)
    (name,) = kept(observer)
    configure(runtime_image=OTHER_IMAGE)
    wait_warned(observer, "RendererOutdated")
    observer.delete_and_wait_for_another("ControllerRevision", name)
    settle(board, {namespace})
    assert_untouched(observer, lambda: wait_for_resyncs(board, 1))
    assert (template(observer), pod_uids(observer)) == (before, pods)
    observer.delete_and_wait_for_another("Deployment")
    observer.wait_ready()
    assert image(observer.child("Deployment")) != OTHER_IMAGE


def test_one_that_lost_its_label_is_found(running: Object, kube: Kube, namespace: str, observer: Observer) -> None:
    (name,) = kept(observer)
    uid = observer.uid("ControllerRevision", name)
    labels = {"app.kubernetes.io/managed-by": None}
    kube.merge("ControllerRevision", name, namespace, {"metadata": {"labels": labels}})
    wait_until(
        lambda: observer.child("ControllerRevision", name)["metadata"]["labels"],
        lambda found: "app.kubernetes.io/managed-by" in found,
        "the label to come back",
    )
    assert observer.uid("ControllerRevision", name) == uid


def test_a_restart_by_kubectl_works_and_stays(
    running: Object, kubectl: Kubectl, board: Switchboard, namespace: str, observer: Observer
) -> None:
    pods = pod_uids(observer)
    kubectl.run("rollout", "restart", "deployment/gpt", "--namespace", namespace)
    wait_until(lambda: pod_uids(observer), lambda now: not now & pods, "other pods")
    observer.wait_ready()
    settle(board, {namespace})
    assert_untouched(observer, lambda: wait_for_resyncs(board, 1))
    assert len(observer.revisions()) == 1


@pytest.mark.parametrize("change", ["deleted", "replaced"])
def test_the_catalogue_may_change_under_a_service(
    change: str,
    operator: OperatorProcess,
    kube: Kube,
    namespace: str,
    observer: Observer,
    catalogue: Callable[[str], Object],
) -> None:
    name = f"model-{namespace}"
    model = catalogue(name)
    kube.apply(service(modelRef=name), namespace)
    observer.wait_ready()
    before, pods = template(observer), pod_uids(observer)
    kube.delete("GPTModel", name)
    if change == "replaced":
        kube.create({**_fresh(model), "spec": {**model["spec"], "contextLength": 77}})
    wait_warned(observer, "ModelChanged")
    kube.scale("gpt", namespace, 2)
    observer.wait_ready()
    observer.delete_and_wait_for_another("Service")
    assert template(observer) == before
    assert pods <= pod_uids(observer)


def test_the_history_is_bounded(running: Object, kube: Kube, namespace: str, observer: Observer) -> None:
    for number in range(2, HISTORY + 5):
        kube.apply(service(engine={"args": [f"--seed={number}"]}), namespace)
        observer.wait_rolled("gpt", seeded(number), f"seed {number}")
    wait_until(observer.revisions, lambda found: len(found) == HISTORY + 1, "the oldest to go")
    assert [one["revision"] for one in observer.revisions()] == list(range(4, HISTORY + 5))


def test_a_revision_proves_itself_by_time_and_across_a_restart(
    operator: OperatorProcess,
    configure: Callable[..., None],
    board: Switchboard,
    kube: Kube,
    namespace: str,
    observer: Observer,
) -> None:
    configure(stable_seconds=str(STABLE_SECONDS))
    mark = board.log.position
    kube.apply(FIRST, namespace)
    observer.wait_ready()
    operator.restart()
    (name,) = kept(observer)
    observer.wait(lambda o: (o or {})["status"].get("stableRevision") == name, "the revision to be stable")
    (pod,) = observer.pods()
    assert said_stable(board, namespace, mark) >= ready_at(pod) + STABLE_SECONDS
    settle(board, {namespace})
    assert_untouched(observer, lambda: wait_for_resyncs(board, 1))
    kube.apply(SECOND, namespace)
    observer.wait_rolled("gpt", seeded(2), "the second spec")
    newest = observer.revisions()[-1]["metadata"]["name"]
    assert newest != name
    observer.wait(lambda o: (o or {})["status"].get("stableRevision") == newest, "the next one to be stable")


def said_stable(board: Switchboard, namespace: str, mark: int) -> float:
    """When the operator first called a revision stable, in seconds since the epoch."""
    statuses = [
        (e.time, (e.sent or {}).get("status", {})) for e in board.log.writes(mark) if e.target.namespace == namespace
    ]
    return next(at for at, status in statuses if "stableRevision" in status)


def ready_at(pod: Object) -> float:
    (ready,) = [one for one in pod["status"]["conditions"] if one["type"] == "Ready"]
    return datetime.fromisoformat(ready["lastTransitionTime"]).timestamp()


def test_revisions_go_with_their_service(running: Object, kube: Kube, namespace: str, observer: Observer) -> None:
    kube.apply(SECOND, namespace)
    observer.wait_rolled("gpt", seeded(2), "the second spec")
    assert len(observer.revisions()) == 2
    kube.delete("GPTService", "gpt", namespace)
    wait_until(observer.revisions, lambda found: not found, "the revisions to go", timeout=60)


def seeded(number: int) -> Callable[[Object], bool]:
    """Says whether a Deployment is of the spec with this seed."""
    return lambda deployment: f"--seed={number}" in engine_args(deployment)


def image(deployment: Object) -> str:
    containers = deployment["spec"]["template"]["spec"]["containers"]
    return str(next(one for one in containers if one["name"] == "engine")["image"])


def _fresh(model: Object) -> Object:
    """The same object, to be created again."""
    return {**model, "metadata": {"name": model["metadata"]["name"]}}
