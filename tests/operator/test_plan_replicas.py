"""Who writes ``spec.replicas``: each hand-over between the operator and an autoscaler, from any of its steps."""

from typing import Any

import pytest

from gptservice_operator import names, plan, render, store
from gptservice_operator import replicas as replicas_module
from gptservice_operator.actions import Action, Apply, Delete, SetReplicas, child_key
from gptservice_operator.child import with_hash
from tests.operator import builders
from tests.operator.builders import Body

OWNER = builders.uid_of("GPTService", "chat")
SCALED: Body = {"model": "pvc://models/m", "autoscaling": {"minReplicas": 2, "maxReplicas": 4}}
FIXED: Body = {"model": "pvc://models/m", "replicas": 3}
STOPPED: Body = {**SCALED, "replicas": 0}
HPA = "HorizontalPodAutoscaler"
KCM = "kube-controller-manager"


def manifests(spec: Body) -> dict[str, Body]:
    return {manifest["kind"]: with_hash(manifest) for manifest in render.render(builders.resolved(spec))}


def deployment(spec: Body, *, replicas: int, owners: tuple[str, ...]) -> Body:
    """Return the live Deployment of a spec, with a count and the managers that own it."""
    live = builders.live(manifests(spec)["Deployment"])
    live["spec"]["replicas"] = replicas
    builders.own_replicas(live, *owners)
    return live


def hpa(spec: Body = SCALED, **metadata: Any) -> Body:
    live = builders.live(manifests(spec)["HorizontalPodAutoscaler"])
    live["metadata"] |= metadata
    return live


def steps(spec: Body, *lives: Body) -> list[str]:
    """Return what is done about the Deployment and its autoscaler, one word or two for each step."""
    decided = builders.resolved(spec)
    desired = [manifest for manifest in render.render(decided) if manifest["kind"] in ("Deployment", HPA)]
    known = {child_key(body): store.observed(builders.entry(body)) for body in lives}
    chains = plan.plan(desired, known, OWNER, decided.initial_replicas)
    assert len(chains) <= 1
    return [told(action) for chain in chains for action in chain]


def told(action: Action) -> str:
    match action:
        case Apply(manifest, uid):
            count = manifest["spec"].get("replicas")
            return f"{'apply' if uid else 'create'} {manifest['kind']}" + (f" {count}" if count is not None else "")
        case Delete(kind, _, _):
            return f"delete {kind}"
        case SetReplicas(_, count):
            return f"set {count}" if count is not None else "let go"
        case _:
            return "foreign"


@pytest.mark.parametrize(
    ("replicas", "expected"),
    [
        pytest.param(1, ["create Deployment", "set 2", f"create {HPA}"], id="below the least"),
        pytest.param(3, ["create Deployment", "set 3", f"create {HPA}"], id="within the bounds"),
        pytest.param(9, ["create Deployment", "set 4", f"create {HPA}"], id="above the most"),
    ],
)
def test_a_new_service_begins_with_its_count_within_the_bounds(replicas: int, expected: list[str]) -> None:
    assert steps({**SCALED, "replicas": replicas}) == expected


def test_a_count_of_one_is_what_the_api_server_says_anyway() -> None:
    assert steps({**SCALED, "autoscaling": {"maxReplicas": 4}}) == ["create Deployment", f"create {HPA}"]


