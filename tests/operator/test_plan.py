"""What has to be written, for every kind of child: the desired manifest against what is live."""

import copy
from collections.abc import Callable
from typing import Any, ClassVar, cast

import pytest

from gptservice_operator import names, plan, render, store
from gptservice_operator.actions import Action, Apply, Delete, Foreign, SetReplicas, child_key
from gptservice_operator.child import was_applied, with_hash
from gptservice_operator.store import Observed
from tests.operator import builders
from tests.operator.builders import Body

OWNER = builders.uid_of("GPTService", "chat")
SPEC: Body = {
    "model": "pvc://models/m",
    "replicas": 2,
    "engine": {"env": [{"name": "A", "value": "1"}]},
    "cache": {"size": "10Gi", "accessModes": ["ReadWriteMany"]},
    "tls": {"issuerRef": {"name": "internal"}},
}


def rendered(**spec: Any) -> list[Body]:
    return render.render(builders.resolved({**SPEC, **spec}, seen=builders.EVERYTHING_SERVED))


CHILDREN = ["/".join(child_key(manifest)) for manifest in rendered()]
"""Kind and name of every child of a service with all of them."""

Edit = Callable[[Body], None]


def desired(child: str, **spec: Any) -> Body:
    """Return the manifest of one child, by ``kind/name`` or the first of a kind; the spec has these further fields."""
    return next(m for m in rendered(**spec) if child in (m["kind"], "/".join(child_key(m))))


def observed(body: Body) -> Observed:
    return store.observed(builders.entry(body))


def actions(manifest: Body, live: Body | None) -> list[Action]:
    known = {} if live is None else {child_key(live): observed(live)}
    return [action for chain in plan.plan([manifest], known, OWNER, 1) for action in chain]


def applied(manifest: Body) -> Body:
    """Return the live object after its manifest was applied as a pass does."""
    return builders.live(with_hash(manifest))


def set_at(*path: Any, value: Any) -> Edit:
    def edit(body: Body) -> None:
        target: Any = body
        for part in path[:-1]:
            target = target[part]
        target[path[-1]] = value

    return edit


def delete_at(*path: Any) -> Edit:
    def edit(body: Body) -> None:
        target: Any = body
        for part in path[:-1]:
            target = target[part]
        del target[path[-1]]

    return edit


def append_to(*path: Any, item: Any) -> Edit:
    def edit(body: Body) -> None:
        target: Any = body
        for part in path:
            target = target[part]
        target.insert(0, item)

    return edit


POD = ("spec", "template", "spec")
ENGINE = (*POD, "containers", 0)


@pytest.mark.parametrize("kind", CHILDREN)
def test_an_absent_child_is_applied_whole_and_without_a_uid(kind: str) -> None:
    manifest = desired(kind)
    (action,) = actions(manifest, None)
    assert action == Apply(with_hash(manifest), uid=None)


@pytest.mark.parametrize("kind", CHILDREN)
def test_nothing_is_written_when_all_is_as_wanted(kind: str) -> None:
    assert actions(desired(kind), applied(desired(kind))) == []


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        pytest.param("Deployment", {"replicas": 1}, {"replicas": 3}, id="replicas changed"),
        pytest.param("Deployment", {}, {"maxTokens": 64}, id="a field added"),
        pytest.param("Deployment", {"maxTokens": 64}, {}, id="a field removed: only the hash can tell"),
        pytest.param(
            "Deployment", {"upgradeStrategy": "RollingUpdate"}, {"upgradeStrategy": "Recreate"}, id="a block switched"
        ),
        pytest.param("Deployment", {"gpu": {"count": 2}}, {"gpu": {"count": 0}}, id="a GPU request removed"),
        pytest.param("ConfigMap", {}, {"maxInflightRequests": 8}, id="a limit set"),
        pytest.param("ConfigMap", {"maxInflightRequests": 8}, {}, id="a limit lifted"),
        pytest.param("NetworkPolicy", {}, {"monitoring": {"namespaces": ["obs"]}}, id="metrics for another namespace"),
        pytest.param(
            "PersistentVolumeClaim",
            {},
            {"cache": {"size": "20Gi", "accessModes": ["ReadWriteMany"]}},
            id="a larger cache",
        ),
    ],
)
def test_a_changed_spec_is_applied_with_the_live_uid(kind: str, before: Body, after: Body) -> None:
    live = applied(desired(kind, **before))
    (action,) = actions(desired(kind, **after), live)
    assert action == Apply(with_hash(desired(kind, **after)), uid=live["metadata"]["uid"])


