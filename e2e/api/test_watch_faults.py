"""What a cut, silent or outdated watch hides is found all the same. No resync helps: its period is an hour."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from e2e.api.quiet import settle
from e2e.api.state import CHILDREN, COLLECTED, Observer, engine_args, holds, service
from e2e.kube import KINDS, Kube, Object, stays, wait_until
from e2e.operator_process import OperatorProcess
from e2e.proxy import EventAction, EventRule, Switchboard

# kube-apiserver says 410 as an event; the other form, which ends kopf's watch for good, is in test_process.py.
GONE = [pytest.param(False, id="resumed"), pytest.param(True, id="410")]


@pytest.fixture(autouse=True)
def _operator(operator_without_resync: OperatorProcess) -> None:
    """Every test here runs under it."""


class Blind:
    """A block in which the operator's watches of one kind are cut and cannot be opened again.

    When it ends, the next watch goes on where the last one stopped, or is told 410 first.
    """

    def __init__(self, board: Switchboard, kind: str, gone: bool = False) -> None:
        self._board, self._plural, self._gone = board, KINDS[kind].plural, gone

    def __enter__(self) -> None:
        wait_until(self._board.open_watches, lambda watches: self._plural in watches, f"a watch of {self._plural}")
        self._board.pause_connections(self._plural)
        assert self._board.cut_watches(self._plural) >= 1

    def __exit__(self, *_: object) -> None:
        if self._gone:
            self._board.answer_gone(self._plural)
        self._board.resume_connections(self._plural)


@pytest.mark.parametrize("gone", GONE)
@pytest.mark.parametrize(("kind", "name"), [("Deployment", "gpt"), ("Service", "gpt"), ("ConfigMap", "gpt-limits")])
def test_a_child_deleted_while_its_watch_is_cut(
    board: Switchboard, kube: Kube, namespace: str, observer: Observer, kind: str, name: str, gone: bool
) -> None:
    kube.apply(service(replicas=2), namespace)
    observer.wait_ready()
    before, uid = observer.children(), observer.uid(kind, name)
    with Blind(board, kind, gone):
        kube.delete(kind, name, namespace)
        wait_until(lambda: kube.find(kind, name, namespace), lambda child: child is None, f"the {kind} to go")
    observer.wait_for_another(kind, name, uid)
    wait_until(observer.children, lambda now: now == before, "the children as they were")
    observer.wait_ready()
    assert board.pending_gone() == 0


@pytest.mark.parametrize("gone", GONE)
def test_a_service_deleted_while_its_watch_is_cut(
    board: Switchboard, kube: Kube, namespace: str, observer: Observer, gone: bool
) -> None:
    kube.apply(service(), namespace)
    observer.wait_ready()
    with Blind(board, "GPTService", gone):
        kube.delete("GPTService", "gpt", namespace)
        wait_until(lambda: observer.gpt(), lambda gpt: gpt is None, "the GPTService to go")
    wait_until(observer.children, lambda found: not found, "the children to go", timeout=COLLECTED)
    stays(observer.children, lambda found: not found, "the namespace without children", seconds=2)


@pytest.mark.parametrize("gone", GONE)
def test_a_service_made_again_while_its_watch_is_cut(
    board: Switchboard, kube: Kube, namespace: str, observer: Observer, gone: bool
) -> None:
    kube.apply(service(replicas=1), namespace)
    old = observer.wait_ready()
    with Blind(board, "GPTService", gone):
        kube.delete("GPTService", "gpt", namespace)
        wait_until(lambda: observer.gpt(), lambda gpt: gpt is None, "the GPTService to go")
        kube.apply(service(replicas=2, engine={"args": ["--seed=2"]}), namespace)
    new = observer.wait_ready()
    assert new["metadata"]["uid"] != old["metadata"]["uid"]

    def ours() -> list[str]:
        found = [obj for kind in CHILDREN for obj in kube.all(kind, namespace, labels="gptservice-name=gpt")]
        return [obj["metadata"]["ownerReferences"][0]["uid"] for obj in found]

    wait_until(ours, lambda owners: owners == [new["metadata"]["uid"]] * 8, "the children of the new GPTService")
    observer.wait_rolled("gpt", lambda d: "--seed=2" in engine_args(d), "the new spec")


@pytest.mark.parametrize("gone", GONE)
def test_an_edit_made_while_the_watch_is_cut(
    board: Switchboard, kube: Kube, namespace: str, observer: Observer, gone: bool
) -> None:
    kube.apply(service(replicas=1), namespace)
    observer.wait_ready()
    with Blind(board, "GPTService", gone):
        kube.scale("gpt", namespace, 3)
        kube.scale("gpt", namespace, 2)
    observer.wait_ready()
    assert len(observer.pods()) == 2


@pytest.mark.parametrize("gone", GONE)
def test_a_model_added_while_the_watch_is_cut(
    board: Switchboard,
    kube: Kube,
    namespace: str,
    observer: Observer,
    catalogue: Callable[[str], Object],
    gone: bool,
) -> None:
    name = f"model-{namespace}"
    kube.apply(service(modelRef=name), namespace)
    observer.wait(lambda o: holds(o, "Accepted", "False", "UnknownModel"), "to be refused")
    with Blind(board, "GPTModel", gone):
        catalogue(name)
    observer.wait_ready()


def test_pods_that_became_ready_while_the_watches_are_cut(
    board: Switchboard, kube: Kube, namespace: str, observer: Observer
) -> None:
    slow = [{"name": "E2E_MODE", "value": "slow"}, {"name": "E2E_DELAY", "value": "1s"}]
    with Blind(board, "Deployment", gone=True), Blind(board, "Pod", gone=True):
        kube.apply(service(engine={"env": slow}), namespace)
        observer.wait_rolled("gpt", lambda _: True, "to run")
        assert not holds(observer.gpt(), "Ready")
    observer.wait_ready()


def test_all_watches_cut_again_and_again(board: Switchboard, kube: Kube, namespace: str, observer: Observer) -> None:
    kube.apply(service(replicas=1), namespace)
    for replicas in (3, 2, 4, 1, 2):
        board.cut_watches()
        kube.scale("gpt", namespace, replicas)
        time.sleep(0.2)
    observer.wait_ready()
    assert len(observer.pods()) == 2


def test_events_held_back_and_delivered_late(
    board: Switchboard, kube: Kube, namespace: str, observer: Observer
) -> None:
    """The operator acts on a stale view, then hears everything at once."""
    kube.apply(service(replicas=1), namespace)
    observer.wait_ready()
    board.hold_watches("deployments")
    kube.scale("gpt", namespace, 3)
    observer.wait_rolled("gpt", lambda d: d["spec"]["replicas"] == 3, "three replicas")
    assert not holds(observer.gpt(), "Ready")
    kube.delete("Deployment", "gpt", namespace)
    kube.scale("gpt", namespace, 2)
    board.release_watches("deployments")
    observer.wait_ready()
    # Kubernetes collects those of the deleted Deployment in its own time.
    wait_until(lambda: len(observer.pods()), lambda count: count == 2, "two pods")


@pytest.mark.parametrize("kind", ["deployments", "gptservices", "pods", "services"])
def test_events_delivered_twice(board: Switchboard, kube: Kube, namespace: str, observer: Observer, kind: str) -> None:
    board.add_event_rule(EventRule(action=EventAction.DUPLICATE, resource=kind, namespace=namespace, times=None))
    kube.apply(service(replicas=2), namespace)
    observer.wait_ready()
    observer.delete_and_wait_for_another("Deployment")
    observer.wait_ready()


@pytest.mark.parametrize("kind", ["deployments", "gptservices"])
def test_a_watch_that_ends_with_410_in_place_of_an_event(
    board: Switchboard, kube: Kube, namespace: str, observer: Observer, kind: str
) -> None:
    kube.apply(service(replicas=1), namespace)
    observer.wait_ready()
    rule = EventRule(action=EventAction.GONE, resource=kind, namespace=namespace)
    board.add_event_rule(rule)
    kube.scale("gpt", namespace, 2)
    observer.wait_ready()
    assert rule.fired == 1


@pytest.mark.parametrize("edit", ["spec", "annotation"])
def test_an_edit_that_comes_with_the_reply_to_a_status_is_not_lost(
    edit: str,
    board: Switchboard,
    kube: Kube,
    namespace: str,
    observer: Observer,
    catalogue: Callable[[str], Object],
) -> None:
    model = f"model-{namespace}"
    catalogue(model)
    kube.apply(service(replicas=2, modelRef=model, engine={"args": ["--seed=1"]}), namespace)
    observer.wait_ready()
    settle(board, {namespace})
    before = observer.child("Deployment")["spec"]
    mark = board.log.position
    board.hold_watches(KINDS["GPTService"].plural)
    if edit == "spec":
        kube.scale("gpt", namespace, 3)
    else:
        kube.merge("GPTService", "gpt", namespace, {"metadata": {"annotations": {"ai.example.com/rerender": "1"}}})
    # Nothing but a warning comes of it: no other event wakes the service.
    kube.delete("GPTModel", model)
    wait_until(lambda: _reported(board, mark, namespace), bool, "the warning")
    board.release_watches(KINDS["GPTService"].plural)
    if edit == "spec":
        wait_until(lambda: observer.child("Deployment")["spec"], lambda spec: spec != before, "the edit to be made")
    else:
        observer.wait(lambda o: holds(o, "Accepted", "False", "UnknownModel"), "what another rendering meets")


def _reported(board: Switchboard, mark: int, namespace: str) -> list[object]:
    wanted = (namespace, "status")
    found = [e for e in board.log.writes(mark) if (e.target.namespace, e.target.subresource) == wanted]
    return [entry for entry in found if entry.seconds]
