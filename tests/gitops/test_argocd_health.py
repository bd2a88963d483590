"""Argo CD's health scripts, run by a real Lua 5.1 on what the operator writes and on what it never would.

To accept a change of the status in the scripts' test data: ``pytest tests/gitops --update-golden``, and read the diff.
"""

import itertools
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gptservice_operator import status
from gptservice_operator.api import conditions
from gptservice_operator.api.status import GPTServiceStatus
from gptservice_operator.api.v1 import GPTServiceSpec
from gptservice_operator.cause import Cause
from gptservice_operator.render.resolved import Refusal
from gptservice_operator.status import Facts
from tests.gitops import lua, stages
from tests.gitops.lua import SCRIPTS, Script
from tests.gitops.stages import TESTDATA, told
from tests.operator import builders
from tests.operator.builders import Body
from tests.operator.test_status import CRASHED, NOW, READY, STATES, deployment, facts

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs/gitops.md").read_text(encoding="utf-8")
SERVICE = lua.of("GPTService")
MODEL = lua.of("GPTModel")
STAGES: dict[str, Facts] = {str(state.id): state.values[0] for state in STATES}

HEALTH = {
    "just accepted": "Progressing",
    "no pod yet": "Progressing",
    "loading": "Progressing",
    "one of three answers": "Progressing",
    "ready": "Healthy",
    "ready after a scale-down": "Healthy",
    "the numbers are those of the revision before": "Progressing",
    "a rolling update half-way": "Progressing",
    "an old pod is left": "Progressing",
    "more than wanted": "Progressing",
    "it crashes and nothing serves": "Degraded",
    "the new revision crashes, the old one serves": "Degraded",
    "what is complete is not questioned by a pod that is left over": "Healthy",
    "a quota: it waits": "Progressing",
    "a policy refuses a child while all replicas serve": "Degraded",
    "stopped before it ever ran": "Suspended",
    "stopped": "Suspended",
    "stopped, and a child cannot be written": "Degraded",
    "no such model": "Progressing",
    "no such model, but what ran goes on": "Progressing",
    "an invalid spec": "Degraded",
    "an invalid edit, but what ran goes on": "Degraded",
    "a name is taken": "Degraded",
    "the API server refuses a child": "Degraded",
}


def condition(kind: str, value: str | None, generation: int | None = 4, **more: Any) -> Body:
    """Return a condition; what is None is absent."""
    made = {"type": kind, "status": value, "observedGeneration": generation, **more}
    return {key: one for key, one in made.items() if one is not None}


def service(*listed: Any, generation: int | None = 4, **more: Any) -> Body:
    """Return a service of generation 4 with these conditions."""
    observed = {} if generation is None else {"observedGeneration": generation}
    return {**builders.service(generation=4), "status": {**observed, "conditions": list(listed), **more}}


READY_CONDITION = condition("Ready", "True", reason="AllReplicasReady", message="1 of 1 replicas are ready")


class TestOfWhatTheOperatorWrites:
    @pytest.mark.parametrize("stage", STAGES)
    def test_every_stage(self, stage: str) -> None:
        assert SERVICE.health(told(STAGES[stage])) == HEALTH[stage]

    @pytest.mark.parametrize("stage", STAGES)
    def test_the_order_of_conditions_and_those_of_others_change_nothing(self, stage: str) -> None:
        body = told(STAGES[stage])
        expected = SERVICE.run(body)
        listed = [*body["status"]["conditions"], condition("Healthy", "False", reason="Mine"), condition("X", None)]
        for order in (listed[::-1], listed[3:] + listed[:3], sorted(listed, key=lambda one: str(one["type"]))):
            assert SERVICE.run({**body, "status": {**body["status"], "conditions": order}}) == expected

    @pytest.mark.parametrize("stage", STAGES)
    def test_an_edit_that_the_operator_has_not_seen_is_progressing_whatever_was_before(self, stage: str) -> None:
        assert SERVICE.health(told(STAGES[stage], generation=5)) == "Progressing"

    @pytest.mark.parametrize("stage", STAGES)
    def test_a_service_that_is_being_deleted_is_progressing_whatever_was_before(self, stage: str) -> None:
        assert SERVICE.health(told(STAGES[stage], deletionTimestamp=NOW)) == "Progressing"

    @pytest.mark.parametrize("reason", conditions.REASONS.values(), ids=lambda reason: reason.name)
    def test_a_refusal_is_degraded_if_waiting_does_not_mend_it(self, reason: conditions.Reason) -> None:
        body = told(facts(resolved=Refusal(reason, "so it is")))
        assert SERVICE.run(body) == {
            # A stop is nobody's refusal; its name alone decides.
            "status": "Suspended" if reason is conditions.STOPPED else "Degraded" if reason.failing else "Progressing",
            "message": f"{reason.name}: so it is",
        }

    @pytest.mark.parametrize("reason", conditions.REASONS.values(), ids=lambda reason: reason.name)
    def test_a_child_that_cannot_be_written_is_degraded_if_waiting_does_not_mend_it(
        self, reason: conditions.Reason
    ) -> None:
        answer = SERVICE.run(told(facts(failure=Cause(reason, "so it is"), live=deployment(**READY))))
        if reason is not conditions.STOPPED:
            assert answer["status"] == ("Degraded" if reason.failing else "Progressing")
        assert answer["message"].startswith(f"{reason.name}: ")
        assert "so it is" in answer["message"]

    def test_warnings_change_nothing(self) -> None:
        assert SERVICE.health(told(facts(live=deployment(**READY), warnings=["a newer schema"]))) == "Healthy"

    def test_a_degraded_service_says_the_fault_and_what_to_do(self) -> None:
        message = SERVICE.run(told(facts(live=deployment(replicas=3, updatedReplicas=3), pods=[CRASHED])))["message"]
        assert message.startswith("CrashLoop: pod crashed, container engine ended with exit code 1.")
        assert "kubectl logs --previous" in message


