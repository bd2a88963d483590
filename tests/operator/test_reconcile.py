"""Whole passes: a cluster's state goes in, writes and another state come out."""

import datetime
from typing import Any

import pytest

from gptservice_operator import errors, names, revisions
from gptservice_operator.api import conditions
from gptservice_operator.contests import Contests
from gptservice_operator.discovery import Discovery
from gptservice_operator.reconcile import Reconciler
from gptservice_operator.recorder import Recorder
from gptservice_operator.store import Store
from tests.operator import builders
from tests.operator.builders import NAMESPACE, Body
from tests.operator.fake_cluster import FakeCluster

KEY = (NAMESPACE, "chat")
STATUS = "GPTService/status"
CHILDREN = ["ServiceAccount", "ConfigMap", "ControllerRevision", "Deployment", "Service", "Service", "NetworkPolicy"]
"""What one replica without further wishes has, in the order in which it is written; one Service is headless."""
CHILD_NAMES = {
    "ServiceAccount": "chat-pods",
    "ConfigMap": "chat-limits",
    "ControllerRevision": names.controller_revision("chat", revisions.key(builders.service())),
    "Deployment": "chat",
    "Service": "chat",
    "NetworkPolicy": "chat",
}
BUDGET = "PodDisruptionBudget"
EACH = pytest.mark.parametrize("kind", CHILD_NAMES)


class World:
    """A cluster, the store that watches it, and the passes over one service."""

    def __init__(self, *bodies: Body) -> None:
        self.cluster = FakeCluster()
        for body in bodies:
            self.cluster.add(body)
        self.store = self.cluster.fill(Store())
        self.discovery = Discovery()
        self.contests = Contests()
        self.recorder = Recorder()
        self.seconds = 0

    def reconciler(self, store: Store | None = None) -> Reconciler:
        cluster = self.cluster.as_cluster()
        return Reconciler(
            store or self.store,
            cluster,
            builders.config(),
            now=self._now,
            discovery=self.discovery,
            contests=self.contests,
            recorder=self.recorder,
        )

    def _now(self) -> datetime.datetime:
        self.seconds += 1
        return datetime.datetime(2026, 1, 5, 12, 0, 0, tzinfo=datetime.UTC) + datetime.timedelta(seconds=self.seconds)

    async def run_pass(self) -> list[str]:
        """Run one pass and return the kinds that it wrote."""
        await self.reconciler().reconcile(KEY)
        return self.cluster.written()

    async def failing_pass(self, error: type[errors.OperatorError]) -> list[str]:
        """Run one pass that must raise such an error, and return the kinds that it wrote."""
        with pytest.raises(error):
            await self.reconciler().reconcile(KEY)
        return self.cluster.written()

    def see(self, *, lost: str | None = None) -> None:
        """Let the watches catch up; ``lost`` is the kind of an object that they report as deleted."""
        self.cluster.fill(self.store)
        if lost is not None:
            self.forget(lost, CHILD_NAMES[lost])

    def forget(self, kind: str, name: str) -> None:
        """Take an object out of the store as a watch does that lost sight of it."""
        entry = self.store.get((kind, NAMESPACE, name))
        assert entry is not None
        self.store.discard(entry.key, entry.uid)

    async def settle(self) -> None:
        """Run passes until one writes nothing."""
        for _ in range(5):
            if not await self.run_pass():
                return
            self.see()
        raise AssertionError("passes go on writing")

    def body(self, kind: str) -> Body:
        found = self.cluster.get_body(kind, CHILD_NAMES.get(kind, "chat"))
        assert found is not None, f"there is no {kind}"
        return found

    def condition(self, kind: str) -> Body:
        status: Body = self.body("GPTService")["status"]
        found: Body
        (found,) = [condition for condition in status["conditions"] if condition["type"] == kind]
        return found

    def edit_spec(self, **fields: Any) -> None:
        """Edit the spec as a user does."""
        body = self.cluster.edit("GPTService", "chat")
        body["spec"] |= fields
        body["metadata"]["generation"] += 1
        self.see()


def others(kind: str) -> list[str]:
    """Return what is written when a child of a kind cannot be: all others, but no Deployment without its revision."""
    left = list(CHILDREN)
    for held in ("ControllerRevision", "Deployment") if kind == "ControllerRevision" else (kind,):
        left.remove(held)
    return left


