"""Whole passes: what runs stays what it was rendered as, until its own spec or the annotation says otherwise."""

import contextlib
import copy
import dataclasses
import datetime
import json
from collections.abc import Callable
from typing import Any

import pytest

from gptservice_operator import errors, names, revisions
from gptservice_operator.api.scheduling import Scheduling
from gptservice_operator.reconcile import Reconciler
from gptservice_operator.render import pod
from gptservice_operator.render.resolved import Resolved
from gptservice_operator.revisions import HISTORY
from gptservice_operator.store import Store
from gptservice_operator.vllm import schema
from gptservice_runtime import contract
from tests.operator import builders
from tests.operator.builders import NAMESPACE, Body
from tests.operator.test_reconcile import CHILDREN, KEY, STATUS, World, others, settled

REVISION = "ControllerRevision"
FROM_CATALOGUE: Body = {"modelRef": "small", "replicas": 1}

Upgrade = Callable[[], None]


@pytest.fixture
def upgrade(monkeypatch: pytest.MonkeyPatch) -> Upgrade:
    """Replace the renderer by that of another version, which makes other pods of every spec."""
    before = pod.render_pod_template

    def of_another_version(resolved: Resolved) -> Body:
        template = copy.deepcopy(before(resolved))
        template["spec"]["containers"][0]["args"].append("--of-another-version")
        template["spec"]["hostname"] = "another"
        return template

    return lambda: monkeypatch.setattr(pod, "render_pod_template", of_another_version)


def revision_bodies(world: World) -> dict[str, Body]:
    return {name: body for (kind, _, name), body in world.cluster.objects.items() if kind == REVISION}


def template(world: World) -> Body:
    found: Body = world.body("Deployment")["spec"]["template"]
    return found


def key(world: World) -> str:
    return revisions.key(world.body("GPTService"))


def text(body: Body) -> str:
    return json.dumps(body, sort_keys=True)


def annotate(world: World, value: str | None) -> None:
    """Set the annotation, which leaves the generation as it is."""
    metadata = world.cluster.edit("GPTService", "chat")["metadata"]
    metadata["annotations"] = {} if value is None else {names.RERENDER: value}
    world.see()


def restart(world: World) -> None:
    """Begin with an empty store, as another process does."""
    world.store = world.cluster.fill(Store())


async def with_model(spec: Body | None = None) -> World:
    world = World(builders.service(spec=spec or FROM_CATALOGUE), builders.gpt_model("small"))
    await world.settle()
    return world


async def edited(world: World, **fields: Any) -> list[str]:
    """Edit the spec, run a pass and let it settle; return what the first pass wrote."""
    world.edit_spec(**fields)
    written = await world.run_pass()
    world.see()
    await world.settle()
    return written


class TestNewRevision:
    async def test_it_is_kept_before_the_deployment_runs_it(self) -> None:
        world = World(builders.service())
        written = await world.run_pass()
        assert written.index(REVISION) < written.index("Deployment")

    async def test_what_is_kept_is_what_runs(self) -> None:
        world = await settled()
        (body,) = revision_bodies(world).values()
        wanted = builders.live({**world.body("Deployment"), "spec": {"template": body["data"]["template"]}})
        assert template(world) == wanted["spec"]["template"]
        assert revisions.key_of_template(template(world)) == key(world)

    async def test_another_spec_is_another_revision_with_the_next_number(self) -> None:
        world = await settled()
        assert await edited(world, maxTokens=7) == [REVISION, "Deployment", STATUS]
        assert sorted(body["revision"] for body in revision_bodies(world).values()) == [1, 2]
        assert revisions.key_of_template(template(world)) == key(world)

    @pytest.mark.parametrize(
        "fields", [{"replicas": 3}, {"maxInflightRequests": 2}, {"service": {"port": 81}}, {"rollout": {"maxSurge": 2}}]
    )
    async def test_an_edit_that_shapes_no_pod_makes_none(self, fields: Body) -> None:
        world = await settled()
        before = text(template(world))
        assert REVISION not in await edited(world, **fields)
        assert text(template(world)) == before