class TestScaling:
    @pytest.mark.parametrize("ready", [2, 3, 4])
    def test_further_replicas_that_an_autoscaler_asks_for_do_not_change_the_health(self, ready: int) -> None:
        known = stages.scaled(4, replicas=4, updatedReplicas=4, readyReplicas=ready)
        assert SERVICE.run(told(known)) == {
            "status": "Healthy",
            "message": f"AllReplicasReady: {ready} of 4 replicas are ready",
        }

    def test_fewer_than_the_least_are_progressing(self) -> None:
        assert SERVICE.health(told(stages.scaled(4, replicas=4, updatedReplicas=4, readyReplicas=1))) == "Progressing"

    def test_a_stop_under_autoscaling_is_suspended_at_once(self) -> None:
        assert (
            SERVICE.health(told(facts({**stages.AUTOSCALING, "replicas": 0}, live=deployment(**READY)))) == "Suspended"
        )

    def test_an_inactive_autoscaler_is_healthy_with_what_is_wrong(self) -> None:
        assert told(stages.UNSCALED)["status"]["phase"] == "Degraded"
        answer = SERVICE.run(told(stages.UNSCALED))
        assert answer["status"] == "Healthy"
        assert answer["message"].startswith("AutoscalingInactive: FailedGetPodsMetric: no metrics API. ")

    @pytest.mark.parametrize("ready", ["False", "Unknown", None])
    def test_but_not_while_replicas_are_missing(self, ready: str | None) -> None:
        body = service(condition("Ready", ready), condition("Degraded", "True", reason="AutoscalingInactive"))
        assert SERVICE.health(body) == "Degraded"


