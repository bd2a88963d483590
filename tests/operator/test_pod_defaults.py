"""What the configuration says of every pod, and what of it a service replaces."""

from typing import Any

import pytest

from gptservice_operator.api import conditions
from gptservice_operator.api.scheduling import Scheduling
from gptservice_operator.config import Config
from gptservice_operator.render.resolved import Refusal, Resolved
from tests.operator import builders
from tests.operator.builders import Body
from tests.operator.golden_cases import SCHEDULING

GPU = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
SPOT = {"key": "spot", "operator": "Exists"}
TEAM = {"key": "team", "operator": "Equal", "value": "a"}


def pod_of(decided: Resolved) -> Body:
    found: Body = builders.child(decided, "Deployment")["spec"]["template"]["spec"]
    return found


def with_scheduling(**fields: Any) -> Config:
    return builders.config(runtime_scheduling=Scheduling.model_validate(fields))


def scheduling(own: Body | None, settings: Config, **spec: Any) -> Body:
    chosen = {"scheduling": own} if own is not None else {}
    decided = builders.resolved({"model": "pvc://models/m", **chosen, **spec}, settings=settings)
    found: Body = decided.scheduling.model_dump(by_alias=True, exclude_none=True)
    return found


class TestImage:
    """Of replicas with and without GPUs."""

    @pytest.mark.parametrize(
        ("gpus", "cpu_image", "own", "image"),
        [
            pytest.param(1, "cpu:1", {}, builders.IMAGE, id="with GPUs"),
            pytest.param(0, "cpu:1", {}, "cpu:1", id="without"),
            pytest.param(0, "", {}, builders.IMAGE, id="one image for both"),
            pytest.param(0, "cpu:1", {"image": "mine:2"}, "mine:2", id="the service's own"),
            pytest.param(0, "cpu:1", {"args": ["--seed=1"]}, "cpu:1", id="an engine without an image"),
        ],
    )
    def test_which_one(self, gpus: int, cpu_image: str, own: Body, image: str) -> None:
        spec = {"model": "pvc://models/m", "gpu": {"count": gpus}, "engine": own}
        settings = builders.config(runtime_cpu_image=cpu_image)
        pod = pod_of(builders.resolved(spec, settings=settings))
        assert {container["image"] for container in [*pod["initContainers"], *pod["containers"]]} == {image}

    def test_a_catalogue_entry_may_say_that_there_is_no_gpu(self) -> None:
        settings = builders.config(runtime_cpu_image="cpu:1")
        decided = builders.resolved({"modelRef": "m"}, builders.gpt_model("m", gpu={"count": 0}), settings=settings)
        assert decided.image == "cpu:1"

    def test_its_arguments_are_checked_as_those_of_the_other(self) -> None:
        spec = {"model": "pvc://models/m", "gpu": {"count": 0}, "engine": {"args": ["--max-modl-len=1"]}}
        outcome = builders.decide(builders.service(spec=spec), settings=builders.config(runtime_cpu_image="cpu:1"))
        assert isinstance(outcome, Refusal)
        assert outcome.reason is conditions.INVALID_ENGINE_ARGUMENT


class TestPullSecrets:
    @pytest.mark.parametrize(
        ("own", "found"),
        [
            pytest.param({}, ["registry", "mirror"], id="none said"),
            pytest.param({"imagePullSecrets": [{"name": "mine"}]}, ["mine"], id="the service's own"),
            pytest.param({"imagePullSecrets": []}, [], id="the node's identity alone"),
        ],
    )
    def test_with_which_the_image_is_pulled(self, own: Body, found: list[str]) -> None:
        settings = builders.config(runtime_image_pull_secrets=("registry", "mirror"))
        pod = pod_of(builders.resolved({"model": "pvc://models/m", **own}, settings=settings))
        assert [secret["name"] for secret in pod.get("imagePullSecrets", [])] == found
        assert ("imagePullSecrets" in pod) is bool(found), "an empty list belongs to nobody after an apply"


class TestScheduling:
    @pytest.mark.parametrize("field", SCHEDULING)
    def test_what_a_service_leaves_out_is_the_configuration_s(self, field: str) -> None:
        found = scheduling(None, with_scheduling(**{field: SCHEDULING[field]}))
        assert found[field] == SCHEDULING[field]

    @pytest.mark.parametrize("field", sorted(SCHEDULING.keys() - {"tolerations"}))
    def test_a_service_s_own_field_takes_the_place_of_the_same_field_alone(self, field: str) -> None:
        own: Body = {"nodeSelector": {"zone": "b"}, "topologySpreadConstraints": [], "affinity": {}}
        own = {field: own.get(field, "mine")}
        found = scheduling(own, with_scheduling(**SCHEDULING))
        assert found[field] == own[field]
        assert {name: found[name] for name in SCHEDULING.keys() - {field}} == {
            name: value for name, value in SCHEDULING.items() if name != field
        }

    def test_tolerations_add_up_and_none_is_there_twice(self) -> None:
        found = scheduling({"tolerations": [TEAM, SPOT]}, with_scheduling(tolerations=[SPOT, GPU]))
        assert found["tolerations"] == [TEAM, SPOT, GPU]

    def test_more_than_one_layer_may_hold_is_no_mistake(self) -> None:
        many = [{"key": f"taint-{number}", "operator": "Exists"} for number in range(32)]
        assert scheduling({"tolerations": [SPOT]}, with_scheduling(tolerations=many))["tolerations"] == [
            SPOT,
            *many,
            GPU,
        ]

    def test_what_is_empty_is_said(self) -> None:
        """So that one service can go where the others do not."""
        found = scheduling({"nodeSelector": {}}, with_scheduling(nodeSelector={"zone": "a"}))
        assert found["nodeSelector"] == {}