class TestUpgrade:
    async def test_no_child_is_written_and_the_status_says_once_what_could_be_had(self, upgrade: Upgrade) -> None:
        world = await settled()
        upgrade()
        restart(world)
        assert await world.run_pass() == [STATUS]
        accepted = world.condition("Accepted")
        assert (accepted["status"], accepted["reason"]) == ("True", "AcceptedWithWarnings")
        assert "RendererOutdated" in accepted["message"]
        assert names.RERENDER in accepted["message"]
        world.see()
        assert await world.run_pass() == []

    @pytest.mark.parametrize(
        "changes",
        [
            pytest.param(
                {"runtime_image": "registry.example.com/other:2", "runtime_cpu": "4"}, id="image and requests"
            ),
            pytest.param({"runtime_image_pull_secrets": ("registry",)}, id="pull secrets"),
            pytest.param(
                {"runtime_scheduling": Scheduling.model_validate({"nodeSelector": {"a": "b"}})}, id="where pods run"
            ),
        ],
    )
    async def test_another_configuration_writes_no_child(self, changes: dict[str, Any]) -> None:
        world = await settled()
        settings = builders.config()
        other = dataclasses.replace(settings, **changes)
        reconciler = Reconciler(world.store, world.cluster.as_cluster(), other, now=_noon)
        await reconciler.reconcile(KEY)
        assert world.cluster.written() == [STATUS]
        assert "RendererOutdated" in world.condition("Accepted")["message"]
        assert world.body("GPTService")["status"]["effective"]["image"] == builders.IMAGE

    async def test_other_authorities_reach_what_downloads_without_a_roll(self) -> None:
        world = await settled({"model": "org/name"})

        async def configured(bundle: str) -> list[str]:
            before = len(world.cluster.written())
            other = builders.config(runtime_ca_bundle=bundle)
            await Reconciler(world.store, world.cluster.as_cluster(), other, now=_noon).reconcile(KEY)
            world.see()
            return world.cluster.written()[before:]

        assert await configured("one") == ["ConfigMap", STATUS], "which says that new pods would read it"
        assert await configured("another") == ["ConfigMap"]
        assert world.body("ConfigMap")["data"]["ca.crt"] == "another"
        assert await configured("") == ["ConfigMap", STATUS]

    async def test_a_configuration_that_would_change_nothing_is_no_news(self) -> None:
        world = await settled({"model": "pvc://m/x", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}})
        other = builders.config(runtime_cpu="4", runtime_memory="64Gi")
        await Reconciler(world.store, world.cluster.as_cluster(), other, now=_noon).reconcile(KEY)
        assert world.cluster.written() == []

    @pytest.mark.parametrize(
        ("fields", "written"),
        [
            pytest.param({"replicas": 3}, ["Deployment", "PodDisruptionBudget", STATUS], id="scaled"),
            pytest.param({"maxInflightRequests": 2}, ["ConfigMap", STATUS], id="a limit"),
            pytest.param({"service": {"port": 81}}, ["Service", STATUS], id="the port"),
        ],
    )
    async def test_what_shapes_no_pod_is_changed_and_the_pods_stay(
        self, upgrade: Upgrade, fields: Body, written: list[str]
    ) -> None:
        world = await settled()
        before = text(template(world))
        upgrade()
        restart(world)
        assert await edited(world, **fields) == written
        assert text(template(world)) == before

    async def test_drift_is_taken_back_to_what_was_kept(self, upgrade: Upgrade) -> None:
        world = await settled()
        before = text(template(world))
        upgrade()
        restart(world)
        await world.settle()
        container = world.cluster.edit("Deployment", "chat")["spec"]["template"]["spec"]["containers"][0]
        container["image"] = "registry.example.com/edited:1"
        world.see()
        assert await world.run_pass() == ["Deployment"]
        assert text(template(world)) == before

    async def test_a_deleted_deployment_comes_back_as_it_was(self, upgrade: Upgrade) -> None:
        world = await settled()
        before = text(template(world))
        upgrade()
        world.cluster.remove("Deployment", "chat")
        world.see(lost="Deployment")
        assert await world.run_pass() == ["Deployment", STATUS]
        assert text(template(world)) == before

    @pytest.mark.parametrize("lost", [False, True], ids=["kept", "running alone"])
    async def test_arguments_that_the_next_vllm_does_not_know_go_on_with_the_one_that_does(
        self, monkeypatch: pytest.MonkeyPatch, lost: bool
    ) -> None:
        world = await settled({"model": "pvc://m/x", "engine": {"args": ["--seed=1"]}})
        if lost:
            (name,) = revision_bodies(world)
            world.cluster.remove(REVISION, name)
        next_vllm = schema.read(json.dumps({"vllm": contract.VLLM_VERSION, "flags": []}))
        monkeypatch.setattr(schema, "bundled", lambda: next_vllm)
        restart(world)
        await edited(world, replicas=3)
        assert (world.condition("Accepted")["status"], world.body("Deployment")["spec"]["replicas"]) == ("True", 3)
        await edited(world, maxTokens=7)
        assert world.condition("Accepted")["reason"] == "InvalidEngineArgument"

    async def test_an_edit_that_shapes_pods_takes_up_the_new_renderer(self, upgrade: Upgrade) -> None:
        world = await settled()
        upgrade()
        restart(world)
        await edited(world, maxTokens=7)
        assert template(world)["spec"]["hostname"] == "another"
        assert world.condition("Accepted")["reason"] == "Accepted"

    async def test_a_deployment_of_a_time_without_revisions_is_simply_rendered(self, upgrade: Upgrade) -> None:
        world = await settled()
        (name,) = revision_bodies(world)
        world.cluster.remove(REVISION, name)
        del world.cluster.edit("Deployment", "chat")["spec"]["template"]["metadata"]["labels"][names.REVISION]
        upgrade()
        restart(world)
        assert await world.run_pass() == [REVISION, "Deployment"]
        assert template(world)["spec"]["hostname"] == "another"