class TestOddShapes:
    @pytest.mark.parametrize(
        "shape",
        [
            pytest.param({}, id="no status"),
            pytest.param({"status": None}, id="null"),
            pytest.param({"status": {}}, id="an empty status"),
            pytest.param({"status": "text"}, id="text"),
            pytest.param({"status": {"observedGeneration": 4}}, id="no conditions"),
            pytest.param({"status": {"observedGeneration": 4, "conditions": None}}, id="null for conditions"),
            pytest.param({"status": {"observedGeneration": 4, "conditions": "text"}}, id="text for conditions"),
            pytest.param({"status": {"observedGeneration": 4, "conditions": []}}, id="empty conditions"),
            pytest.param(service({}, "text", 7, None, []), id="conditions that are none"),
            pytest.param(service({"type": "Ready"}), id="a condition that is only a type"),
            pytest.param(service({"status": "True", "observedGeneration": 4}), id="a condition without a type"),
            pytest.param(service(condition("Available", "True")), id="only another condition"),
            pytest.param(service(READY_CONDITION, generation=None), id="no observed generation"),
            pytest.param(service(READY_CONDITION, generation=3), id="the generation before"),
            pytest.param(
                service({**READY_CONDITION, "observedGeneration": 3}), id="a condition of the generation before"
            ),
            pytest.param(service(condition("Ready", "True", None)), id="a condition that names no generation"),
            pytest.param({**service(READY_CONDITION), "metadata": None}, id="no metadata"),
        ],
    )
    def test_without_a_word_on_the_current_spec_it_is_progressing(self, shape: Body) -> None:
        assert SERVICE.run({**builders.service(generation=4), **shape}) == {
            "status": "Progressing",
            "message": "Waiting for the operator to observe the current spec",
        }

    @pytest.mark.parametrize(
        ("listed", "health", "message"),
        [
            pytest.param([condition("Ready", "True")], "Healthy", "Ready is True", id="bare Ready"),
            pytest.param([condition("Ready", "False")], "Progressing", "Ready is False", id="bare not Ready"),
            pytest.param([condition("Ready", "Unknown")], "Progressing", "Ready is Unknown", id="nobody knows"),
            pytest.param([condition("Ready", None)], "Progressing", "Ready is Unknown", id="no status"),
            pytest.param(
                [condition("Ready", "True", message="fine")], "Healthy", "Ready is True: fine", id="no reason"
            ),
            pytest.param(
                [condition("Ready", "Unknown") | {"status": {}}], "Progressing", "Ready is Unknown", id="a map"
            ),
            pytest.param([condition("Ready", "True", reason="Fine")], "Healthy", "Fine", id="no message"),
            pytest.param([condition("Ready", "True", reason="", message="")], "Healthy", "Ready is True", id="empty"),
            pytest.param(
                [condition("Ready", "True", reason=7, message=["x"])], "Healthy", "Ready is True", id="of other types"
            ),
            pytest.param(
                [condition("Ready", "False"), condition("Accepted", "False", reason="InvalidSpec", message="mend it")],
                "Degraded",
                "InvalidSpec: mend it",
                id="refused, and nothing says whether that is a fault",
            ),
            pytest.param(
                [READY_CONDITION, condition("Degraded", "True", 3, reason="CrashLoop")],
                "Healthy",
                "AllReplicasReady: 1 of 1 replicas are ready",
                id="a fault of the spec before",
            ),
            pytest.param(
                [READY_CONDITION, condition("Degraded", "True", reason="CrashLoop", message="again")],
                "Degraded",
                "CrashLoop: again",
                id="a fault beside Ready",
            ),
        ],
    )
    def test_conditions_with_parts_missing(self, listed: list[Body], health: str, message: str) -> None:
        for order in itertools.permutations(listed):
            assert SERVICE.run(service(*order)) == {"status": health, "message": message}


PLAIN = st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["", "True", "False", "Ready", "Stopped", "é"])
KEYS = st.sampled_from(["type", "status", "x"])
NESTED = PLAIN | st.lists(PLAIN, max_size=2) | st.dictionaries(KEYS, PLAIN, max_size=2)
JSON = NESTED | st.lists(NESTED, max_size=2) | st.dictionaries(KEYS, NESTED, max_size=2)
CONDITIONS = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from([*conditions.TYPES, "Foreign"]) | NESTED,
        "status": st.sampled_from(["True", "False", "Unknown"]) | NESTED,
        "reason": st.sampled_from(list(conditions.REASONS)) | NESTED,
        "message": st.text(max_size=5) | NESTED,
        "observedGeneration": st.sampled_from([3, 4]) | NESTED,
    },
)


class TestAnyShape:
    @given(data=st.data(), stage=st.sampled_from(list(STAGES)))
    def test_any_part_of_a_status_gets_an_answer(self, data: st.DataObject, stage: str) -> None:
        body = told(STAGES[stage])
        kept = data.draw(st.sets(st.sampled_from(list(body["status"]))))
        listed = [
            {key: one[key] for key in data.draw(st.sets(st.sampled_from(list(one))))}
            for one in data.draw(st.permutations(body["status"]["conditions"]))
        ]
        part = {key: listed if key == "conditions" else body["status"][key] for key in kept}
        SERVICE.run({**body, "status": part})

    @given(observed=st.sampled_from([3, 4, None]), listed=st.lists(CONDITIONS | JSON, max_size=6))
    def test_any_conditions_get_an_answer_and_only_ready_is_healthy(self, observed: Any, listed: list[Any]) -> None:
        health = SERVICE.health(service(*listed, generation=observed))
        ready = [one for one in listed if isinstance(one, dict) and one.get("type") == "Ready"]
        if health in ("Healthy", "Suspended"):
            assert observed == 4
            assert any(one.get("observedGeneration") == 4 for one in ready)
        if health == "Healthy":
            assert any(one.get("status") == "True" for one in ready)

    @given(body=st.dictionaries(st.sampled_from(["metadata", "spec", "status", "kind"]), JSON), value=JSON)
    def test_any_object_gets_an_answer(self, body: dict[str, Any], value: Any) -> None:
        for script in (SERVICE, MODEL):
            script.run(body)
            script.run({**body, "metadata": {"generation": value, "deletionTimestamp": value}})