def other_kinds(kind: str) -> list[str]:
    """Return what is written when no child of a kind can be."""
    return [child for child in others(kind) if child != kind]


async def settled(spec: Body | None = None) -> World:
    world = World(builders.service(spec=spec))
    await world.settle()
    return world


class TestFirstPass:
    async def test_children_are_written_in_order_and_then_the_status(self) -> None:
        assert await World(builders.service()).run_pass() == [*CHILDREN, STATUS]

    async def test_every_child_is_labelled_and_owned(self) -> None:
        world = World(builders.service())
        await world.run_pass()
        for kind in CHILDREN:
            metadata = world.body(kind)["metadata"]
            assert names.labels("chat").items() <= metadata["labels"].items()
            assert names.controller_uid(metadata) == builders.uid_of("GPTService", "chat")
            assert names.APPLIED_HASH in metadata["annotations"]

    async def test_the_first_writes_carry_no_uid_and_later_ones_do(self) -> None:
        world = World(builders.service())
        await world.reconciler().reconcile(KEY)
        assert {write.uid for write in world.cluster.writes if write.kind in CHILDREN} == {None}
        world.cluster.written()
        world.edit_spec(replicas=2)
        await world.reconciler().reconcile(KEY)
        (write,) = [write for write in world.cluster.writes if write.kind == "Deployment"]
        assert write.uid == world.body("Deployment")["metadata"]["uid"]

    async def test_the_next_pass_sees_what_was_written_before_any_watch_does(self) -> None:
        world = World(builders.service())
        await world.run_pass()
        world.cluster.reads.clear()
        assert await world.run_pass() == []
        assert world.cluster.reads == []

    async def test_the_status_speaks_of_what_the_pass_has_written(self) -> None:
        world = World(builders.service())
        await world.run_pass()
        status = world.body("GPTService")["status"]
        assert status["observedGeneration"] == 1
        assert status["endpoint"] == "http://chat.team-a.svc:80"
        assert status["lastSyncTime"] == "2026-01-05T12:00:01Z"

    async def test_a_pass_asks_for_no_further_one(self) -> None:
        assert await World(builders.service()).reconciler().reconcile(KEY) is None