class TestRevert:
    async def test_it_brings_back_the_same_bytes(self, upgrade: Upgrade) -> None:
        world = await settled()
        before = text(template(world))
        first = text(next(iter(revision_bodies(world).values()))["data"])
        await edited(world, maxTokens=7)
        upgrade()
        restart(world)
        await edited(world, maxTokens=None)
        assert text(template(world)) == before
        name = names.controller_revision("chat", key(world))
        assert text(revision_bodies(world)[name]["data"]) == first

    async def test_the_revision_gets_the_highest_number_and_there_is_no_further_one(self) -> None:
        world = await settled()
        await edited(world, maxTokens=7)
        assert await edited(world, maxTokens=None) == [REVISION, "Deployment", STATUS]
        numbers = {name: body["revision"] for name, body in revision_bodies(world).items()}
        assert numbers[names.controller_revision("chat", key(world))] == 3
        assert sorted(numbers.values()) == [2, 3]

    async def test_the_kept_patch_brings_the_revision_back(self) -> None:
        world = await settled()
        kept_key = key(world)
        (body,) = revision_bodies(world).values()
        await edited(world, maxTokens=7, podLabels={"a": "b"}, replicas=4)
        spec = world.body("GPTService")["spec"]
        for operation in body["data"]["patch"]:
            name = operation["path"].removeprefix("/spec/")
            spec = {**spec, name: operation["value"]} if operation["op"] == "add" else _without(spec, name)
        world.cluster.edit("GPTService", "chat")["spec"] = spec
        world.see()
        await world.run_pass()
        assert revisions.key_of_template(template(world)) == kept_key == key(world)
        assert world.body("Deployment")["spec"]["replicas"] == 4


class TestRerender:
    async def test_another_value_takes_up_the_new_renderer(self, upgrade: Upgrade) -> None:
        world = await settled()
        upgrade()
        annotate(world, "1")
        assert await world.run_pass() == [REVISION, "Deployment"]
        assert template(world)["spec"]["hostname"] == "another"
        world.see()
        assert await world.run_pass() == []

    async def test_taking_the_annotation_away_brings_back_what_was(self, upgrade: Upgrade) -> None:
        world = await settled()
        before = text(template(world))
        upgrade()
        annotate(world, "1")
        await world.settle()
        annotate(world, None)
        await world.settle()
        assert text(template(world)) == before

    async def test_it_takes_up_the_catalogue_as_it_is_now(self) -> None:
        world = await with_model()
        world.cluster.add(builders.gpt_model("small", uri="pvc://models/moved"))
        annotate(world, "1")
        await world.settle()
        assert "pvc://models/moved" in text(template(world))
        assert world.condition("Accepted")["reason"] == "Accepted"


