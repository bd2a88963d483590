"""What is beside the pods, given what is there already; and whole passes that make, mend and keep it."""

from typing import Any

import pytest

from gptservice_operator import companions, exposed, names, parse, render
from gptservice_operator.actions import child_key
from gptservice_operator.api import kinds
from gptservice_operator.render.resolved import Companions, Issuer, Refusal
from gptservice_operator.store import Observed
from tests.operator import builders
from tests.operator.builders import Body
from tests.operator.test_reconcile import KEY, STATUS, World

OWNER = builders.uid_of("GPTService", "chat")
CLAIM = ("PersistentVolumeClaim", "chat-cache-a2f0cffa")
BUDGET = ("PodDisruptionBudget", "chat")


def live_claim(size: Any, *, controller: str | None = OWNER) -> companions.Seen:
    body: Body = {"spec": {"resources": {"requests": {"storage": size}}}}
    return companions.Seen({CLAIM: Observed("u", controller, body)})


def beside(seen: companions.Seen = companions.NOTHING_SEEN, **spec: Any) -> Companions:
    outcome = builders.resolved({"model": "pvc://models/m", **spec}, seen=seen)
    assert set(outcome.companions.warnings) <= set(outcome.warnings)
    return outcome.companions


class TestSizeOfTheCache:
    @pytest.mark.parametrize(
        ("wanted", "live", "applied"),
        [
            pytest.param("10Gi", "5Gi", "10Gi", id="it grows"),
            pytest.param("10Gi", "10Gi", "10Gi", id="it stays"),
            pytest.param("10Gi", "10240Mi", "10Gi", id="the same in other words"),
            pytest.param("5Gi", "10Gi", "10Gi", id="it never shrinks"),
            pytest.param("10G", "10Gi", "10Gi", id="not by a little either"),
            pytest.param(5, "10Gi", "10Gi", id="nor by a number"),
        ],
    )
    def test_the_larger_of_spec_and_live_is_applied(self, wanted: Any, live: str, applied: str) -> None:
        found = beside(live_claim(live), cache={"size": wanted})
        assert found.cache_claim is not None
        assert found.cache_claim.size == applied
        assert bool(found.warnings) is (applied != str(wanted))

    def test_a_smaller_one_is_a_warning_with_both_sizes(self) -> None:
        (warning,) = beside(live_claim("10Gi"), cache={"size": "5Gi"}).warnings
        assert warning.startswith("spec.cache.size 5Gi ")
        assert "10Gi" in warning

    @pytest.mark.parametrize(
        "seen",
        [
            pytest.param(companions.NOTHING_SEEN, id="there is none"),
            pytest.param(live_claim("10Gi", controller=None), id="it is nobody's"),
            pytest.param(live_claim("10Gi", controller="a-former-one"), id="it is a former one's"),
            pytest.param(live_claim("lots"), id="its size is no quantity"),
            pytest.param(live_claim(None), id="it has no size"),
        ],
    )
    def test_what_is_no_size_of_ours_does_not_count(self, seen: companions.Seen) -> None:
        found = beside(seen, cache={"size": "5Gi"})
        assert found.cache_claim is not None
        assert (found.cache_claim.size, found.warnings) == ("5Gi", ())

    def test_the_claim_of_another_class_is_not_this_one(self) -> None:
        found = beside(live_claim("10Gi"), cache={"size": "5Gi", "storageClassName": "fast"})
        assert found.cache_claim is not None
        assert found.cache_claim.size == "5Gi"


@pytest.mark.parametrize(
    ("cache", "name", "made"),
    [
        pytest.param(None, None, False, id="none"),
        pytest.param({"size": "1Gi"}, CLAIM[1], True, id="one of ours"),
        pytest.param({"persistentVolumeClaim": {"claimName": "weights"}}, "weights", False, id="the user's"),
    ],
)
def test_which_claim_is_mounted_and_whether_it_is_made(cache: Body | None, name: str | None, made: bool) -> None:
    found = beside(**({} if cache is None else {"cache": cache}))
    assert (found.cache_claim_name, found.cache_claim is not None) == (name, made)