class TestSteadyState:
    async def test_nothing_is_written(self) -> None:
        world = await settled()
        for _ in range(3):
            assert await world.run_pass() == []

    async def test_nothing_is_written_after_a_restart(self) -> None:
        world = await settled()
        world.store = world.cluster.fill(Store())
        assert await world.run_pass() == []

    @pytest.mark.parametrize(
        "spec",
        [
            pytest.param({"model": "pvc://m/x", "engine": {"env": [{"name": "EMPTY", "value": ""}]}}, id="empty value"),
            pytest.param({"model": "pvc://m/x", "resources": {"limits": {"cpu": "1000m"}}}, id="1000m"),
            pytest.param({"model": "pvc://m/x", "scheduling": {"nodeSelector": {}, "tolerations": []}}, id="empties"),
            pytest.param({"model": "pvc://m/x", "replicas": 0}, id="stopped"),
            pytest.param({"model": "https://host/folder"}, id="refused"),
        ],
    )
    async def test_whatever_the_spec_says(self, spec: Body) -> None:
        world = await settled(spec)
        world.store = world.cluster.fill(Store())
        assert await world.run_pass() == []

    async def test_a_pod_that_gets_ready_writes_the_status_only(self) -> None:
        world = await settled()
        deployment = world.cluster.edit("Deployment", "chat")
        deployment["status"] |= {"replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1}
        world.cluster.add(builders.pod(ready=True))
        world.see()
        assert await world.run_pass() == [STATUS]
        assert world.body("GPTService")["status"]["phase"] == "Ready"
        world.see()
        assert await world.run_pass() == []


class TestEdits:
    @pytest.mark.parametrize(
        ("fields", "written"),
        [
            pytest.param({"replicas": 3}, ["Deployment", BUDGET], id="replicas, of which there was one"),
            pytest.param(
                {"engine": {"args": ["--seed=1"]}}, ["ControllerRevision", "Deployment"], id="an engine argument"
            ),
            pytest.param({"maxInflightRequests": 9}, ["ConfigMap"], id="a limit that needs no restart"),
            pytest.param({"monitoring": {"namespaces": ["obs"]}}, ["NetworkPolicy"], id="who may read metrics"),
            pytest.param(
                {"cache": {"size": "1Gi"}}, ["PersistentVolumeClaim", "ControllerRevision", "Deployment"], id="a cache"
            ),
        ],
    )
    async def test_only_what_differs_is_written(self, fields: Body, written: list[str]) -> None:
        world = await settled()
        world.edit_spec(**fields)
        assert await world.run_pass() == [*written, STATUS]
        assert world.body("GPTService")["status"]["observedGeneration"] == 2
        world.see()
        assert await world.run_pass() == []

    @pytest.mark.parametrize(
        ("fields", "reason"),
        [
            pytest.param({"replicas": -1}, "InvalidSpec", id="a negative count"),
            pytest.param({"model": "https://host/folder"}, "InvalidSpec", id="a folder of a web server"),
            pytest.param({"model": "unheard-of"}, "UnknownModel", id="a model that nobody knows"),
            pytest.param({"engine": {"args": ["--port=1"]}}, "InvalidEngineArgument", id="a reserved argument"),
            pytest.param({"engine": {"args": ["--dtipe=auto"]}}, "InvalidEngineArgument", id="a wrong argument"),
        ],
    )
    async def test_a_refused_edit_touches_no_child(self, fields: Body, reason: str) -> None:
        world = await settled()
        before = {kind: world.body(kind) for kind in CHILDREN}
        status = world.body("GPTService")["status"]
        world.edit_spec(**fields)
        assert await world.run_pass() == [STATUS]
        assert {kind: world.body(kind) for kind in CHILDREN} == before
        assert (world.condition("Accepted")["status"], world.condition("Accepted")["reason"]) == ("False", reason)
        after = world.body("GPTService")["status"]
        assert (after["endpoint"], after["effective"]) == (status["endpoint"], status["effective"])

    async def test_a_refused_service_starts_by_itself_once_its_model_exists(self) -> None:
        world = World(builders.service(spec={"modelRef": "gpt-4-turbo"}))
        assert await world.run_pass() == [STATUS]
        world.cluster.add(builders.gpt_model("gpt-4-turbo"))
        world.see()
        assert await world.run_pass() == [*CHILDREN, STATUS]
        assert world.condition("Accepted")["status"] == "True"


class TestDrift:
    @pytest.mark.parametrize(
        ("kind", "edit"),
        [
            pytest.param("Deployment", {"spec": {"replicas": 9}}, id="scaled by hand"),
            pytest.param("Service", {"spec": {"ports": [{"port": 80, "protocol": "UDP"}]}}, id="port edited"),
            pytest.param("ConfigMap", {"data": {"limits.json": "{}}"}}, id="data changed"),
            pytest.param("NetworkPolicy", {"spec": {"ingress": [{}]}}, id="everything opened"),
            pytest.param("ServiceAccount", {"automountServiceAccountToken": True}, id="the account's token"),
        ],
    )
    async def test_a_foreign_edit_is_taken_back(self, kind: str, edit: Body) -> None:
        world = await settled()
        world.cluster.add(builders.merged(world.body(kind), edit))
        world.see()
        assert await world.run_pass() == [kind]
        world.see()
        assert await world.run_pass() == []

    @EACH
    async def test_a_deleted_child_is_made_again(self, kind: str) -> None:
        world = await settled()
        world.cluster.remove(kind, CHILD_NAMES[kind])
        world.see(lost=kind)
        assert await world.run_pass() == [kind]
        assert world.body(kind)

    @EACH
    async def test_a_child_that_lost_our_label_is_recognised_and_mended(self, kind: str) -> None:
        world = await settled()
        uid = world.body(kind)["metadata"]["uid"]
        del world.cluster.edit(kind, CHILD_NAMES[kind])["metadata"]["labels"]
        world.see(lost=kind)
        await world.reconciler().reconcile(KEY)
        assert [(write.kind, write.uid) for write in world.cluster.writes] == [(kind, uid)]
        assert names.labels("chat").items() <= world.body(kind)["metadata"]["labels"].items()
        world.cluster.written()
        world.see()
        assert await world.run_pass() == []


async def test_a_refused_service_is_stopped_though_its_deployment_lost_our_label() -> None:
    world = await settled()
    del world.cluster.edit("Deployment", "chat")["metadata"]["labels"]
    world.forget("Deployment", "chat")
    world.edit_spec(replicas=0, engine={"args": ["--port=1"]})
    assert await world.run_pass() == ["Deployment (gptservice-operator-replicas)", STATUS]
    assert world.body("Deployment")["spec"]["replicas"] == 0
    assert await world.run_pass() == []


async def test_somebody_else_s_deployment_is_not_stopped_by_a_refused_service() -> None:
    foreign = TestNamesThatAreTaken.foreign("Deployment")
    world = World(
        builders.service(spec={"model": "pvc://m/x", "replicas": 0, "engine": {"args": ["--port=1"]}}), foreign
    )
    before = world.body("Deployment")
    assert await world.run_pass() == [STATUS]
    assert world.body("Deployment") == before


def reported() -> Body:
    """A service that was reported on, and has lost all children since."""
    return {**builders.service(), "status": {"observedGeneration": 1}}


class TestNewServices:
    async def test_for_no_child_is_looked_first(self) -> None:
        world = World(builders.service())
        assert await world.run_pass() == [*CHILDREN, STATUS]
        assert {kind for kind, *_ in world.cluster.reads} == {"GPTService"}

    @EACH
    async def test_a_child_that_is_ours_and_has_lost_its_label_is_found_after_all(self, kind: str) -> None:
        world = World(builders.service())
        await world.run_pass()
        child = world.cluster.edit(kind, CHILD_NAMES[kind])
        del child["metadata"]["labels"]
        restored = World(builders.service(), child)
        assert sorted(await restored.run_pass()) == sorted([*CHILDREN, STATUS])
        assert restored.body(kind)["metadata"]["uid"] == child["metadata"]["uid"]
        assert restored.body(kind)["metadata"]["labels"]

    @EACH
    async def test_a_name_that_is_taken_after_a_look_is_left_alone_and_looked_at_soon(self, kind: str) -> None:
        world = World(reported())
        world.cluster.failures["apply", kind] = errors.Conflict("the object has been modified")
        await world.failing_pass(errors.Transient)
        assert world.cluster.get_body(kind, CHILD_NAMES[kind]) is None


class TestNamesThatAreTaken:
    @staticmethod
    def foreign(kind: str, **metadata: Any) -> Body:
        body: Body = {"apiVersion": "v1", "kind": kind, "spec": {"theirs": True}, "data": {"theirs": "too"}}
        return {**body, "metadata": {"name": CHILD_NAMES[kind], "namespace": NAMESPACE, "uid": "theirs", **metadata}}

    @EACH
    @pytest.mark.parametrize(
        "metadata",
        [
            pytest.param({}, id="nobody's"),
            pytest.param({"labels": names.labels("chat")}, id="with our labels"),
            pytest.param({"ownerReferences": [names.owner_reference("chat", "a-former-one")]}, id="a former one's"),
        ],
    )
    async def test_the_object_is_not_touched_the_others_are_written(self, kind: str, metadata: Body) -> None:
        foreign = self.foreign(kind, **metadata)
        world = World(builders.service(), foreign)
        before = world.body(kind)
        written = await world.failing_pass(errors.Conflict)
        assert written == [*others(kind), STATUS]
        assert world.body(kind) == before
        assert world.condition("Accepted")["reason"] == "NameConflict"
        assert f"{kind} {CHILD_NAMES[kind]}" in world.condition("Accepted")["message"]

    async def test_all_that_is_in_the_way_is_told_at_once_with_each_owner_once(self) -> None:
        left = [self.foreign(kind, labels=names.labels("chat")) for kind in ("Service", "Deployment", "ConfigMap")]
        scaler: Body = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "spec": {}}
        scaler["metadata"] = {"name": "chat", "namespace": NAMESPACE, "uid": "theirs", "labels": names.labels("chat")}
        spec = {"model": "pvc://m/x", "autoscaling": {"minReplicas": 1, "maxReplicas": 2}}
        world = World(builders.service(spec=spec), self.foreign("NetworkPolicy"), scaler, *left)
        await world.failing_pass(errors.Conflict)
        told = world.condition("Accepted")["message"]
        for what in ("Service chat", "Deployment chat", "ConfigMap chat-limits", "HorizontalPodAutoscaler chat"):
            assert told.count(what) == 1
        assert told.count("disowned") == 1
        assert "NetworkPolicy chat belongs to somebody else" in told

    async def test_it_goes_on_once_the_name_is_free(self) -> None:
        world = World(builders.service(), self.foreign("Service"))
        await world.failing_pass(errors.Conflict)
        world.cluster.remove("Service", "chat")
        assert await world.run_pass() == ["Service", STATUS]
        assert world.condition("Accepted")["status"] == "True"

    async def test_what_is_known_is_not_written_again(self) -> None:
        world = World(builders.service(), self.foreign("Service"))
        await world.failing_pass(errors.Conflict)
        assert await world.failing_pass(errors.Conflict) == []