class TestCatalogue:
    @staticmethod
    def replace(world: World) -> None:
        """Make the entry again under its name with other content."""
        world.cluster.objects["GPTModel", "", "small"]["spec"] = {"uri": "pvc://models/moved"}
        world.cluster.edit("GPTModel", "small")
        world.see()

    @staticmethod
    def delete(world: World) -> None:
        entry = world.store.get(("GPTModel", "", "small"))
        assert entry is not None
        del world.cluster.objects["GPTModel", "", "small"]
        world.store.discard(entry.key, entry.uid)

    @pytest.mark.parametrize("change", ["replace", "delete"])
    async def test_an_entry_that_changed_is_told_and_rolls_nothing(self, change: str) -> None:
        world = await with_model()
        getattr(self, change)(world)
        assert await world.run_pass() == [STATUS]
        assert world.condition("Accepted")["reason"] == "AcceptedWithWarnings"
        assert "ModelChanged: GPTModel small" in world.condition("Accepted")["message"]
        assert "RendererOutdated" not in world.condition("Accepted")["message"]
        assert world.body("GPTService")["status"]["effective"]["uri"] == "pvc://models/small"
        world.see()
        assert await world.run_pass() == []

    async def test_without_its_entry_it_is_scaled_and_repaired(self) -> None:
        world = await with_model()
        before = text(template(world))
        self.delete(world)
        await edited(world, replicas=3)
        assert world.body("Deployment")["spec"]["replicas"] == 3
        world.cluster.remove("Deployment", "chat")
        world.see(lost="Deployment")
        assert await world.run_pass() == ["Deployment"]
        assert text(template(world)) == before

    async def test_another_spec_needs_the_entry(self) -> None:
        world = await with_model()
        self.delete(world)
        await edited(world, maxTokens=7)
        assert world.condition("Accepted")["reason"] == "UnknownModel"

    async def test_one_that_never_was_stays_unknown(self) -> None:
        world = World(builders.service(spec=FROM_CATALOGUE))
        assert await world.run_pass() == [STATUS]
        assert world.condition("Accepted")["reason"] == "UnknownModel"
        assert revision_bodies(world) == {}

    async def test_the_same_entry_made_again_is_no_news(self) -> None:
        world = await with_model()
        self.delete(world)
        await world.settle()
        world.cluster.add(builders.gpt_model("small"))
        world.see()
        await world.settle()
        assert world.condition("Accepted")["reason"] == "Accepted"


class TestHistory:
    async def test_it_is_bounded(self) -> None:
        world = await settled()
        for number in range(1, 12):
            await edited(world, maxTokens=number)
        numbers = sorted(body["revision"] for body in revision_bodies(world).values())
        assert numbers == list(range(12 - HISTORY, 13))

    async def test_the_oldest_goes_after_the_deployment_was_written(self) -> None:
        world = await settled()
        for number in range(1, HISTORY + 1):
            await edited(world, maxTokens=number)
        assert await edited(world, maxTokens=99) == [REVISION, "Deployment", STATUS]
        # What the Deployment ran until this pass was still referred to when it began.
        assert len(revision_bodies(world)) == HISTORY + 1

    async def test_those_of_live_pods_and_the_stable_one_stay(self) -> None:
        world = await settled()
        first = key(world)
        await edited(world, maxTokens=1)
        second = names.controller_revision("chat", key(world))
        labels = {**names.labels("chat"), names.REVISION: first}
        world.cluster.add(builders.pod(ready=True, labels=labels, deletionTimestamp="2026-01-05T12:00:00Z"))
        world.cluster.edit("GPTService", "chat")["status"]["stableRevision"] = second
        world.see()
        for number in range(2, 12):
            await edited(world, maxTokens=number)
        kept = revision_bodies(world)
        assert {names.controller_revision("chat", first), second} <= set(kept)
        assert len(kept) == HISTORY + 3

    async def test_a_revision_of_another_owner_is_never_deleted(self) -> None:
        world = await settled()
        (body,) = copy.deepcopy(revision_bodies(world)).values()
        theirs = [names.owner_reference("chat", "a-former-one")]
        body["metadata"] |= {"name": "chat-theirs", "uid": "theirs", "ownerReferences": theirs}
        body["revision"] = 0
        world.cluster.add(body)
        world.see()
        for number in range(1, 12):
            await edited(world, maxTokens=number)
        assert "chat-theirs" in revision_bodies(world)

    async def test_a_deletion_that_fails_is_tried_again(self) -> None:
        world = await settled()
        world.cluster.failures["delete", REVISION] = errors.Transient("no answer")
        for number in range(1, 8):
            world.edit_spec(maxTokens=number)
            with contextlib.suppress(errors.Transient):
                await world.run_pass()
            world.see()
        assert len(revision_bodies(world)) == 8
        assert world.condition("Ready")["reason"] == "ApplyFailed"
        world.cluster.failures.clear()
        await world.settle()
        assert len(revision_bodies(world)) == HISTORY + 1