@pytest.mark.parametrize(
    ("spec", "least"),
    [
        pytest.param({}, 1, id="the default"),
        pytest.param({"replicas": 4}, 4, id="a fixed number"),
        pytest.param({"replicas": 4, "autoscaling": {"maxReplicas": 8}}, 1, id="autoscaling begins at one"),
        pytest.param({"replicas": 1, "autoscaling": {"minReplicas": 3, "maxReplicas": 8}}, 3, id="or at its least"),
        pytest.param({"replicas": 0, "autoscaling": {"minReplicas": 3, "maxReplicas": 8}}, 0, id="stopped"),
    ],
)
def test_how_many_replicas_are_guaranteed(spec: Body, least: int) -> None:
    parsed = parse.parse(builders.service(spec={"model": "pvc://models/m", **spec}))
    assert not isinstance(parsed, Refusal)
    assert parsed.guaranteed_replicas == least


ISSUER = {"issuerRef": {"name": "internal"}}


class TestCertificate:
    def test_the_issuer_is_one_of_the_namespace_unless_said_otherwise(self) -> None:
        assert beside(builders.EVERYTHING_SERVED, tls=ISSUER).issuer == Issuer("internal", "Issuer", "cert-manager.io")
        other = {"name": "corp", "kind": "ClusterIssuer", "group": "awspca.cert-manager.io"}
        found = beside(builders.EVERYTHING_SERVED, tls={"issuerRef": other})
        assert found.issuer == Issuer("corp", "ClusterIssuer", "awspca.cert-manager.io")

    @pytest.mark.parametrize("tls", [None, {"secretName": "mine"}])
    def test_without_an_issuer_there_is_none(self, tls: Body | None) -> None:
        found = beside(builders.EVERYTHING_SERVED, **({} if tls is None else {"tls": tls}))
        assert (found.issuer, found.warnings) == (None, ())

    def test_where_nothing_would_issue_it_that_is_said(self) -> None:
        found = beside(companions.Seen(served=frozenset({kinds.POD_MONITOR})), tls=ISSUER)
        assert found.issuer is None
        (warning,) = found.warnings
        assert warning.startswith("spec.tls.issuerRef: nothing issues the certificate")
        assert "cert-manager.io/v1" in warning


class TestPodMonitor:
    @pytest.mark.parametrize(
        ("monitoring", "served", "made", "warned"),
        [
            pytest.param(None, True, True, False, id="by default"),
            pytest.param({}, True, True, False, id="nothing said"),
            pytest.param({"podMonitor": "Enabled"}, True, True, False, id="asked for"),
            pytest.param({"podMonitor": "Disabled"}, True, False, False, id="switched off"),
            pytest.param(None, False, False, False, id="no Prometheus operator, and nobody asked"),
            pytest.param({"podMonitor": "Disabled"}, False, False, False, id="no Prometheus operator, nor wanted"),
            pytest.param({"podMonitor": "Enabled"}, False, False, True, id="asked for in vain"),
        ],
    )
    def test_it_is_made_where_it_can_be_and_missed_where_it_was_asked_for(
        self, monitoring: Body | None, served: bool, made: bool, warned: bool
    ) -> None:
        seen = companions.Seen(served=frozenset({kinds.POD_MONITOR} if served else ()))
        found = beside(seen, **({} if monitoring is None else {"monitoring": monitoring}))
        assert found.has_pod_monitor is made
        assert ["no PodMonitor CRD" in text for text in found.warnings] == [True] * warned


def spec_with_all(**more: Any) -> Body:
    return {
        "model": "pvc://models/m",
        "replicas": 2,
        "cache": {"size": "10Gi", "accessModes": ["ReadWriteMany"]},
        "tls": ISSUER,
        **more,
    }


EVERY_CHILD = [
    child_key(manifest)
    for manifest in render.render(builders.resolved(spec_with_all(), seen=builders.EVERYTHING_SERVED))
]


async def world_with(*bodies: Body) -> World:
    """Return a cluster that has all kinds, and an operator that knows."""
    world = World(*bodies)
    world.cluster.served = set(kinds.OPTIONAL)
    await world.discovery.refresh(world.cluster.as_cluster())
    return world


async def settled(**more: Any) -> World:
    world = await world_with(builders.service(spec=spec_with_all(**more)))
    await world.settle()
    return world


def test_these_services_have_a_child_of_every_kind() -> None:
    """But for the autoscaler, which goes with the Deployment."""
    assert {kind for kind, _ in EVERY_CHILD} == {kind.name for kind in kinds.CHILDREN} - {kinds.HPA.name}


FORMER, OWN = "chat-tls", names.certificate_secret("chat", OWNER)


def live_certificate(secret: str, *, controller: str = OWNER) -> companions.Seen:
    return companions.Seen({("Certificate", "chat"): Observed("u", controller, {"spec": {"secretName": secret}})})