class TestStatus:
    async def test_one_in_conflict_is_tried_again_soon_for_nothing_else_would_wake_the_service(self) -> None:
        world = World(builders.service())
        world.cluster.failures["status", "GPTService"] = errors.Conflict("the object has been modified")
        again = await world.reconciler().reconcile(KEY)
        assert again is not None
        assert 0 < again <= 5
        world.cluster.failures.clear()
        world.cluster.written()
        assert await world.run_pass() == [STATUS]

    async def test_one_of_a_service_that_is_gone_is_not(self) -> None:
        world = World(builders.service())
        world.cluster.failures["status", "GPTService"] = errors.Absent("not found")
        assert await world.reconciler().reconcile(KEY) is None


class TestFailures:
    @pytest.mark.parametrize("verb", ["get", "apply"])
    @EACH
    async def test_one_child_s_failure_does_not_stop_the_others(self, kind: str, verb: str) -> None:
        world = World(reported())
        world.cluster.failures[verb, kind] = errors.Transient("no answer")
        written = await world.failing_pass(errors.Transient)
        assert written == [*other_kinds(kind), STATUS]
        world.cluster.failures.clear()
        assert kind in await world.run_pass()

    @pytest.mark.parametrize(
        ("error", "reason", "accepted"),
        [
            pytest.param(errors.Invalid('apply Deployment: "x" is invalid'), "InvalidSpec", "False", id="refused"),
            pytest.param(errors.Waiting("apply Deployment: forbidden"), "Forbidden", "True", id="forbidden"),
            pytest.param(errors.Waiting("apply Deployment: exceeded quota: q"), "QuotaExceeded", "True", id="a quota"),
        ],
    )
    async def test_the_status_says_why_and_the_pass_is_retried(
        self, error: errors.OperatorError, reason: str, accepted: str
    ) -> None:
        world = World(builders.service())
        world.cluster.failures["apply", "Deployment"] = error
        assert await world.failing_pass(type(error)) == [*others("Deployment"), STATUS]
        assert world.condition("Ready")["reason"] == reason
        assert str(error) in world.condition("Ready")["message"]
        assert world.condition("Accepted")["status"] == accepted

    async def test_a_service_whose_child_could_not_be_written_is_not_ready(self) -> None:
        world = await settled()
        world.edit_spec(replicas=2)
        world.cluster.failures["apply", "Deployment"] = errors.Transient("no answer", retry_after=7)
        with pytest.raises(errors.Transient) as raised:
            await world.reconciler().reconcile(KEY)
        assert raised.value.retry_after == 7
        assert world.condition("Accepted")["status"] == "True"
        assert (world.condition("Ready")["status"], world.condition("Ready")["reason"]) == ("False", "ApplyFailed")
        assert "no answer" in world.condition("Ready")["message"]

    async def test_a_refusal_of_a_child_that_exists_may_be_due_to_somebody_s_edit(self) -> None:
        world = await settled()
        world.edit_spec(replicas=2)
        world.cluster.failures["apply", "Deployment"] = errors.Invalid("apply Deployment: spec.x: is invalid")
        assert await world.failing_pass(errors.Invalid) == [BUDGET, STATUS]
        assert world.condition("Ready")["reason"] == "ChildRejected"
        assert "spec.x: is invalid" in world.condition("Ready")["message"]
        assert world.condition("Accepted")["status"] == "True"

    async def test_a_refusal_of_many_words_is_cut_but_says_what_to_do(self) -> None:
        world = World(builders.service())
        world.cluster.failures["apply", "Deployment"] = errors.Invalid("apply Deployment: " + "many words " * 2000)
        await world.failing_pass(errors.Invalid)
        message = world.condition("Accepted")["message"]
        assert len(message) < 2000
        assert message.endswith(conditions.INVALID_SPEC.remedy)

    async def test_a_service_that_cannot_be_looked_at_gets_no_child_and_is_retried(self) -> None:
        """It may be gone: then its children would belong to nobody."""
        world = World(builders.service())
        world.cluster.failures["get", "GPTService"] = errors.Transient("no answer")
        assert set(await world.failing_pass(errors.Transient)) <= {STATUS}
        world.cluster.failures.clear()
        assert await world.run_pass() == [*CHILDREN, STATUS]

    async def test_a_status_that_cannot_be_written_is_retried(self) -> None:
        world = World(builders.service())
        world.cluster.failures["status", "GPTService"] = errors.Transient("no answer")
        assert await world.failing_pass(errors.Transient) == CHILDREN
        world.cluster.failures.clear()
        assert await world.run_pass() == [STATUS]

    async def test_of_several_failures_the_transient_one_is_raised(self) -> None:
        world = World(builders.service())
        world.cluster.failures["apply", "ConfigMap"] = errors.Invalid("refused")
        world.cluster.failures["apply", "Service"] = errors.Transient("no answer")
        await world.failing_pass(errors.Transient)

    async def test_a_fault_of_our_own_escapes(self) -> None:
        world = World(builders.service())
        world.cluster.failures["apply", "Deployment"] = ZeroDivisionError()  # type: ignore[assignment]
        with pytest.raises(ZeroDivisionError):
            await world.reconciler().reconcile(KEY)