class TestLostRevision:
    @staticmethod
    def lose(world: World) -> str:
        name = names.controller_revision("chat", key(world))
        world.cluster.remove(REVISION, name)
        world.forget(REVISION, name)
        return name

    async def test_it_is_made_again_as_it_was(self) -> None:
        world = await settled()
        (before,) = copy.deepcopy(revision_bodies(world)).values()
        name = self.lose(world)
        assert await world.run_pass() == [REVISION]
        assert revision_bodies(world)[name]["data"] == before["data"]

    async def test_after_an_upgrade_it_is_made_from_what_runs(self, upgrade: Upgrade) -> None:
        world = await settled()
        before = text(template(world))
        upgrade()
        restart(world)
        await world.settle()
        name = self.lose(world)
        assert await world.run_pass() == [REVISION, "Deployment"]
        assert text(template(world)) == before, "nothing rolls"
        assert text(revision_bodies(world)[name]["data"]["template"]) == before
        world.see()
        assert await world.run_pass() == []
        assert "RendererOutdated" in world.condition("Accepted")["message"]

    async def test_a_restart_by_kubectl_is_not_kept(self, upgrade: Upgrade) -> None:
        """Else the next one would be taken back."""
        world = await settled()
        restarted = {"kubectl.kubernetes.io/restartedAt": "2026-01-05T11:00:00Z"}
        world.cluster.edit("Deployment", "chat")["spec"]["template"]["metadata"]["annotations"] = dict(restarted)
        world.see()
        assert await world.run_pass() == []
        upgrade()
        name = self.lose(world)
        await world.run_pass()
        assert "annotations" not in revision_bodies(world)[name]["data"]["template"]["metadata"]

    async def test_it_keeps_what_the_layers_had_come_to(self, upgrade: Upgrade) -> None:
        world = await settled()
        upgrade()
        self.lose(world)
        other = builders.config(runtime_cpu="7")
        other = dataclasses.replace(other, runtime_image="registry.example.com/other:2")
        await Reconciler(world.store, world.cluster.as_cluster(), other, now=_noon).reconcile(KEY)
        (body,) = revision_bodies(world).values()
        assert body["data"]["effective"]["image"] == body["data"]["image"] == builders.IMAGE
        assert world.body("GPTService")["status"]["effective"]["image"] == builders.IMAGE

    async def test_one_that_lost_our_label_is_found_not_made_anew(self, upgrade: Upgrade) -> None:
        world = await settled()
        upgrade()
        restart(world)
        await world.settle()
        before = text(template(world))
        ((name, body),) = revision_bodies(world).items()
        world.cluster.edit(REVISION, name)["metadata"]["labels"] = {}
        world.forget(REVISION, name)
        assert await world.run_pass() == [REVISION]
        assert revision_bodies(world)[name]["data"] == body["data"]
        assert names.labels("chat").items() <= revision_bodies(world)[name]["metadata"]["labels"].items()
        assert text(template(world)) == before

    async def test_one_with_other_content_is_refused_by_the_server_and_told(self) -> None:
        world = await settled()
        ((name, _),) = revision_bodies(world).items()
        world.cluster.edit(REVISION, name)["data"] = {"template": {"spec": {}}}
        world.see()
        world.edit_spec(replicas=3)
        assert await world.failing_pass(errors.Invalid) == ["PodDisruptionBudget", STATUS]
        assert world.condition("Ready")["reason"] == "ChildRejected"
        assert "kubectl delete" in world.condition("Ready")["message"]
        assert world.body("Deployment")["spec"]["replicas"] == 1
        world.cluster.remove(REVISION, name)
        world.forget(REVISION, name)
        assert await world.run_pass() == [REVISION, "Deployment", STATUS]