class TestOfACatalogueEntry:
    @pytest.mark.parametrize("more", [{}, {"status": {}}, {"metadata": None}])
    def test_it_is_healthy_as_soon_as_it_exists(self, more: Body) -> None:
        assert MODEL.health({**builders.gpt_model(), **more}) == "Healthy"

    def test_while_it_is_being_deleted_it_is_progressing(self) -> None:
        assert MODEL.health(TESTDATA["GPTModel/testdata/progressing_deleting.yaml"]) == "Progressing"


EXPECTED = [
    pytest.param(script.parent, case, id=f"{script.parent.name}/{case['inputPath']}")
    for script in sorted(SCRIPTS.glob("*/health.lua"))
    for case in yaml.safe_load((script.parent / "health_test.yaml").read_text(encoding="utf-8"))["tests"]
]


class TestTheFilesForArgoCD:
    """What upstream takes in: the script, what it is expected to say in health_test.yaml, and the objects."""

    @pytest.mark.parametrize(("folder", "case"), EXPECTED)
    def test_the_script_says_what_is_expected(self, folder: Path, case: Body) -> None:
        body = yaml.safe_load((folder / case["inputPath"]).read_text(encoding="utf-8"))
        assert lua.of(body["kind"]).run(body) == case["healthStatus"]

    @pytest.mark.parametrize("name", TESTDATA)
    def test_the_objects_are_what_the_operator_makes_of_them(self, name: str, request: pytest.FixtureRequest) -> None:
        dumped = yaml.safe_dump(TESTDATA[name], sort_keys=False, width=120)
        if request.config.getoption("--update-golden"):
            (SCRIPTS / name).write_text(dumped, encoding="utf-8")
        assert (SCRIPTS / name).read_text(encoding="utf-8") == dumped

    @pytest.mark.parametrize("name", [name for name in TESTDATA if name.startswith("GPTService/")])
    def test_the_objects_fit_the_schema(self, name: str) -> None:
        body = yaml.safe_load((SCRIPTS / name).read_text(encoding="utf-8"))
        GPTServiceSpec.model_validate(body["spec"])
        GPTServiceStatus.model_validate(body.get("status", {}))

    def test_every_object_is_expected_to_say_something_and_none_is_left_over(self) -> None:
        there = {str(path.relative_to(SCRIPTS)) for path in SCRIPTS.glob("*/testdata/*")}
        expected = [f"{folder.name}/{case['inputPath']}" for folder, case in (one.values for one in EXPECTED)]
        assert sorted(expected) == sorted(there) == sorted(TESTDATA)

    def test_every_health_that_a_service_has_is_among_them(self) -> None:
        found = {case["healthStatus"]["status"] for folder, case in (one.values for one in EXPECTED)}
        assert found == {"Healthy", "Progressing", "Suspended", "Degraded"}


class TestTheDocument:
    def test_it_says_what_each_phase_becomes(self) -> None:
        rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \|", DOCUMENT, flags=re.MULTILINE)
        known = [*STAGES.values(), stages.UNSCALED]
        pairs = {(status.compute(one, NOW)["phase"], SERVICE.health(told(one))) for one in known}
        assert sorted(rows) == sorted(pairs)

    def test_it_names_the_keys_of_argocd_cm_and_the_scripts(self) -> None:
        for script in SCRIPTS.glob("*/health.lua"):
            assert f"resource.customizations.health.ai.example.com_{script.parent.name}" in DOCUMENT
            assert f"{script.parent.name}/health.lua" in DOCUMENT


class TestTheEngine:
    """Of the harness: what it would let pass that Argo CD does not, no test here could notice."""

    @pytest.mark.parametrize("text", ["return string.lower('A')", "return ('A'):lower()", "return os.time()"])
    def test_a_script_has_no_library_that_argocd_cm_gives_it_not(self, text: str) -> None:
        with pytest.raises(Exception, match=r"attempt to (index|call)"):
            Script(text).run({})

    @pytest.mark.parametrize(
        "text", ["return {status = 'Healthy'}", "return {status = 'Fine', message = 'x'}", "return {}"]
    )
    def test_an_answer_that_argo_cd_cannot_use_is_an_error(self, text: str) -> None:
        with pytest.raises(AssertionError):
            Script(text).run({})

    def test_null_is_absent_as_in_argo_cd(self) -> None:
        script = Script("return {status = 'Unknown', message = tostring(obj.a) .. #obj.b .. obj.c}")
        assert script.run({"a": None, "b": [None, 1], "c": 4})["message"] == "nil14"
