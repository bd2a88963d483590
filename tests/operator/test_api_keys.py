"""API keys in whole passes: the Secret before the Deployment, once, whatever happens in between."""

import copy
from typing import Any

import pytest

from gptservice_operator import errors, names
from gptservice_operator.reconcile import Reconciler
from gptservice_operator.store import Store
from tests.operator import builders
from tests.operator.builders import NAMESPACE, Body, condition, container, pod
from tests.operator.test_reconcile import CHILDREN, KEY, STATUS, World, settled

SECRET = names.key_secret("chat", builders.uid_of("GPTService", "chat"))
THEIRS: Body = {"apiKeys": {"secretRef": {"name": "team-keys"}}}
DISABLED: Body = {"disabled": True}
GENERATE: Body = {"apiKeys": {"generate": True}}


def posted(world: World) -> list[str]:
    """Return the Secrets that were asked for since this was last asked."""
    posts = list(world.cluster.posts)
    world.cluster.posts.clear()
    return posts


def data(world: World) -> Body:
    found: Body = world.cluster.secrets[SECRET]["data"]
    return dict(found)


def volume(world: World) -> str | None:
    """Return the Secret that the pods of the live Deployment mount."""
    volumes = world.body("Deployment")["spec"]["template"]["spec"]["volumes"]
    return next((one["secret"]["secretName"] for one in volumes if "secret" in one), None)


class TestOnce:
    async def test_one_secret_is_made_and_named_in_deployment_and_status(self) -> None:
        world = World(builders.service())
        await world.run_pass()
        assert posted(world) == [SECRET]
        assert set(world.cluster.secrets) == {SECRET}
        assert world.body("Deployment")["metadata"]["annotations"][names.KEY_SECRET] == SECRET
        assert (volume(world), world.body("GPTService")["status"]["authSecret"]) == (SECRET, SECRET)

    async def test_no_later_pass_asks_for_it_again(self) -> None:
        world = await settled()
        posted(world)
        world.edit_spec(replicas=3)
        for _ in range(3):
            await world.run_pass()
            world.see()
        assert posted(world) == []

    async def test_nor_does_one_after_a_restart(self) -> None:
        world = await settled()
        posted(world)
        world.store = world.cluster.fill(Store())
        assert await world.run_pass() == []
        assert posted(world) == []

    async def test_the_value_is_not_in_the_store_or_in_any_write(self) -> None:
        world = World(builders.service())
        await world.reconciler().reconcile(KEY)
        (value,) = data(world).values()
        assert value not in str(world.cluster.writes)
        assert "Secret" not in [write.kind for write in world.cluster.writes]
        assert world.store.get(("Secret", NAMESPACE, SECRET)) is None

    @pytest.mark.parametrize("auth", [THEIRS, DISABLED], ids=["the user's", "none"])
    async def test_nothing_is_made_where_none_is_wanted(self, auth: Body) -> None:
        world = await settled({"model": "pvc://m/x", "auth": auth})
        assert posted(world) == []
        assert volume(world) == auth.get("apiKeys", {}).get("secretRef", {}).get("name")

    async def test_nothing_is_made_for_a_service_that_is_refused(self) -> None:
        world = await settled({"model": "https://host/folder"})
        assert posted(world) == []

    async def test_or_that_is_gone(self) -> None:
        world = World(builders.service())
        world.cluster.remove("GPTService", "chat")
        await world.run_pass()
        assert posted(world) == []

    async def test_or_whose_deployment_cannot_be_made(self) -> None:
        foreign: Body = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {}}
        reported = {**builders.service(), "status": {"observedGeneration": 1}}
        world = World(reported, {**foreign, "metadata": {"name": "chat", "namespace": NAMESPACE, "uid": "theirs"}})
        await world.failing_pass(errors.Conflict)
        assert posted(world) == []