class TestFailures:
    @pytest.mark.parametrize("verb", ["get", "apply"])
    async def test_no_deployment_runs_what_could_not_be_kept(self, verb: str) -> None:
        world = await settled()
        before = text(template(world))
        world.edit_spec(maxTokens=7)
        world.cluster.failures[verb, REVISION] = errors.Transient("no answer")
        assert await world.failing_pass(errors.Transient) == [STATUS]
        assert text(template(world)) == before
        world.cluster.failures.clear()
        assert await world.run_pass() == [REVISION, "Deployment", STATUS]

    async def test_what_is_kept_is_scaled_though_its_number_cannot_be_written(self) -> None:
        world = await settled()
        await edited(world, maxTokens=7)
        world.cluster.failures["apply", REVISION] = errors.Waiting("apply ControllerRevision: forbidden")
        world.edit_spec(maxTokens=None, replicas=3)
        assert await world.failing_pass(errors.Waiting) == ["Deployment", "PodDisruptionBudget", STATUS]
        assert world.body("Deployment")["spec"]["replicas"] == 3
        assert revisions.key_of_template(template(world)) == key(world)

    async def test_a_name_that_is_taken_is_told_and_nothing_runs(self) -> None:
        name = names.controller_revision("chat", revisions.key(builders.service()))
        theirs: Body = {
            "kind": REVISION,
            "metadata": {"name": name, "namespace": NAMESPACE, "uid": "theirs"},
            "data": {},
        }
        world = World(builders.service(), theirs)
        assert await world.failing_pass(errors.Conflict) == [*others(REVISION), STATUS]
        assert world.condition("Accepted")["reason"] == "NameConflict"


class CrashError(BaseException):
    """The process ends in the middle of a pass."""


class TestCrashes:
    @staticmethod
    async def crash_after(world: World, writes: int) -> None:
        """Run a pass that ends right after so many writes have arrived, before anything hears of the last one."""
        real = {verb: getattr(world.cluster, verb) for verb in ("apply", "delete", "apply_status")}

        def crashing(verb: str) -> Callable[..., Any]:
            async def call(*args: Any, **kwargs: Any) -> Any:
                reply = await real[verb](*args, **kwargs)
                if len(world.cluster.writes) >= writes:
                    raise CrashError
                return reply

            return call

        for verb in real:
            setattr(world.cluster, verb, crashing(verb))
        with pytest.raises(CrashError):
            await world.reconciler().reconcile(KEY)
        for verb, call in real.items():
            setattr(world.cluster, verb, call)
        world.cluster.written()

    @pytest.mark.parametrize("writes", range(1, 6))
    async def test_a_first_pass_is_finished_by_the_next_process_even_of_another_version(
        self, upgrade: Upgrade, writes: int
    ) -> None:
        expected = await settled()
        world = World(builders.service())
        await self.crash_after(world, writes)
        was_kept = bool(revision_bodies(world))
        upgrade()
        restart(world)
        await world.settle()
        assert was_kept == (writes >= 1 + CHILDREN.index(REVISION))
        assert (text(template(world)) == text(template(expected))) == was_kept
        assert len(revision_bodies(world)) == 1

    @pytest.mark.parametrize("writes", [1, 2, 3])
    async def test_an_edit_is_finished_by_the_next_process(self, writes: int) -> None:
        expected, world = await settled(), await settled()
        await edited(expected, maxTokens=7)
        world.edit_spec(maxTokens=7)
        await self.crash_after(world, writes)
        assert names.controller_revision("chat", key(world)) in revision_bodies(world), "kept before it runs"
        restart(world)
        await world.settle()
        assert text(template(world)) == text(template(expected))
        assert {name: body["data"] for name, body in revision_bodies(world).items()} == {
            name: body["data"] for name, body in revision_bodies(expected).items()
        }

    async def test_a_history_half_cut_is_cut_by_the_next_process(self) -> None:
        world = await settled()
        world.cluster.failures["delete", REVISION] = errors.Transient("no answer")
        for number in range(1, 10):
            world.edit_spec(maxTokens=number)
            with contextlib.suppress(errors.Transient):
                await world.reconciler().reconcile(KEY)
            world.see()
        world.cluster.failures.clear()
        world.cluster.written()
        await self.crash_after(world, 1)
        restart(world)
        await world.settle()
        assert len(revision_bodies(world)) == HISTORY + 1