@pytest.mark.parametrize(
    ("kind", "edit"),
    [
        pytest.param("Deployment", set_at("spec", "replicas", value=7), id="scaled by hand"),
        pytest.param("Deployment", set_at(*ENGINE, "image", value="nginx"), id="another image"),
        pytest.param("Deployment", append_to(*ENGINE, "args", item="--evil"), id="an argument added"),
        pytest.param("Deployment", set_at(*ENGINE, "env", value=[]), id="variables removed"),
        pytest.param("Deployment", set_at(*POD, "automountServiceAccountToken", value=True), id="token mounted"),
        pytest.param("Deployment", delete_at(*POD, "securityContext"), id="security context removed"),
        pytest.param("Deployment", delete_at("metadata", "annotations"), id="annotations lost"),
        pytest.param("Deployment", delete_at("metadata", "labels", names.LABEL_MANAGED_BY), id="label lost"),
        pytest.param("Service", set_at("spec", "ports", 0, "targetPort", value=1), id="port changed"),
        pytest.param("Service", set_at("spec", "selector", "gptservice-name", value="x"), id="selector changed"),
        pytest.param("Service", set_at("spec", "type", value="NodePort"), id="type changed"),
        pytest.param("Service", delete_at("metadata", "labels", names.SERVICE_LABEL), id="service label lost"),
        pytest.param(
            "Service", set_at("spec", "selector", "team", value="x"), id="selector made narrower: finds nobody"
        ),
        pytest.param(
            "Service/chat-pods", set_at("spec", "publishNotReadyAddresses", value=True), id="pods that are not ready"
        ),
        pytest.param("ServiceAccount", set_at("automountServiceAccountToken", value=True), id="the account's token"),
        pytest.param("ServiceAccount", delete_at("automountServiceAccountToken"), id="the account's token, by default"),
        pytest.param(
            "PersistentVolumeClaim", set_at("spec", "resources", "requests", "storage", value="5Gi"), id="another size"
        ),
        pytest.param("PersistentVolumeClaim", delete_at("metadata", "labels", names.SERVICE_LABEL), id="its label"),
        pytest.param("PodDisruptionBudget", set_at("spec", "maxUnavailable", value="100%"), id="everything evictable"),
        pytest.param("PodDisruptionBudget", delete_at("spec", "unhealthyPodEvictionPolicy"), id="drains blocked"),
        pytest.param(
            "PodDisruptionBudget", set_at("spec", "selector", "matchLabels", "team", value="x"), id="protects nobody"
        ),
        pytest.param("NetworkPolicy", set_at("spec", "podSelector", value={}), id="for every pod of the namespace"),
        pytest.param(
            "NetworkPolicy", set_at("spec", "podSelector", "matchLabels", "team", value="x"), id="for no pod at all"
        ),
        pytest.param("NetworkPolicy", append_to("spec", "ingress", item={}), id="a rule that opens everything"),
        pytest.param(
            "NetworkPolicy",
            append_to("spec", "ingress", 0, "ports", item={"port": 22, "protocol": "TCP"}),
            id="a port opened to all",
        ),
        pytest.param(
            "NetworkPolicy", set_at("spec", "ingress", 0, "ports", 0, "endPort", value=9), id="a range of ports"
        ),
        pytest.param(
            "NetworkPolicy", append_to("spec", "ingress", 1, "from", item={"ipBlock": {}}), id="a source more"
        ),
        pytest.param("NetworkPolicy", delete_at("spec", "ingress", 1, "from"), id="metrics for everybody"),
        pytest.param("NetworkPolicy", append_to("spec", "policyTypes", item="Egress"), id="nothing goes out"),
        pytest.param("Certificate", set_at("spec", "issuerRef", "name", value="mine"), id="another issuer"),
        pytest.param("Certificate", set_at("spec", "dnsNames", value=["chat"]), id="fewer names"),
        pytest.param("Certificate", set_at("spec", "privateKey", "rotationPolicy", value="Never"), id="a key for ever"),
        pytest.param("PodMonitor", set_at("spec", "podMetricsEndpoints", 0, "path", value="/"), id="another path"),
        pytest.param("PodMonitor", set_at("spec", "selector", "matchLabels", value={}), id="every pod"),
        pytest.param("ConfigMap", set_at("data", "limits.json", value="{}}"), id="data changed"),
        pytest.param("ConfigMap", delete_at("data"), id="data removed"),
        pytest.param(
            "ConfigMap", set_at("metadata", "labels", names.LABEL_MANAGED_BY, value="helm"), id="label changed"
        ),
    ],
)
def test_an_edit_by_others_is_taken_back(kind: str, edit: Edit) -> None:
    live = applied(desired(kind))
    edit(live)
    (action,) = actions(desired(kind), live)
    assert action == Apply(with_hash(desired(kind)), uid=live["metadata"]["uid"])