class TestSecretOfTheCertificate:
    """cert-manager writes over whatever has its name, and pods go on with the one that they mount."""

    @pytest.mark.parametrize(
        ("seen", "name"),
        [
            pytest.param(builders.EVERYTHING_SERVED, OWN, id="a new service: nobody else uses that name"),
            pytest.param(live_certificate(FORMER), FORMER, id="of version 0.1"),
            pytest.param(live_certificate(OWN), OWN, id="it is there"),
            pytest.param(live_certificate("other"), OWN, id="somebody has changed it"),
            pytest.param(live_certificate(FORMER, controller="theirs"), OWN, id="somebody else's"),
            pytest.param(companions.Seen(mounted_certificate=FORMER), FORMER, id="pods of version 0.1 alone"),
            pytest.param(companions.Seen(mounted_certificate="users-own"), OWN, id="pods with a user's"),
        ],
    )
    def test_it_is_the_services_own_or_the_one_that_its_pods_have(self, seen: companions.Seen, name: str) -> None:
        assert beside(seen, tls=ISSUER).certificate_secret == name


def named(world: World) -> set[str | None]:
    """Return the Secrets that the Certificate fills and that the pods mount."""
    certificate, deployment = world.cluster.get_body("Certificate", "chat"), world.body("Deployment")
    assert certificate is not None
    return {certificate["spec"]["secretName"], exposed.secret(deployment["spec"]["template"], "tls")}