ON = [
    pytest.param(deployment(FIXED, replicas=3, owners=(names.MANAGER,)), None,
                 ["set 3", "apply Deployment", f"create {HPA}"], id="begun"),
    pytest.param(deployment(FIXED, replicas=3, owners=(names.MANAGER, names.REPLICAS_MANAGER)), None,
                 ["set 3", "apply Deployment", f"create {HPA}"], id="after the count was set"),
    pytest.param(deployment(SCALED, replicas=3, owners=(names.REPLICAS_MANAGER,)), None,
                 [f"create {HPA}"], id="after ours has let go"),
    pytest.param(deployment(SCALED, replicas=3, owners=(names.REPLICAS_MANAGER,)), hpa(), [], id="done"),
    pytest.param(deployment(SCALED, replicas=4, owners=(KCM,)), hpa(), [], id="after the autoscaler's step"),
    pytest.param(deployment(SCALED, replicas=4, owners=(KCM,)), None, [f"create {HPA}"], id="autoscaler deleted"),
    pytest.param(deployment(SCALED, replicas=1, owners=()), None,
                 ["set 2", f"create {HPA}"], id="created, the count not set yet"),
    pytest.param(deployment(SCALED, replicas=1, owners=()), hpa(), [], id="nobody's, but the autoscaler is there"),
    pytest.param(deployment(SCALED, replicas=3, owners=()), None, [f"create {HPA}"], id="nobody's, scaled since"),
    pytest.param(deployment({**FIXED, "replicas": 0}, replicas=0, owners=(names.MANAGER,)), None,
                 ["set 2", "apply Deployment", f"create {HPA}"], id="resumed"),
    pytest.param(deployment(SCALED, replicas=0, owners=("kubectl",)), hpa(), ["set 2"], id="scaled to 0 by hand"),
    pytest.param(deployment({**SCALED, "maxTokens": 5}, replicas=3, owners=(KCM,)), hpa(),
                 ["apply Deployment"], id="an edit of the spec"),
]  # fmt: skip


@pytest.mark.parametrize(("live", "scaler", "expected"), ON)
def test_handed_over_to_the_autoscaler_from_any_step(live: Body, scaler: Body | None, expected: list[str]) -> None:
    assert steps(SCALED, *([live] if scaler is None else [live, scaler])) == expected


OFF = [
    pytest.param(deployment(SCALED, replicas=4, owners=(KCM,)), hpa(),
                 [f"delete {HPA}", "apply Deployment 3"], id="begun"),
    pytest.param(deployment(SCALED, replicas=4, owners=(KCM,)), None, ["apply Deployment 3"], id="deleted already"),
    pytest.param(deployment(SCALED, replicas=2, owners=(names.REPLICAS_MANAGER,)), hpa(),
                 [f"delete {HPA}", "apply Deployment 3", "let go"], id="the autoscaler has not acted yet"),
    pytest.param(deployment(FIXED, replicas=3, owners=(names.MANAGER, names.REPLICAS_MANAGER)), None,
                 ["let go"], id="before the other manager has let go"),
    pytest.param(deployment(FIXED, replicas=3, owners=(names.MANAGER,)), None, [], id="done"),
    pytest.param(deployment(FIXED, replicas=3, owners=(names.MANAGER,)), hpa(),
                 [f"delete {HPA}"], id="an autoscaler that was left"),
]  # fmt: skip


@pytest.mark.parametrize(("live", "scaler", "expected"), OFF)
def test_taken_back_from_any_step(live: Body, scaler: Body | None, expected: list[str]) -> None:
    assert steps(FIXED, *([live] if scaler is None else [live, scaler])) == expected


STOP = [
    pytest.param(deployment(SCALED, replicas=4, owners=(KCM,)), hpa(),
                 [f"delete {HPA}", "apply Deployment 0", "let go"], id="begun"),
    pytest.param(deployment(SCALED, replicas=0, owners=(names.REPLICAS_MANAGER,)), hpa(),
                 [f"delete {HPA}", "apply Deployment 0", "let go"], id="stopped, and died before the rest"),
    pytest.param(deployment(STOPPED, replicas=0, owners=(names.MANAGER, names.REPLICAS_MANAGER)), None,
                 ["let go"], id="before the other manager has let go"),
    pytest.param(deployment(STOPPED, replicas=0, owners=(names.MANAGER,)), None, [], id="done"),
]  # fmt: skip


@pytest.mark.parametrize(("live", "scaler", "expected"), STOP)
def test_a_stop_is_settled_from_any_step(live: Body, scaler: Body | None, expected: list[str]) -> None:
    assert steps(STOPPED, *([live] if scaler is None else [live, scaler])) == expected


@pytest.mark.parametrize(("replicas", "expected"), [(4, ["set 0"]), (1, ["set 0"]), (0, [])])
def test_a_stop_comes_ahead_of_everything_else(replicas: int, expected: list[str]) -> None:
    live = store.observed(builders.entry(deployment(SCALED, replicas=replicas, owners=(KCM,))))
    assert [told(action) for action in replicas_module.stop("chat", live)] == expected