class TestFailures:
    @pytest.mark.parametrize(
        ("error", "reason"),
        [
            pytest.param(errors.Waiting("create Secret: exceeded quota: secrets"), "QuotaExceeded", id="quota"),
            pytest.param(errors.Waiting("create Secret: secrets is forbidden"), "Forbidden", id="forbidden"),
            pytest.param(errors.Transient("create Secret: no answer"), "ApplyFailed", id="no answer"),
            pytest.param(errors.Invalid("create Secret: denied"), "InvalidSpec", id="refused"),
        ],
    )
    async def test_without_it_no_deployment_is_written_but_everything_else(
        self, error: errors.OperatorError, reason: str
    ) -> None:
        world = World(builders.service())
        world.cluster.failures["create", "Secret"] = error
        others = [kind for kind in CHILDREN if kind != "Deployment"]
        assert await world.failing_pass(type(error)) == [*others, STATUS]
        assert world.condition("Ready")["reason"] == reason
        assert str(error) in world.condition("Ready")["message"]
        world.cluster.failures.clear()
        assert await world.run_pass() == ["Deployment", STATUS]
        assert set(world.cluster.secrets) == {SECRET}

    async def test_after_a_crash_between_the_two_the_first_key_stays(self) -> None:
        world = World(builders.service())
        world.cluster.failures["apply", "Deployment"] = ZeroDivisionError()  # type: ignore[assignment]
        with pytest.raises(ZeroDivisionError):
            await world.reconciler().reconcile(KEY)
        before = data(world)
        world.cluster.failures.clear()
        world.store = world.cluster.fill(Store())
        await world.settle()
        assert posted(world) == [SECRET, SECRET]
        assert data(world) == before
        assert world.body("Deployment")["metadata"]["annotations"][names.KEY_SECRET] == SECRET

    async def test_a_deployment_that_cannot_be_looked_at_waits_with_its_key(self) -> None:
        world = World({**builders.service(), "status": {"observedGeneration": 1}})
        world.cluster.failures["get", "Deployment"] = errors.Transient("no answer")
        await world.failing_pass(errors.Transient)
        assert posted(world) == []

    async def test_a_namespace_that_is_being_deleted_is_no_failure(self) -> None:
        world = World(builders.service())
        world.cluster.failures["create", "Secret"] = errors.Absent("namespace is being terminated")
        for kind in CHILDREN:
            world.cluster.failures["apply", kind] = errors.Absent("namespace is being terminated")
        world.cluster.failures["status", "GPTService"] = errors.Absent("gone")
        assert await world.run_pass() == []


class TestLostTraces:
    async def test_an_annotation_that_was_taken_off_is_put_back_and_the_key_stays(self) -> None:
        world = await settled()
        before = data(world)
        posted(world)
        del world.cluster.edit("Deployment", "chat")["metadata"]["annotations"][names.KEY_SECRET]
        world.see()
        assert await world.run_pass() == ["Deployment"]
        assert (posted(world), data(world)) == ([SECRET], before)
        world.see()
        assert await world.run_pass() == []
        assert posted(world) == []

    async def test_a_deployment_of_before_there_were_keys_gets_them(self) -> None:
        """As after an upgrade of the operator: the pods roll."""
        world = await settled()
        world.cluster.secrets.clear()
        posted(world)
        old = copy.deepcopy(world.body("Deployment"))
        del old["metadata"]["annotations"]
        old["spec"]["template"]["spec"]["volumes"] = [
            one for one in old["spec"]["template"]["spec"]["volumes"] if one["name"] != "keys"
        ]
        world.cluster.add(old)
        world.see()
        assert await world.run_pass() == ["Deployment"]
        assert (posted(world), volume(world)) == ([SECRET], SECRET)

    async def test_a_deployment_that_was_deleted_is_made_again_with_the_same_key(self) -> None:
        world = await settled()
        before = data(world)
        world.cluster.remove("Deployment", "chat")
        world.see(lost="Deployment")
        assert await world.run_pass() == ["Deployment"]
        assert data(world) == before


async def test_back_and_forth_between_the_kinds_of_keys() -> None:
    world = await settled()
    before = data(world)
    posted(world)
    for auth, mounted in ((THEIRS, "team-keys"), (DISABLED, None), (GENERATE, SECRET), (THEIRS, "team-keys")):
        world.edit_spec(auth=auth)
        await world.settle()
        assert volume(world) == mounted
        assert world.body("GPTService")["status"].get("authSecret") == mounted
        annotations = world.body("Deployment")["metadata"]["annotations"]
        assert annotations.get(names.KEY_SECRET) == (SECRET if mounted == SECRET else None)
    assert posted(world) == [SECRET], "once, when it was wanted again"
    assert data(world) == before, "clients' keys still open the door"