@pytest.mark.parametrize(
    ("kind", "edit"),
    [
        pytest.param(
            "Deployment",
            set_at(
                "spec",
                "template",
                "metadata",
                "annotations",
                value={"kubectl.kubernetes.io/restartedAt": "2026-01-05T10:00:00Z"},
            ),
            id="kubectl rollout restart",
        ),
        pytest.param(
            "Deployment", append_to(*POD, "containers", item={"name": "istio-proxy", "image": "p"}), id="a sidecar"
        ),
        pytest.param("Deployment", append_to(*ENGINE, "env", item={"name": "HTTP_PROXY", "value": "p"}), id="env"),
        pytest.param("Deployment", set_at("status", value={"replicas": 1, "readyReplicas": 1}), id="status"),
        pytest.param("Deployment", set_at("metadata", "annotations", "deployment.kubernetes.io/revision", value="4"),
                     id="the controller's revision"),
        pytest.param("Service", set_at("metadata", "finalizers", value=["service.kubernetes.io/lb"]), id="finalizer"),
        pytest.param("Service", set_at("spec", "ipFamilies", value=["IPv4"]), id="what the server allocates"),
        pytest.param("ServiceAccount", set_at("imagePullSecrets", value=[{"name": "p"}]), id="the platform's secrets"),
        pytest.param("PersistentVolumeClaim", set_at("spec", "volumeName", value="pv-1"), id="its volume"),
        pytest.param("PersistentVolumeClaim", set_at("spec", "storageClassName", value="fast"), id="the default class"),
        pytest.param(
            "PersistentVolumeClaim",
            set_at("spec", "resources", "requests", "storage", value="10240Mi"),
            id="the same size in other words",
        ),
        pytest.param("PersistentVolumeClaim", set_at("status", value={"phase": "Bound"}), id="bound"),
        pytest.param("PodDisruptionBudget", set_at("status", value={"disruptionsAllowed": 1}), id="its status"),
        pytest.param("NetworkPolicy", set_at("metadata", "annotations", "team", value="a"), id="an annotation"),
        pytest.param("Certificate", set_at("status", value={"revision": 2}), id="issued again"),
        pytest.param("Certificate", set_at("spec", "duration", value="2160h0m0s"), id="a default of cert-manager"),
        pytest.param(
            "PodMonitor", set_at("spec", "podMetricsEndpoints", 0, "interval", value="30s"), id="a default for scraping"
        ),
        pytest.param("ConfigMap", set_at("metadata", "labels", "team", value="a"), id="a label"),
        pytest.param("ConfigMap", set_at("data", "more", value="x"), id="another key"),
    ],
)  # fmt: skip
def test_what_others_add_is_left_alone(kind: str, edit: Edit) -> None:
    live = applied(desired(kind))
    edit(live)
    assert actions(desired(kind), live) == []