class TestStaleKnowledge:
    @EACH
    async def test_a_child_deleted_without_a_word_is_made_again_by_the_retry(self, kind: str) -> None:
        world = await settled()
        world.cluster.remove(kind, CHILD_NAMES[kind])
        world.store.put(builders.entry(edited_by_somebody(world, kind)))
        assert await world.failing_pass(errors.Transient) == []
        assert await world.run_pass() == [kind]
        world.see()
        assert await world.run_pass() == []

    async def test_a_child_made_again_by_somebody_else_is_a_conflict_in_the_next_pass(self) -> None:
        world = await settled()
        taken = world.cluster.edit("Deployment", "chat")
        taken["metadata"] |= {"uid": "theirs", "ownerReferences": []}
        world.edit_spec(replicas=2)
        world.forget("Deployment", "chat")
        assert await world.failing_pass(errors.Conflict) == [BUDGET, STATUS]
        assert world.body("Deployment")["metadata"]["uid"] == "theirs"
        assert world.body("Deployment")["spec"]["replicas"] == 1

    async def test_no_child_is_made_for_a_service_that_is_gone(self) -> None:
        world = await settled()
        for kind in CHILD_NAMES:
            world.cluster.remove(kind, CHILD_NAMES[kind])
            world.see(lost=kind)
        world.cluster.remove("GPTService", "chat")
        assert await world.run_pass() == []
        assert world.store.service(KEY) is None

    async def test_no_child_is_made_for_a_service_that_is_being_deleted(self) -> None:
        world = World(builders.service())
        world.cluster.edit("GPTService", "chat")["metadata"]["deletionTimestamp"] = "2026-01-05T12:00:00Z"
        assert await world.run_pass() == []

    async def test_a_service_known_to_be_deleted_is_not_even_looked_at(self) -> None:
        world = World(builders.service(deletionTimestamp="2026-01-05T12:00:00Z"))
        assert await world.run_pass() == []
        assert world.cluster.reads == []

    async def test_a_service_that_is_not_known_is_no_error(self) -> None:
        assert await World().run_pass() == []

    async def test_a_service_made_again_under_the_same_name_gets_no_status_of_the_former_one(self) -> None:
        world = await settled()
        world.cluster.remove("GPTService", "chat")
        world.cluster.add(builders.service(uid="another"))
        deployment = world.cluster.edit("Deployment", "chat")
        deployment["status"] |= {"readyReplicas": 1}
        world.store.put(builders.entry(deployment))
        assert await world.run_pass() == []
        assert "status" not in world.body("GPTService")

    async def test_a_namespace_that_is_being_deleted_is_no_failure(self) -> None:
        world = World(builders.service())
        for kind in CHILDREN:
            world.cluster.failures["apply", kind] = errors.Absent("namespace is being terminated")
        world.cluster.failures["status", "GPTService"] = errors.Absent("gone")
        assert await world.run_pass() == []