def test_an_autoscaler_of_somebody_else_is_left_alone() -> None:
    live = deployment(FIXED, replicas=3, owners=(names.MANAGER,))
    assert steps(FIXED, live, hpa(ownerReferences=[])) == []
    live = deployment(SCALED, replicas=3, owners=(KCM,))
    assert steps(SCALED, live, hpa(ownerReferences=[])) == ["foreign"]


def test_a_deployment_of_somebody_else_gets_no_autoscaler() -> None:
    live = deployment(SCALED, replicas=3, owners=(KCM,))
    live["metadata"]["ownerReferences"] = []
    assert steps(SCALED, live) == ["foreign"]


def test_what_an_autoscaler_adds_to_its_object_is_no_difference() -> None:
    scaler = hpa(annotations={**hpa()["metadata"]["annotations"], "team": "a"})
    scaler["status"] = {"currentReplicas": 3}
    assert steps(SCALED, deployment(SCALED, replicas=3, owners=(KCM,)), scaler) == []


DESIRED = [("ConfigMap", "chat-limits"), ("ControllerRevision", "chat-1"), ("Deployment", "chat"), (HPA, "chat")]


@pytest.mark.parametrize("unknown", [("Deployment", "chat"), (HPA, "chat"), ("ControllerRevision", "chat-1")])
def test_the_two_are_held_back_together_and_for_want_of_their_revision(unknown: tuple[str, str]) -> None:
    assert plan.held_back([unknown, ("Service", "chat")], DESIRED) == {
        unknown,
        ("Deployment", "chat"),
        (HPA, "chat"),
        ("Service", "chat"),
    }


def test_what_is_not_asked_for_is_not_held_back() -> None:
    assert plan.held_back([(HPA, "chat")], DESIRED[:3]) == {(HPA, "chat"), ("Deployment", "chat")}
    assert plan.held_back([("ConfigMap", "chat-limits")], DESIRED) == {("ConfigMap", "chat-limits")}


RECREATED: Body = {**FIXED, "upgradeStrategy": "Recreate"}


def midway(spec: Body, *, replicas: int, updated: int, pods: int) -> Body:
    """Return the live Deployment with so many pods, of which so many are of the newest revision."""
    live = deployment(spec, replicas=replicas, owners=(names.MANAGER,))
    live["status"] = {**live["status"], "replicas": pods, "updatedReplicas": updated}
    return live


def test_recreate_with_another_count_waits_for_the_rollout_s_end() -> None:
    """Kubernetes would stop in the middle for ever."""
    stuck = midway({**FIXED, "replicas": 2}, replicas=2, updated=1, pods=3)
    assert steps(RECREATED, stuck) == ["apply Deployment 2"]
    ended = midway({**RECREATED, "replicas": 2}, replicas=2, updated=2, pods=2)
    assert steps(RECREATED, ended) == ["apply Deployment 3"]


def test_recreate_with_another_count_waits_until_the_numbers_are_those_of_the_last_change() -> None:
    """Just after a change they say that all pods are of one revision, which is the one before."""
    behind = midway({**FIXED, "replicas": 2}, replicas=2, updated=2, pods=2)
    behind["metadata"]["generation"] = behind["status"]["observedGeneration"] + 1
    assert steps(RECREATED, behind) == ["apply Deployment 2"]


def test_while_it_waits_nothing_is_written_again() -> None:
    applied = midway({**RECREATED, "replicas": 2}, replicas=2, updated=1, pods=3)
    assert steps(RECREATED, applied) == []


@pytest.mark.parametrize(
    ("spec", "live"),
    [
        pytest.param(FIXED, midway({**FIXED, "replicas": 2}, replicas=2, updated=1, pods=3), id="RollingUpdate"),
        pytest.param(RECREATED, midway({**RECREATED, "replicas": 2}, replicas=2, updated=2, pods=2), id="one revision"),
        pytest.param(RECREATED, midway({**RECREATED, "replicas": 0}, replicas=0, updated=0, pods=1), id="a resume"),
    ],
)
def test_else_the_count_is_applied_at_once(spec: Body, live: Body) -> None:
    assert steps(spec, live) == ["apply Deployment 3"]