class Stuck(World):
    """A settled service with a pod that waits for a Secret, and one operator that remembers what it has looked at."""

    def __init__(self, *bodies: Body) -> None:
        super().__init__(*bodies)
        self._reconciler: Reconciler | None = None

    def reconciler(self, store: Store | None = None) -> Reconciler:
        self._reconciler = self._reconciler or super().reconciler(store)
        return self._reconciler

    def miss(self, secret: str) -> None:
        scheduled = condition("PodScheduled", "True", lastTransitionTime="2026-01-05T11:59:00Z")
        waiting = container(waiting={"reason": "PodInitializing"})
        body = self.cluster.add(pod(conditions=[scheduled], containers=[waiting]))
        message = f'MountVolume.SetUp failed for volume "keys" : secret "{secret}" not found'
        event: dict[str, Any] = {"reason": "FailedMount", "message": message, "lastTimestamp": "2026-01-05T12:00:00Z"}
        self.cluster.pod_events[body["metadata"]["uid"]] = [event]
        self.see()


async def stuck(secret: str, spec: Body | None = None) -> Stuck:
    world = Stuck(builders.service(spec=spec))
    await world.settle()
    world.cluster.secrets.clear()
    posted(world)
    world.miss(secret)
    return world


class TestStuckPods:
    async def test_a_secret_of_ours_that_was_deleted_is_made_again(self) -> None:
        world = await stuck(SECRET)
        assert await world.reconciler().reconcile(KEY) == 15
        assert posted(world) == [SECRET]
        assert set(world.cluster.secrets) == {SECRET}
        assert world.condition("Ready")["reason"] == "PodsStarting", "there is nothing for a person to do"

    async def test_once_per_look(self) -> None:
        world = await stuck(SECRET)
        for _ in range(4):
            await world.reconciler().reconcile(KEY)
        assert posted(world) == [SECRET]
        assert len(world.cluster.looks) == 1

    async def test_one_that_cannot_be_made_again_is_told(self) -> None:
        world = await stuck(SECRET)
        world.cluster.failures["create", "Secret"] = errors.Waiting("create Secret: exceeded quota: secrets")
        await world.failing_pass(errors.Waiting)
        assert world.condition("Ready")["reason"] == "QuotaExceeded"

    @pytest.mark.parametrize(
        "spec",
        [
            pytest.param({"model": "pvc://m/x", "auth": THEIRS}, id="their keys"),
            pytest.param({"model": "pvc://m/x"}, id="beside our key"),
            pytest.param({"model": "pvc://m/x", "auth": DISABLED}, id="without keys"),
        ],
    )
    async def test_a_secret_of_theirs_is_never_made_but_told(self, spec: Body) -> None:
        world = await stuck("team-keys", spec)
        await world.reconciler().reconcile(KEY)
        assert posted(world) == []
        assert world.cluster.secrets == {}
        assert world.condition("Ready")["reason"] == "SecretNotFound"
        assert 'secret "team-keys" not found' in world.condition("Ready")["message"]
        assert world.condition("Degraded")["status"] == "False", "it heals by itself"

    async def test_a_name_like_ours_is_not_made_for_a_service_that_has_none(self) -> None:
        world = await stuck(SECRET, {"model": "pvc://m/x", "auth": DISABLED})
        await world.reconciler().reconcile(KEY)
        assert posted(world) == []

    async def test_the_reason_lasts_between_looks_and_nothing_is_written(self) -> None:
        world = await stuck("team-keys", {"model": "pvc://m/x", "auth": THEIRS})
        await world.run_pass()
        world.see()
        assert await world.run_pass() == []
        assert len(world.cluster.looks) == 1

    async def test_it_ends_with_the_pod_s_start(self) -> None:
        world = await stuck("team-keys", {"model": "pvc://m/x", "auth": THEIRS})
        await world.run_pass()
        world.cluster.add(pod(containers=[container("engine", running={})], phase="Running"))
        world.see()
        assert await world.reconciler().reconcile(KEY) is None
        assert world.condition("Ready")["reason"] == "ModelLoading"

    async def test_events_that_cannot_be_read_stop_nothing(self) -> None:
        """As under the role of an older chart."""
        world = await stuck("team-keys", {"model": "pvc://m/x", "auth": THEIRS})
        world.cluster.failures["events", "Event"] = errors.Waiting("list Event: forbidden")
        assert await world.run_pass() == [STATUS]
        assert world.condition("Ready")["reason"] == "PodsStarting"

    async def test_a_service_that_is_deleted_is_forgotten(self) -> None:
        world = await stuck("team-keys", {"model": "pvc://m/x", "auth": THEIRS})
        await world.run_pass()
        world.cluster.edit("GPTService", "chat")["metadata"]["deletionTimestamp"] = "2026-01-05T12:00:00Z"
        world.see()
        await world.run_pass()
        assert not world.reconciler().mounts._pods