class TestAServiceOfVersion01:
    """Its Certificate and its pods name a Secret that a user's could have the name of."""

    @staticmethod
    async def world(monkeypatch: pytest.MonkeyPatch, **more: Any) -> World:
        with monkeypatch.context() as before:
            before.setattr(names, "certificate_secret", lambda name, _: names.former_certificate_secret(name))
            world = await settled(**more)
        assert named(world) == {FORMER}
        return world

    async def test_an_upgrade_of_the_operator_writes_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        world = await self.world(monkeypatch)
        assert await world.run_pass() == []

    async def test_another_revision_goes_on_with_the_same(self, monkeypatch: pytest.MonkeyPatch) -> None:
        world = await self.world(monkeypatch)
        world.edit_spec(maxTokens=7)
        assert "Certificate" not in await world.run_pass()
        assert named(world) == {FORMER}

    async def test_a_certificate_that_was_deleted_comes_back_for_its_pods(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        world = await self.world(monkeypatch)
        world.cluster.remove("Certificate", "chat")
        world.forget("Certificate", "chat")
        assert await world.run_pass() == ["Certificate"]
        assert named(world) == {FORMER}

    async def test_and_so_it_does_when_nothing_is_kept_of_them(self, monkeypatch: pytest.MonkeyPatch) -> None:
        world = await self.world(monkeypatch)
        (revision,) = [name for kind, _, name in world.cluster.objects if kind == "ControllerRevision"]
        for child in (("Certificate", "chat"), ("ControllerRevision", revision)):
            world.cluster.remove(*child)
            world.forget(*child)
        await world.run_pass()
        assert named(world) == {FORMER}

    async def test_a_users_secret_of_that_name_is_not_written_over(self) -> None:
        """The pods used it before; that is no reason to have a certificate issued into it."""
        world = await settled(tls={"secretName": FORMER})
        world.edit_spec(tls=ISSUER)
        await world.run_pass()
        assert named(world) == {OWN}


class TestPasses:
    @pytest.mark.parametrize("child", EVERY_CHILD, ids="/".join)
    async def test_a_deleted_child_is_made_again(self, child: tuple[str, str]) -> None:
        world = await settled()
        world.cluster.remove(*child)
        world.forget(*child)
        assert await world.run_pass() == [child[0]]
        assert world.cluster.get_body(*child)
        world.see()
        assert await world.run_pass() == []

    @pytest.mark.parametrize("child", EVERY_CHILD, ids="/".join)
    async def test_what_others_put_beside_stays(self, child: tuple[str, str]) -> None:
        world = await settled()
        world.cluster.edit(*child)["metadata"]["annotations"]["example.org/theirs"] = "yes"
        world.see()
        assert await world.run_pass() == []

    @pytest.mark.parametrize("child", EVERY_CHILD, ids="/".join)
    async def test_an_object_of_somebody_else_is_not_touched(self, child: tuple[str, str]) -> None:
        world = await world_with(builders.service(spec=spec_with_all()))
        kind, name = child
        foreign: Body = {"apiVersion": builders.KINDS[kind].api_version, "kind": kind}
        before = world.cluster.add({**foreign, "metadata": {"name": name, "namespace": KEY[0], "uid": "theirs"}})
        with pytest.raises(Exception, match="belongs to somebody else"):
            await world.reconciler().reconcile(KEY)
        assert world.cluster.get_body(kind, name) == before
        assert world.condition("Accepted")["reason"] == "NameConflict"
        # A Deployment runs nothing that is not kept.
        held = 2 if kind == "ControllerRevision" else 1
        assert len(world.cluster.written()) == len(EVERY_CHILD) - held + len([STATUS])

    async def test_a_smaller_cache_is_said_and_nothing_is_written_to_the_claim(self) -> None:
        world = await settled(cache={"size": "10Gi"}, replicas=1)
        world.edit_spec(cache={"size": "5Gi"})
        assert await world.run_pass() == [STATUS]
        condition = world.condition("Accepted")
        assert (condition["status"], condition["reason"]) == ("True", "AcceptedWithWarnings")
        assert "spec.cache.size 5Gi" in condition["message"]
        world.see()
        assert await world.run_pass() == []

    async def test_a_claim_that_somebody_enlarged_keeps_its_size(self) -> None:
        world = await settled(cache={"size": "10Gi"}, replicas=1)
        world.cluster.edit(*CLAIM)["spec"]["resources"]["requests"]["storage"] = "20Gi"
        world.see()
        await world.settle()
        claim = world.cluster.get_body(*CLAIM)
        assert claim is not None
        assert claim["spec"]["resources"]["requests"]["storage"] == "20Gi"

    async def test_another_class_makes_another_claim_and_the_first_is_kept(self) -> None:
        world = await settled(cache={"size": "10Gi"}, replicas=1)
        world.edit_spec(cache={"size": "10Gi", "storageClassName": "fast"})
        assert await world.run_pass() == ["PersistentVolumeClaim", "ControllerRevision", "Deployment", STATUS]
        assert world.cluster.get_body(*CLAIM)

    async def test_the_claim_is_kept_when_the_cache_is_taken_out_of_the_spec(self) -> None:
        world = await settled(cache={"size": "10Gi"}, replicas=1)
        del world.cluster.edit("GPTService", "chat")["spec"]["cache"]
        world.see()
        await world.settle()
        assert world.cluster.get_body(*CLAIM)


class TestKindsThatComeAndGo:
    async def test_a_service_is_complete_without_them(self) -> None:
        world = World(builders.service(spec=spec_with_all(monitoring={"podMonitor": "Enabled"})))
        written = await world.run_pass()
        assert not {kind.name for kind in kinds.OPTIONAL} & set(written)
        said = world.condition("Accepted")["message"]
        assert "nothing issues the certificate" in said
        assert "no PodMonitor CRD" in said

    async def test_they_are_made_once_they_are_served_and_the_warning_ends(self) -> None:
        world = World(builders.service(spec=spec_with_all(monitoring={"podMonitor": "Enabled"})))
        await world.settle()
        world.cluster.served = set(kinds.OPTIONAL)
        assert await world.discovery.refresh(world.cluster.as_cluster())
        assert await world.run_pass() == ["Certificate", "PodMonitor", STATUS]
        assert "CRD" not in world.condition("Accepted")["message"]
        world.see()
        assert await world.run_pass() == []

    async def test_an_answer_that_fails_for_a_moment_takes_nothing_away(self) -> None:
        """What is not rendered is deleted: a certificate that is in use must not depend on one answer."""
        world = await settled(monitoring={"podMonitor": "Enabled"})
        world.discovery.served = frozenset()
        assert await world.run_pass() == []
        assert "CRD" not in world.condition("Accepted")["message"]
        seen = companions.Seen({(kind.name, "chat"): Observed("u", OWNER, {}) for kind in kinds.OPTIONAL})
        found = {m["kind"] for m in render.render(builders.resolved(spec_with_all(), seen=seen))}
        assert {kind.name for kind in kinds.OPTIONAL} <= found

    async def test_a_kind_that_went_since_it_was_asked_for_is_no_failure(self) -> None:
        """The next resync knows; until then nothing is made of it, and everything else goes on."""
        world = await settled()
        world.cluster.served = set()
        for kind in kinds.OPTIONAL:
            world.cluster.remove(kind.name, "chat")
            world.forget(kind.name, "chat")
        world.edit_spec(replicas=3)
        assert await world.run_pass() == ["Deployment", STATUS]
