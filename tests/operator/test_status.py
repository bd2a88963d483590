"""The status, as a function of what was decided and observed: every phase with its five conditions."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from gptservice_operator import causes, names, render, revisions, status
from gptservice_operator.api import conditions
from gptservice_operator.api.conditions import Reason
from gptservice_operator.api.status import GPTServiceStatus
from gptservice_operator.cause import Cause, Complaint
from gptservice_operator.render import controller_revision
from gptservice_operator.render.resolved import Refusal, Resolved
from gptservice_operator.status import Facts
from tests.operator import builders
from tests.operator.builders import Body, container, pod

NOW = "2026-01-05T12:00:00Z"
EARLIER = "2026-01-05T09:00:00Z"

SPEC: Body = {"model": "pvc://models/m", "replicas": 3}
READY = {"replicas": 3, "updatedReplicas": 3, "readyReplicas": 3, "availableReplicas": 3}
LOADING = pod(containers=[container(running={})])
CRASHED = pod("crashed", containers=[container(terminated={"exitCode": 1})])
UNKNOWN = Refusal(conditions.UNKNOWN_MODEL, conditions.UNKNOWN_MODEL.message("spec.modelRef: there is no GPTModel"))
INVALID = Refusal(conditions.INVALID_SPEC, conditions.INVALID_SPEC.message("spec.replicas: must not be negative"))


def deployment(observed: int = 2, generation: int = 2, **counts: int) -> Body:
    """Return the live Deployment with these numbers in its status."""
    return {
        "metadata": {"name": "chat", "generation": generation},
        "spec": {"template": {"metadata": {"labels": {names.REVISION: revisions.key({"spec": SPEC})}}}},
        "status": {"observedGeneration": observed, **counts},
    }


def cause(reason: Reason, what: str = "so it is") -> Cause:
    return Cause(reason, reason.message(what))


def facts(
    spec: Body | None = None,
    *,
    resolved: Resolved | Refusal | None = None,
    failure: Cause | None = None,
    live: Body | None = None,
    pods: list[Body] | None = None,
    old: Any = None,
    generation: int = 4,
    warnings: Sequence[str] = (),
    complaints: Mapping[str, Complaint] | None = None,
) -> Facts:
    body = builders.service(spec={**SPEC, **(spec or {})}, generation=generation)
    if old is not None:
        body["status"] = old
    decided = builders.decide(body) if resolved is None else resolved
    effective = controller_revision.effective(decided) if isinstance(decided, Resolved) else None
    return Facts(
        service=body,
        resolved=decided,
        failure=failure,
        deployment=live,
        pods=pods or [],
        warnings=warnings,
        complaints=complaints or {},
        effective=effective,
    )


def holds(computed: Body) -> str:
    """Return the conditions in the order Accepted, Available, Progressing, Degraded, Ready as T and F."""
    by_type = {condition["type"]: condition["status"] for condition in computed["conditions"]}
    return "".join(by_type[kind][0] for kind in conditions.TYPES)


def reason(computed: Body, kind: str = "Ready") -> str:
    (found,) = [condition for condition in computed["conditions"] if condition["type"] == kind]
    return str(found["reason"])


def message(computed: Body, kind: str = "Ready") -> str:
    (found,) = [condition for condition in computed["conditions"] if condition["type"] == kind]
    return str(found["message"])


#                                             Accepted, Available, Progressing, Degraded, Ready
STATES = [
    pytest.param(facts(), "Progressing", "TFTFF", "RollingOut", id="just accepted"),
    pytest.param(facts(live=deployment()), "Progressing", "TFTFF", "RollingOut", id="no pod yet"),
    pytest.param(
        facts(live=deployment(replicas=3, updatedReplicas=3), pods=[LOADING]),
        "Progressing",
        "TFTFF",
        "ModelLoading",
        id="loading",
    ),
    pytest.param(
        facts(
            live=deployment(replicas=3, updatedReplicas=3, readyReplicas=1), pods=[pod("a", ready=True), LOADING]
        ),
        "Progressing",
        "TTTFF",
        "ModelLoading",
        id="one of three answers",
    ),
    pytest.param(facts(live=deployment(**READY)), "Ready", "TTFFT", "AllReplicasReady", id="ready"),
    pytest.param(
        facts({"replicas": 2}, live=deployment(replicas=2, updatedReplicas=2, readyReplicas=2)),
        "Ready",
        "TTFFT",
        "AllReplicasReady",
        id="ready after a scale-down",
    ),
    pytest.param(
        facts(live=deployment(observed=1, **READY)),
        "Progressing",
        "TTTFF",
        "RollingOut",
        id="the numbers are those of the revision before",
    ),
    pytest.param(
        facts(live=deployment(replicas=4, updatedReplicas=1, readyReplicas=3)),
        "Progressing",
        "TTTFF",
        "RollingOut",
        id="a rolling update half-way",
    ),
    pytest.param(
        facts(live=deployment(replicas=4, updatedReplicas=3, readyReplicas=4)),
        "Progressing",
        "TTTFF",
        "RollingOut",
        id="an old pod is left",
    ),
    pytest.param(
        facts(live=deployment(replicas=5, updatedReplicas=5, readyReplicas=5)),
        "Progressing",
        "TTTFF",
        "RollingOut",
        id="more than wanted",
    ),
    pytest.param(
        facts(live=deployment(replicas=3, updatedReplicas=3), pods=[CRASHED]),
        "Degraded",
        "TFFTF",
        "CrashLoop",
        id="it crashes and nothing serves",
    ),
    pytest.param(
        facts(live=deployment(replicas=4, updatedReplicas=1, readyReplicas=3), pods=[CRASHED]),
        "Degraded",
        "TTFTF",
        "CrashLoop",
        id="the new revision crashes, the old one serves",
    ),
    pytest.param(
        facts(live=deployment(**READY), pods=[CRASHED]),
        "Ready",
        "TTFFT",
        "AllReplicasReady",
        id="what is complete is not questioned by a pod that is left over",
    ),
    pytest.param(
        facts(failure=cause(conditions.QUOTA_EXCEEDED)),
        "Progressing",
        "TFTFF",
        "QuotaExceeded",
        id="a quota: it waits",
    ),
    pytest.param(
        facts(failure=cause(conditions.FORBIDDEN), live=deployment(**READY)),
        "Degraded",
        "TTFTF",
        "Forbidden",
        id="a policy refuses a child while all replicas serve",
    ),
    pytest.param(facts({"replicas": 0}), "Stopped", "TFFFF", "Stopped", id="stopped before it ever ran"),
    pytest.param(
        facts({"replicas": 0}, live=deployment(replicas=0)), "Stopped", "TFFFF", "Stopped", id="stopped"
    ),
    pytest.param(
        facts({"replicas": 0}, failure=cause(conditions.FORBIDDEN)),
        "Degraded",
        "TFFTF",
        "Forbidden",
        id="stopped, and a child cannot be written",
    ),
    pytest.param(facts(resolved=UNKNOWN), "Pending", "FFFFF", "UnknownModel", id="no such model"),
    pytest.param(
        facts(resolved=UNKNOWN, live=deployment(**READY)),
        "Degraded",
        "FTFFF",
        "UnknownModel",
        id="no such model, but what ran goes on",
    ),
    pytest.param(facts(resolved=INVALID), "Pending", "FFFTF", "InvalidSpec", id="an invalid spec"),
    pytest.param(
        facts(resolved=INVALID, live=deployment(**READY)),
        "Degraded",
        "FTFTF",
        "InvalidSpec",
        id="an invalid edit, but what ran goes on",
    ),
    pytest.param(
        facts(failure=cause(conditions.NAME_CONFLICT)), "Pending", "FFFTF", "NameConflict", id="a name is taken"
    ),
    pytest.param(
        facts(failure=cause(conditions.INVALID_SPEC), live=deployment(**READY)),
        "Degraded",
        "FTFTF",
        "InvalidSpec",
        id="the API server refuses a child",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("known", "phase", "expected", "why"), STATES)
def test_phase_and_conditions(known: Facts, phase: str, expected: str, why: str) -> None:
    computed = status.compute(known, NOW)
    assert (computed["phase"], holds(computed), reason(computed)) == (phase, expected, why)


@pytest.mark.parametrize(("known", "phase", "expected", "why"), STATES)
def test_every_status_fits_its_schema_and_its_reasons_are_documented(
    known: Facts, phase: str, expected: str, why: str
) -> None:
    computed = status.compute(known, NOW)
    GPTServiceStatus.model_validate(computed)
    assert set(computed) <= {field.alias for field in GPTServiceStatus.model_fields.values()}
    assert [condition["type"] for condition in computed["conditions"]] == list(conditions.TYPES)
    for condition in computed["conditions"]:
        assert condition["reason"] in conditions.REASONS
        assert condition["message"]
        assert condition["observedGeneration"] == 4


class TestWhileItIsStopped:
    def test_pods_that_still_answer_are_counted_but_it_is_stopped(self) -> None:
        computed = status.compute(facts({"replicas": 0}, live=deployment(**READY)), NOW)
        assert computed["phase"] == "Stopped"
        assert computed["readyReplicas"] == 3

    def test_it_says_how_to_start_it(self) -> None:
        assert "Set spec.replicas above 0" in message(status.compute(facts({"replicas": 0}), NOW))


class TestNumbers:
    def test_they_are_the_deployment_s(self) -> None:
        live = deployment(replicas=4, updatedReplicas=1, readyReplicas=3, availableReplicas=2)
        computed = status.compute(facts(live=live), NOW)
        names = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
        assert [computed[name] for name in names] == [4, 1, 3, 2]

    def test_without_a_deployment_they_are_zero(self) -> None:
        computed = status.compute(facts(), NOW)
        names = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")
        assert [computed[name] for name in names] == [0, 0, 0, 0]

    def test_no_pod_is_of_a_revision_that_could_not_be_written(self) -> None:
        refused = cause(conditions.FORBIDDEN)
        computed = status.compute(facts({"maxTokens": 7}, live=deployment(**READY), failure=refused), NOW)
        assert (computed["readyReplicas"], computed["updatedReplicas"]) == (3, 0)
        assert message(computed).startswith("3 of 3 replicas are ready, 0 of the newest revision; ")

    def test_the_message_says_how_far_it_is(self) -> None:
        live = deployment(replicas=4, updatedReplicas=1, readyReplicas=3)
        said = message(status.compute(facts(live=live, pods=[LOADING]), NOW))
        assert said.startswith("3 of 3 replicas are ready, 1 of the newest revision; pod ")

    def test_the_generation_is_the_spec_s(self) -> None:
        assert status.compute(facts(generation=9), NOW)["observedGeneration"] == 9


class TestWhereItIsServed:
    @pytest.mark.parametrize(
        ("name", "endpoint"),
        [
            pytest.param("chat", "http://chat.team-a.svc:80", id="a label"),
            pytest.param("llama-3.1-8b", "http://llama-3-1-8b-7b633509.team-a.svc:80", id="a dotted name"),
        ],
    )
    def test_the_endpoint_is_the_child_service(self, name: str, endpoint: str) -> None:
        decided = builders.resolved(SPEC, name=name)
        assert decided.endpoint == endpoint
        manifest = render.service.render_service(decided)
        assert endpoint.startswith(f"http://{manifest['metadata']['name']}.")
        assert endpoint.endswith(f":{manifest['spec']['ports'][0]['port']}")

    @pytest.mark.parametrize(("exposed", "port"), [({}, 443), ({"service": {"port": 8443}}, 8443)])
    def test_with_tls_it_says_so(self, exposed: Body, port: int) -> None:
        decided = builders.resolved({**SPEC, "tls": {"secretName": "cert"}, **exposed}, name="chat")
        assert decided.endpoint == f"https://chat.team-a.svc:{port}"
        (listed,) = render.service.render_service(decided)["spec"]["ports"]
        assert (listed["port"], listed["name"], listed["appProtocol"]) == (port, "https", "https")

    def test_the_selector_finds_the_pods(self) -> None:
        selector = status.compute(facts(), NOW)["selector"]
        labels = pod()["metadata"]["labels"]
        assert all(labels[key] == value for key, value in (pair.split("=") for pair in selector.split(",")))


class TestEffective:
    def test_it_tells_what_the_layers_come_to(self) -> None:
        decided = builders.resolved(
            {"modelRef": "m", "gpu": {"count": 2}}, builders.gpt_model("m", servedModelNames=["x"])
        )
        effective = status.compute(facts(resolved=decided), NOW)["effective"]
        assert effective["uri"] == "pvc://models/m"
        assert effective["image"] == builders.IMAGE
        assert (effective["gpuCount"], effective["gpuResourceName"]) == (2, "nvidia.com/gpu")
        assert effective["servedModelNames"] == ["x"]

    def test_the_arguments_hash_follows_the_arguments(self) -> None:
        def hashed(*args: str) -> str:
            decided = builders.resolved({**SPEC, "engine": {"args": list(args)}})
            return str(status.compute(facts(resolved=decided), NOW)["effective"]["argsHash"])

        assert hashed("--seed=1") == hashed("--seed=1")
        lists = [(), ("--seed=1",), ("--seed", "1"), ("--seed=1", "--dtype=auto"), ("--dtype=auto", "--seed=1")]
        assert len({hashed(*args) for args in lists}) == 5

    @pytest.mark.parametrize("refused", [UNKNOWN, INVALID])
    def test_a_refused_edit_keeps_what_was_decided_before(self, refused: Refusal) -> None:
        before = status.compute(facts(live=deployment(**READY)), EARLIER)
        after = status.compute(facts(resolved=refused, live=deployment(**READY), old=before), NOW)
        assert after["endpoint"] == before["endpoint"]
        assert after["effective"] == before["effective"]

    def test_a_service_that_was_never_accepted_has_neither(self) -> None:
        computed = status.compute(facts(resolved=UNKNOWN), NOW)
        assert "endpoint" not in computed
        assert "effective" not in computed


class TestTransitionTimes:
    @staticmethod
    def times(computed: Body) -> dict[str, str]:
        return {condition["type"]: condition["lastTransitionTime"] for condition in computed["conditions"]}

    def test_the_first_status_is_of_now(self) -> None:
        assert set(self.times(status.compute(facts(), NOW)).values()) == {NOW}

    def test_they_move_only_for_conditions_whose_status_flips(self) -> None:
        before = status.compute(facts(live=deployment(replicas=3, updatedReplicas=3), pods=[LOADING]), EARLIER)
        after = status.compute(facts(live=deployment(**READY), old=before), NOW)
        assert self.times(after) == {
            "Accepted": EARLIER, "Available": NOW, "Progressing": NOW, "Degraded": EARLIER, "Ready": NOW,
        }  # fmt: skip

    def test_another_reason_message_or_generation_moves_none(self) -> None:
        before = status.compute(facts(pods=[LOADING], live=deployment(), generation=4), EARLIER)
        after = status.compute(facts(live=deployment(), old=before, generation=5), NOW)
        assert reason(after) != reason(before)
        assert set(self.times(after).values()) == {EARLIER}

    def test_a_condition_that_somebody_else_mangled_is_stamped_anew(self) -> None:
        old = {"conditions": [{"type": "Ready", "status": "Unknown", "lastTransitionTime": EARLIER}]}
        assert self.times(status.compute(facts(old=old), NOW))["Ready"] == NOW


class TestNews:
    def test_nothing_is_news_of_the_same_facts_later(self) -> None:
        before = status.compute(facts(live=deployment(**READY)), EARLIER)
        after = status.compute(facts(live=deployment(**READY), old=before), NOW)
        assert after["lastSyncTime"] == NOW
        assert not status.is_news(after, {"status": before})

    @pytest.mark.parametrize("old", [None, {}])
    def test_the_first_status_is(self, old: Body | None) -> None:
        assert status.is_news(status.compute(facts(), NOW), {"status": old})

    @pytest.mark.parametrize(
        ("known", "later"),
        [
            pytest.param({"live": deployment(**READY)}, {"live": deployment(**READY), "generation": 5}, id="an edit"),
            pytest.param({"live": deployment(**READY)}, {"live": deployment(replicas=3)}, id="a number"),
            pytest.param({"pods": [LOADING]}, {"pods": [CRASHED]}, id="a cause"),
            pytest.param({}, {"resolved": INVALID}, id="a refusal"),
        ],
    )
    def test_a_change_is(self, known: dict[str, Any], later: dict[str, Any]) -> None:
        before = status.compute(facts(**known), EARLIER)
        assert status.is_news(status.compute(facts(**later, old=before), NOW), {"status": before})


def test_a_spec_with_a_wrong_type_of_replicas_is_no_crash() -> None:
    computed = status.compute(facts({"replicas": "three"}), NOW)
    assert computed["phase"] == "Pending"
    assert reason(computed) == "InvalidSpec"


class TestAuthSecret:
    @pytest.mark.parametrize(
        ("auth", "secret"),
        [
            pytest.param({}, f"chat-key-{builders.uid_of('GPTService', 'chat')[:8]}", id="generated"),
            pytest.param({"auth": {"apiKeys": {"secretRef": {"name": "team-keys"}}}}, "team-keys", id="the user's"),
            pytest.param({"auth": {"disabled": True}}, None, id="none"),
        ],
    )
    def test_clients_learn_where_the_keys_are(self, auth: Body, secret: str | None) -> None:
        assert status.compute(facts(auth), NOW).get("authSecret") == secret

    def test_it_stays_while_an_edit_is_refused(self) -> None:
        """The pods still ask for it."""
        before = status.compute(facts(), EARLIER)
        assert status.compute(facts(resolved=INVALID, old=before), NOW)["authSecret"] == before["authSecret"]


def test_a_secret_that_a_pod_s_volume_lacks_is_the_reason() -> None:
    stuck = pod(containers=[container(waiting={"reason": "PodInitializing"})])
    words = 'MountVolume.SetUp failed for volume "keys" : secret "team-keys" not found'
    complaints = {stuck["metadata"]["uid"]: Complaint(conditions.SECRET_NOT_FOUND, words, "team-keys")}
    told = status.compute(facts(live=deployment(), pods=[stuck], complaints=complaints), NOW)
    assert reason(told) == "SecretNotFound"
    assert told["phase"] == "Progressing", "it goes on by itself"
    assert any('secret "team-keys" not found' in condition["message"] for condition in told["conditions"])


def test_a_failing_write_outranks_what_pods_say() -> None:
    known = facts(failure=cause(conditions.QUOTA_EXCEEDED), pods=[LOADING], live=deployment())
    assert causes.find(known.pods, known.deployment) is not None
    assert reason(status.compute(known, NOW)) == "QuotaExceeded"


class TestWarnings:
    def test_they_are_the_message_of_accepted_and_change_nothing_else(self) -> None:
        plain = status.compute(facts(live=deployment(**READY)), NOW)
        warned = status.compute(facts(live=deployment(**READY), warnings=["one", "two"]), NOW)
        (accepted,) = [one for one in warned["conditions"] if one["type"] == "Accepted"]
        assert (accepted["status"], accepted["reason"]) == ("True", "AcceptedWithWarnings")
        assert accepted["message"].startswith("one; two. ")
        assert warned["phase"] == plain["phase"]
        assert warned["conditions"][1:] == plain["conditions"][1:]

    def test_hundreds_are_bounded(self) -> None:
        warned = status.compute(facts(warnings=[f"warning {number} " + "x" * 300 for number in range(500)]), NOW)
        assert len(warned["conditions"][0]["message"]) <= status.MAX_MESSAGE


@pytest.mark.parametrize("old", ["text", [], {"conditions": "x"}, {"conditions": ["x", {"type": "Ready"}]}, None])
def test_a_stored_status_of_any_shape_is_no_crash(old: Any) -> None:
    computed = status.compute(facts(old=old), NOW)
    assert status.is_news(computed, {"status": old})


def test_the_value_of_a_variable_is_in_no_message() -> None:
    spec = {"engine": {"env": [{"name": "A", "value": "hunter2"}]}}
    failure = Cause(conditions.INVALID_SPEC, 'the API server refused env[0].value: Invalid value: "hunter2"')
    computed = status.compute(facts(spec, failure=failure), NOW)
    assert "hunter2" not in str(computed["conditions"])


def test_our_own_words_are_never_masked() -> None:
    """A variable's value that is a common word is no secret of a message that quotes nobody."""
    env = [{"name": "A", "value": "replica"}]
    told = status.compute(facts({"engine": {"env": env}}, live=deployment(**READY)), NOW)
    messages = {condition["type"]: condition["message"] for condition in told["conditions"]}
    assert messages["Available"] == "at least one replica answers"


def test_a_condition_of_somebody_else_is_no_reason_to_write() -> None:
    told = status.compute(facts(live=deployment(**READY)), NOW)
    foreign = {"type": "Mine", "status": "True", "reason": "Because", "message": "", "lastTransitionTime": NOW}
    live = {**builders.service(), "status": {**told, "conditions": [*told["conditions"], foreign]}}
    assert not status.is_news(told, live)