@pytest.mark.parametrize("kind", CHILDREN)
@pytest.mark.parametrize(
    "references",
    [
        pytest.param([], id="nobody's"),
        pytest.param(
            [{"kind": "GPTService", "name": "chat", "uid": "before", "controller": True}], id="a former one's"
        ),
        pytest.param([{"kind": "GPTService", "name": "chat", "uid": OWNER}], id="ours, but not as its controller"),
    ],
)
def test_an_object_that_is_not_ours_is_not_touched(kind: str, references: list[Body]) -> None:
    live = applied(desired(kind))
    live["metadata"]["ownerReferences"] = references
    (action,) = actions(desired(kind), live)
    assert isinstance(action, Foreign)
    assert (action.kind, action.name) == (live["kind"], live["metadata"]["name"])


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        pytest.param({"ownerReferences": []}, "it was disowned, or left over", id="an orphan"),
        pytest.param({"ownerReferences": [], "labels": {}}, "somebody else", id="a stranger"),
        pytest.param(
            {"ownerReferences": [names.owner_reference("chat", "before")]}, "an earlier GPTService", id="a former one's"
        ),
        pytest.param(
            {"ownerReferences": [names.owner_reference("cha", "other")]}, "belongs to GPTService cha",
            id="a neighbour's, whose child has the name",
        ),
        pytest.param(
            {"ownerReferences": [{"kind": "Rollout", "name": "r", "uid": "u", "controller": True}]},
            "belongs to Rollout r", id="another controller's",
        ),
        pytest.param(
            {"ownerReferences": [], "deletionTimestamp": builders.CREATED, "finalizers": ["a/b"]},
            "being deleted (finalizers: a/b)", id="one that is held",
        ),
    ],
)  # fmt: skip
def test_whose_an_object_is_is_said(metadata: Body, said: str) -> None:
    live = applied(desired("Service"))
    live["metadata"] |= metadata
    (action,) = actions(desired("Service"), live)
    assert isinstance(action, Foreign)
    assert said in action.whose


def test_the_order_is_that_of_the_desired_children() -> None:
    manifests = [desired(kind) for kind in CHILDREN]
    chains = plan.plan(manifests, {}, OWNER, 1)
    planned = [action for chain in chains for action in chain]
    written = ["/".join(child_key(action.manifest)) for action in planned if isinstance(action, Apply)]
    assert written == CHILDREN


def test_only_what_differs_is_written() -> None:
    manifests = [desired(kind) for kind in CHILDREN]
    lives = [applied(manifest) for manifest in manifests]
    next(body for body in lives if body["kind"] == "Deployment")["spec"]["replicas"] = 9
    ((action,),) = plan.plan(manifests, {child_key(body): observed(body) for body in lives}, OWNER, 1)
    assert isinstance(action, Apply)
    assert action.manifest["kind"] == "Deployment"


def reordered(value: Any) -> Any:
    if isinstance(value, dict):
        known = cast("Body", value)
        return {key: reordered(known[key]) for key in sorted(known, reverse=True)}
    if isinstance(value, list):
        items: list[Any] = value  # pyright: ignore[reportUnknownVariableType]
        return [reordered(item) for item in items]
    return value


@pytest.mark.parametrize("kind", CHILDREN)
def test_the_hash_does_not_depend_on_the_order_of_keys(kind: str) -> None:
    assert with_hash(reordered(desired(kind))) == with_hash(desired(kind))


def test_the_hash_leaves_its_input_and_other_annotations_alone() -> None:
    manifest = desired("Service")
    manifest["metadata"]["annotations"] = {"team": "a"}
    before = copy.deepcopy(manifest)
    hashed = with_hash(manifest)
    assert manifest == before
    assert set(hashed["metadata"]["annotations"]) == {"team", names.APPLIED_HASH}


@pytest.mark.parametrize("kind", CHILDREN)
def test_what_was_applied_last_is_known_whatever_others_did_to_it_since(kind: str) -> None:
    manifest = desired(kind)
    live = applied(manifest)
    live["metadata"]["labels"] = {}
    assert was_applied(manifest, live)
    assert not was_applied({**manifest, "metadata": {**manifest["metadata"], "labels": {}}}, live)