class TestStory:
    """What a pass has changed is told in Events on the service."""

    @staticmethod
    def told(world: World) -> list[str]:
        return [event["reason"] for event in world.cluster.told.values()]

    async def test_it_begins_when_the_service_is_made(self) -> None:
        world = World(builders.service())
        await world.run_pass()
        assert self.told(world) == ["Accepted", "RollingOut"]
        assert world.cluster.told.popitem()[1]["message"] == world.condition("Ready")["message"]

    async def test_nothing_is_told_again_in_the_next_pass_or_after_a_restart(self) -> None:
        world = await settled()
        before = [dict(event) for event in world.cluster.told.values()]
        await world.run_pass()
        world.recorder, world.store = Recorder(), world.cluster.fill(Store())
        await world.run_pass()
        assert list(world.cluster.told.values()) == before

    async def test_a_secret_is_not_to_be_read_in_it(self) -> None:
        env = [{"name": "TOKEN", "value": "hunter22hunter22"}]
        world = World(builders.service(spec={"model": "pvc://m/m", "replicas": 1, "engine": {"env": env}}))
        await world.run_pass()
        crash = {"exitCode": 1, "message": '{"reason": "ModelLoadFailed", "message": "bad hunter22hunter22"}'}
        world.cluster.add(builders.pod(containers=[builders.container(terminated=crash)]))
        world.see()
        world.cluster.edit("Deployment", "chat")["status"]["unavailableReplicas"] = 1
        world.see()
        await world.run_pass()
        assert "ModelLoadFailed" in self.told(world)
        assert "hunter22" not in str(world.cluster.told)

    @pytest.mark.parametrize("verb", ["create", "patch", "events"])
    async def test_a_pass_is_none_the_worse_for_an_event_that_cannot_be_written(self, verb: str) -> None:
        world = World(builders.service())
        world.cluster.failures[verb, "Event"] = errors.Transient("no answer")
        assert await world.run_pass() == [*CHILDREN, STATUS]

    async def test_a_service_that_is_gone_is_forgotten(self) -> None:
        world = await settled()
        world.cluster.told.clear()
        world.cluster.remove("GPTService", "chat")
        world.forget("GPTService", "chat")
        await world.run_pass()
        assert world.recorder == Recorder()