class TestStableRevision:
    @staticmethod
    def run_pods(world: World, *, ready_at: str, replicas: int = 1) -> None:
        """Have the Deployment's pods be ready since then."""
        status = {"replicas": replicas, "updatedReplicas": replicas, "readyReplicas": replicas}
        world.cluster.edit("Deployment", "chat")["status"] = {"observedGeneration": 1, **status}
        for number in range(replicas):
            labels = {**names.labels("chat"), names.REVISION: key(world)}
            body = builders.pod(f"chat-6d4c-{number}", ready=True, labels=labels)
            body["status"]["conditions"][-1]["lastTransitionTime"] = ready_at
            world.cluster.add(body)
        world.see()

    @staticmethod
    async def look(world: World) -> tuple[float | None, str | None]:
        """Run a pass; return when it wants to look again, and what is stable by its word."""
        again = await world.reconciler().reconcile(KEY)
        world.cluster.written()
        return again, world.body("GPTService")["status"].get("stableRevision")

    async def test_the_pass_comes_back_when_the_time_is_over_and_never_after_that(self) -> None:
        world = await settled()
        name = names.controller_revision("chat", key(world))
        world.seconds = 60
        self.run_pods(world, ready_at="2026-01-05T12:00:01Z")
        assert await self.look(world) == (60, None)
        world.seconds = 120
        assert await self.look(world) == (None, name)
        assert await self.look(world) == (None, name)
        assert await world.run_pass() == []

    async def test_a_restart_forgets_nothing(self) -> None:
        world = await settled()
        self.run_pods(world, ready_at="2026-01-05T12:00:00Z")
        world.seconds = 99
        assert await self.look(world) == (20, None)
        restart(world)
        world.seconds = 119
        assert await self.look(world) == (None, names.controller_revision("chat", key(world)))

    async def test_a_new_revision_has_to_prove_itself_the_former_one_stays_stable(self) -> None:
        world = await settled()
        self.run_pods(world, ready_at="2026-01-05T11:00:00Z")
        _, first = await self.look(world)
        await edited(world, maxTokens=7)
        assert (await self.look(world)) == (None, first)
        assert first is not None

    async def test_a_refused_edit_takes_nothing_from_what_runs(self) -> None:
        world = await settled()
        self.run_pods(world, ready_at="2026-01-05T12:00:00Z")
        world.seconds = 59
        world.edit_spec(engine={"args": ["--port=1"]})
        assert await self.look(world) == (60, None)
        world.seconds = 119
        assert await self.look(world) == (None, next(iter(revision_bodies(world))))

    async def test_a_failed_status_write_is_retried(self) -> None:
        world = await settled()
        self.run_pods(world, ready_at="2026-01-05T11:00:00Z")
        world.cluster.failures["status", "GPTService"] = errors.Transient("no answer")
        await world.failing_pass(errors.Transient)
        world.cluster.failures.clear()
        assert (await self.look(world))[1] == names.controller_revision("chat", key(world))


def _noon() -> datetime.datetime:
    return datetime.datetime(2026, 1, 5, 12, 0, 0, tzinfo=datetime.UTC)


def _without(spec: Body, name: str) -> Body:
    return {key: value for key, value in spec.items() if key != name}