def test_an_object_that_was_never_applied_was_not_applied_as_it_should_be() -> None:
    assert not was_applied(desired("Service"), {"metadata": {}})


class TestRevisionFirst:
    PAIR = (desired("ControllerRevision"), desired("Deployment"))

    def kinds(self, *live: Body) -> list[list[str]]:
        """Return the kinds of each chain of what is to be written."""
        known = {child_key(body): observed(body) for body in live}
        chains = plan.plan(self.PAIR, known, OWNER, 1)
        return [[type(action).__name__ + " " + child_kind(action) for action in chain] for chain in chains]

    def test_the_deployment_is_not_written_unless_what_it_runs_is_kept(self) -> None:
        assert self.kinds() == [["Apply ControllerRevision", "Apply Deployment"]]

    def test_what_is_kept_already_is_waited_for_no_more(self) -> None:
        revision = applied(self.PAIR[0])
        assert self.kinds(revision) == [["Apply Deployment"]]
        revision["revision"] = 7
        assert self.kinds(revision) == [["Apply ControllerRevision"], ["Apply Deployment"]]

    def test_one_with_other_content_stands_in_its_way(self) -> None:
        revision = {**applied(self.PAIR[0]), "data": {"other": "content"}}
        assert self.kinds(revision) == [["Apply ControllerRevision", "Apply Deployment"]]

    def test_one_of_somebody_else_stands_in_its_way(self) -> None:
        revision = applied(self.PAIR[0])
        revision["metadata"]["ownerReferences"] = []
        assert self.kinds(revision) == [["Foreign ControllerRevision", "Apply Deployment"]]

    def test_alone_it_is_written_all_the_same(self) -> None:
        ((action,),) = plan.plan(self.PAIR[:1], {}, OWNER, 1)
        assert child_kind(action) == "ControllerRevision"


class TestWhatPodsReferToByName:
    """Other pods begin with this pass; those of the older revision may have to start again until all are replaced."""

    OWN_ACCOUNT: ClassVar[Body] = {"serviceAccountName": "mine", "tls": None}

    def deleted(self, deployment: Body | None, *, looked_at: bool = True) -> list[str]:
        """Return the names of what is deleted when the spec asks for the account and the certificate no more."""
        live = [applied(desired("ServiceAccount")), applied(desired("Certificate"))]
        known = {child_key(body): observed(body) for body in (*live, *([deployment] if deployment else []))}
        wanted = [desired("Deployment", **self.OWN_ACCOUNT)] if looked_at else []
        chains = plan.plan(wanted, known, OWNER, 1)
        return sorted(child_kind(action) for chain in chains for action in chain if isinstance(action, Delete))

    def live(self, *, replicas: int = 2, updated: int = 2, generation: int = 1, **spec: Any) -> Body:
        """Return the live Deployment of a spec with these further fields, all of it seen by its controller."""
        body = applied(desired("Deployment", **spec))
        body["metadata"]["generation"] = generation
        body["status"] = {"observedGeneration": 1, "replicas": replicas, "updatedReplicas": updated}
        return body

    def test_it_goes_once_every_pod_is_of_the_newest_revision(self) -> None:
        assert self.deleted(self.live(**self.OWN_ACCOUNT)) == ["Certificate", "ServiceAccount"]

    def test_it_goes_where_there_is_no_deployment(self) -> None:
        assert self.deleted(None) == ["Certificate", "ServiceAccount"]

    def test_it_stays_in_the_pass_that_begins_the_rollout(self) -> None:
        assert self.deleted(self.live()) == []

    @pytest.mark.parametrize("behind", [{"updated": 1}, {"generation": 2}])
    def test_it_stays_while_the_rollout_is_under_way(self, behind: dict[str, int]) -> None:
        assert self.deleted(self.live(**behind, **self.OWN_ACCOUNT)) == []

    def test_it_stays_while_the_deployment_cannot_be_looked_at(self) -> None:
        assert self.deleted(None, looked_at=False) == []


def child_kind(action: Action) -> str:
    assert not isinstance(action, SetReplicas)
    return child_key(action.manifest)[0] if isinstance(action, Apply) else action.kind