def edited_by_somebody(world: World, kind: str) -> Body:
    """Return a child as the store knows it, with an edit that the pass will want to take back."""
    snapshot = world.store.snapshot(KEY)
    assert snapshot is not None
    body = snapshot.children[kind, CHILD_NAMES[kind]].body
    body["metadata"] |= {"labels": {}, "resourceVersion": "5000"}
    return body


async def test_status_is_of_the_spec_that_the_pass_began_with() -> None:
    """An edit that arrives during a pass is the next pass's; nobody may read that it was already observed."""
    world = World(builders.service())
    apply = world.cluster.apply

    async def apply_while_the_user_edits(*args: Any, **kwargs: Any) -> Body:
        reply = await apply(*args, **kwargs)
        if len(world.cluster.writes) == 1:
            world.edit_spec(replicas=5)
        return reply

    world.cluster.apply = apply_while_the_user_edits  # type: ignore[method-assign]
    await world.run_pass()
    assert world.body("GPTService")["status"]["observedGeneration"] == 1
    assert world.body("Deployment")["spec"]["replicas"] == 1
    world.see()
    assert await world.run_pass() == ["Deployment", BUDGET, STATUS]
    assert world.body("GPTService")["status"]["observedGeneration"] == 2


@pytest.mark.parametrize("edit", [{"spec": {"replicas": 5}}, {"metadata": {"annotations": {names.RERENDER: "1"}}}])
async def test_an_edit_that_is_first_seen_in_the_reply_to_a_status_is_still_news(edit: dict[str, Body]) -> None:
    """Its event comes later, and has to wake the service."""
    world = World(builders.service())
    apply_status = world.cluster.apply_status

    async def apply_status_after_an_edit(**kwargs: Any) -> Body:
        body = world.cluster.edit("GPTService", "chat")
        for part, fields in edit.items():
            body[part] |= fields
        return await apply_status(**kwargs)

    world.cluster.apply_status = apply_status_after_an_edit  # type: ignore[method-assign]
    assert STATUS in await world.run_pass()
    assert world.store.put(builders.entry(world.body("GPTService")))
