"""Who decides a field (service, catalogue, configuration, built in), and what is refused, by its path."""

import dataclasses
from typing import Any, Final

import pytest

from gptservice_operator import names, parse
from gptservice_operator.api import conditions
from gptservice_operator.render.resolved import ApiKeys, Refusal, ResolvedGpu
from tests.operator import builders
from tests.operator.builders import IMAGE, Body, gpt_model, refusal, resolved

URI = "pvc://models/smollm2"


def spec(**fields: Any) -> Body:
    return {"model": URI, **fields}


class TestModel:
    @pytest.mark.parametrize(
        ("uri", "path", "claim"),
        [
            pytest.param("pvc://models/smollm2", "/models/source/smollm2", "models", id="a folder of a claim"),
            pytest.param("pvc://models/a/b", "/models/source/a/b", "models", id="a folder further down"),
            pytest.param("pvc://models", "/models/source", "models", id="the whole claim"),
            pytest.param("pvc://models/", "/models/source", "models", id="the whole claim, with a slash"),
            pytest.param("file:///opt/model", "/opt/model", None, id="a folder of the image"),
            pytest.param("hf://org/name@main", "/tmp/model", None, id="a hub's"),
            pytest.param("s3://bucket/key", "/tmp/model", None, id="an object store's"),
            pytest.param("gs://bucket/k", "/tmp/model", None, id="Google's"),
            pytest.param("oci://r/i", "/tmp/model", None, id="a registry's"),
            pytest.param("https://host/x.tar.gz?a=b", "/tmp/model", None, id="a web server's"),
        ],
    )
    def test_where_it_is_in_the_pod(self, uri: str, path: str, claim: str | None) -> None:
        source = resolved({"model": uri}).source
        assert (source.uri, source.path, source.claim) == (uri, path, claim)

    @pytest.mark.parametrize("field", ["model", "modelRef"])
    def test_a_name_is_looked_up_in_the_catalogue(self, field: str) -> None:
        outcome = resolved({field: "gpt-4-turbo"}, gpt_model("gpt-4-turbo", uri="pvc://weights/gpt4"))
        assert outcome.source.uri == "pvc://weights/gpt4"

    @pytest.mark.parametrize("field", ["model", "modelRef"])
    def test_a_name_that_the_catalogue_lacks_says_what_to_do(self, field: str) -> None:
        refused = refusal({field: "gpt-4-turbo"}, gpt_model("another"))
        assert refused.reason is conditions.UNKNOWN_MODEL
        assert refused.message.startswith(f"spec.{field}: there is no GPTModel named 'gpt-4-turbo'")
        assert "Apply a GPTModel of that name" in refused.message
        assert not refused.reason.failing, "it starts by itself once the entry exists"

    @pytest.mark.parametrize("uri", ["https://host/x", "https://host/x/?f=.tar", "https://host/model.zip"])
    def test_a_web_server_s_folder_is_refused(self, uri: str) -> None:
        refused = refusal({"model": uri})
        assert refused.reason is conditions.INVALID_SPEC
        assert refused.message.startswith("spec.model: ")
        assert "a web server lists no folders" in refused.message

    def test_an_entry_that_cannot_be_served_is_named(self) -> None:
        refused = refusal({"modelRef": "m"}, gpt_model("m", uri="https://host/x"))
        assert refused.message.startswith("spec.modelRef: GPTModel 'm' is not valid: spec.uri: ")

    def test_an_entry_that_is_not_valid_is_named_with_its_field(self) -> None:
        refused = refusal({"modelRef": "m"}, gpt_model("m", contextLength=0))
        assert refused.reason is conditions.INVALID_SPEC
        assert refused.message.startswith("spec.modelRef: GPTModel 'm' is not valid: spec.contextLength: ")


class TestPrecedence:
    """Service, then catalogue, then configuration, then what is built in; field by field."""

    @pytest.mark.parametrize(
        ("own", "catalogue", "expected"),
        [
            pytest.param(None, None, ResolvedGpu(1, "nvidia.com/gpu", None), id="built in"),
            pytest.param(None, {"count": 2}, ResolvedGpu(2, "nvidia.com/gpu", None), id="catalogue"),
            pytest.param({"count": 4}, {"count": 2}, ResolvedGpu(4, "nvidia.com/gpu", None), id="service"),
            pytest.param({"count": 0}, {"count": 2}, ResolvedGpu(0, "nvidia.com/gpu", None), id="0 is a decision too"),
            pytest.param(
                {"count": 4},
                {"count": 2, "product": "H200", "resourceName": "nvidia.com/mig-1g.10gb"},
                ResolvedGpu(4, "nvidia.com/mig-1g.10gb", "H200"),
                id="each field by itself",
            ),
            pytest.param({"resourceName": "amd.com/gpu"}, None, ResolvedGpu(1, "amd.com/gpu", None), id="only a name"),
        ],
    )
    def test_gpu(self, own: Body | None, catalogue: Body | None, expected: ResolvedGpu) -> None:
        service = {"modelRef": "m", **({} if own is None else {"gpu": own})}
        entry = gpt_model("m", **({} if catalogue is None else {"gpu": catalogue}))
        assert resolved(service, entry).gpu == expected

    @pytest.mark.parametrize(
        ("own", "catalogue", "expected"),
        [
            pytest.param({}, {}, None, id="nobody"),
            pytest.param({}, {"contextLength": 10}, 10, id="catalogue"),
            pytest.param({"contextLength": 20}, {"contextLength": 10}, 20, id="service"),
        ],
    )
    def test_context_length(self, own: Body, catalogue: Body, expected: int | None) -> None:
        assert resolved({"modelRef": "m", **own}, gpt_model("m", **catalogue)).context_length == expected

    @pytest.mark.parametrize(
        ("service", "catalogue", "expected"),
        [
            pytest.param({"model": URI}, None, (URI, "chat"), id="the uri as written, and the object's name"),
            pytest.param({"modelRef": "m"}, {}, ("m", "chat"), id="the reference, and the object's name"),
            pytest.param({"model": "m"}, {}, ("m", "chat"), id="a bare name likewise"),
            pytest.param({"modelRef": "m"}, {"servedModelNames": ["x", "y"]}, ("x", "y"), id="catalogue"),
            pytest.param(
                {"modelRef": "m", "servedModelNames": ["z"]}, {"servedModelNames": ["x"]}, ("z",), id="service"
            ),
        ],
    )
    def test_served_names(self, service: Body, catalogue: Body | None, expected: tuple[str, ...]) -> None:
        models = [] if catalogue is None else [gpt_model("m", **catalogue)]
        assert resolved(service, *models).served_model_names == expected

    def test_a_model_named_like_the_service_is_served_under_one_name(self) -> None:
        assert resolved({"modelRef": "chat"}, gpt_model("chat")).served_model_names == ("chat",)

    def test_the_service_s_arguments_come_after_the_catalogue_s_so_that_they_win(self) -> None:
        entry = gpt_model("m", engine={"args": ["--dtype=auto", "--seed=1"]})
        service = {"modelRef": "m", "engine": {"args": ["--dtype=bfloat16"]}}
        assert resolved(service, entry).engine_args == ("--dtype=auto", "--seed=1", "--dtype=bfloat16")

    def test_the_image(self) -> None:
        assert resolved(spec()).image == IMAGE
        assert resolved(spec(engine={"image": "mine:2"})).image == "mine:2"

    @pytest.mark.parametrize(
        ("own", "requests", "limits"),
        [
            pytest.param(None, {"cpu": "2", "memory": "16Gi"}, {"memory": "16Gi"}, id="configuration"),
            pytest.param(
                {"requests": {"cpu": "500m", "memory": "1Gi"}},
                {"cpu": "500m", "memory": "1Gi"},
                {"memory": "1Gi"},
                id="requests: memory is limited to the same",
            ),
            pytest.param(
                {"limits": {"cpu": 4, "memory": "4Gi"}},
                {"cpu": "4", "memory": "4Gi"},
                {"cpu": "4", "memory": "4Gi"},
                id="limits: as much is requested",
            ),
            pytest.param(
                {"requests": {"memory": "1Gi"}, "limits": {"memory": "2Gi"}},
                {"cpu": "2", "memory": "1Gi"},
                {"memory": "2Gi"},
                id="both",
            ),
            pytest.param(
                {"requests": {"ephemeral-storage": "5Gi"}, "limits": {"cpu": "8"}},
                {"ephemeral-storage": "5Gi", "cpu": "8", "memory": "16Gi"},
                {"cpu": "8", "memory": "16Gi"},
                id="some of each",
            ),
        ],
    )
    def test_resources(self, own: Body | None, requests: Body, limits: Body) -> None:
        settings = builders.config(runtime_cpu="2", runtime_memory="16Gi")
        outcome = resolved(spec() if own is None else spec(resources=own), settings=settings)
        assert outcome.requests == requests
        assert outcome.limits == limits

    def test_what_is_built_in(self) -> None:
        outcome = resolved({"model": URI})
        assert outcome.replicas == 1
        assert outcome.rollout.strategy == "RollingUpdate"
        assert (outcome.startup_timeout_seconds, outcome.drain_timeout_seconds) == (1800, 60)
        assert outcome.max_tokens is None
        assert outcome.max_inflight_requests is None

    def test_the_rest_of_configuration(self) -> None:
        settings = builders.config(fs_group=None, runtime_image_pull_policy="Always")
        outcome = resolved(spec(), settings=settings)
        assert outcome.fs_group is None
        assert outcome.image_pull_policy == "Always"


def test_the_service_s_own_fields_are_taken_over() -> None:
    outcome = resolved(spec(replicas=0, maxTokens=64, maxInflightRequests=8, upgradeStrategy="Recreate"))
    assert (outcome.replicas, outcome.max_tokens, outcome.max_inflight_requests) == (0, 64, 8)
    assert outcome.rollout.strategy == "Recreate"
    assert (outcome.namespace, outcome.name) == (builders.NAMESPACE, "chat")
    assert outcome.uid == builders.uid_of("GPTService", "chat")


REFUSALS = [
    pytest.param({}, "spec: exactly one of model and modelRef", id="neither model nor modelRef"),
    pytest.param(spec(modelRef="m"), "spec: exactly one of model and modelRef", id="both"),
    pytest.param(spec(replicas=-1), "spec.replicas: ", id="a negative count"),
    pytest.param(spec(replicas="3"), "spec.replicas: ", id="a wrong type"),
    pytest.param(spec(gpu={"count": 65}), "spec.gpu.count: ", id="too large a number further down"),
    pytest.param(spec(gpu={"resourceName": "gpu"}), "spec.gpu.resourceName: ", id="a pattern"),
    pytest.param(spec(upgradeStrategy="OnDelete"), "spec.upgradeStrategy: ", id="an enumeration"),
    pytest.param(spec(maxTokens=0), "spec.maxTokens: ", id="a lower bound"),
    pytest.param({"model": "pvc://models/../x"}, "spec.model: a path must not contain '..'", id="a parent folder"),
    pytest.param(spec(resources={"limits": {"cpu": "lots"}}), "spec.resources.limits.cpu: ", id="a quantity"),
    pytest.param(spec(resources={"limits": {"cpu": -1}}), "spec.resources.limits.cpu: ", id="a negative quantity"),
    pytest.param(
        spec(resources={"limits": {"nvidia.com/gpu": 1}}),
        "spec.resources.limits: only cpu, memory",
        id="GPUs in resources",
    ),
    pytest.param(
        spec(engine={"env": [{"name": "HF_TOKEN", "value": "x"}]}), "spec.engine.env[HF_TOKEN]: ", id="a variable"
    ),
    pytest.param(
        spec(engine={"env": [{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}),
        "spec.engine.env[0]: value and valueFrom must not both be set",
        id="two sources of a variable",
    ),
    pytest.param(spec(servedModelNames=["a", "a"]), "spec.servedModelNames: no two items", id="a name twice"),
]


@pytest.mark.parametrize(("body", "begins"), REFUSALS)
def test_a_refusal_begins_with_the_field(body: Body, begins: str) -> None:
    refused = refusal(body)
    assert refused.reason is conditions.INVALID_SPEC
    assert refused.message.startswith(begins)
    assert refused.message.endswith(conditions.INVALID_SPEC.remedy)


def test_an_argument_that_the_catalogue_may_not_set_is_named_as_the_catalogue_s() -> None:
    refused = refusal({"modelRef": "m"}, gpt_model("m", engine={"args": ["--seed=1", "--uds=/s"]}))
    assert refused.reason is conditions.INVALID_ENGINE_ARGUMENT
    assert refused.message.startswith("GPTModel m: spec.engine.args[1]: --uds is reserved")


def test_a_name_that_cannot_be_a_label_is_refused() -> None:
    refused = refusal(spec(), name="a" * 64)
    assert refused.reason is conditions.INVALID_SPEC
    assert refused.message.startswith("metadata.name: ")
    assert "63" in refused.message


def test_many_mistakes_are_told_together_each_once() -> None:
    refused = refusal({"model": URI, "replicas": -1, "maxTokens": 0, "gpu": {"count": "x"}})
    for field in ("spec.replicas: ", "spec.maxTokens: ", "spec.gpu.count: "):
        assert refused.message.count(field) == 1


def test_a_hundred_mistakes_are_not_told_all() -> None:
    env = [{"name": f"{number}"} for number in range(64)]
    assert len(refusal(spec(engine={"env": env})).message) < 1000


@pytest.mark.parametrize("missing", [pytest.param({"spec": None}, id="null"), pytest.param({}, id="absent")])
def test_a_missing_spec_is_a_refusal_not_a_crash(missing: Body) -> None:
    body = builders.service()
    del body["spec"]
    outcome = parse.parse({**body, **missing})
    assert isinstance(outcome, Refusal)
    assert outcome.message.startswith("spec: ")


def test_fields_of_a_newer_version_are_passed_over() -> None:
    assert resolved(spec(autoscaling={"maxReplicas": 3}, gpu={"count": 1, "sharing": "MPS"})).gpu.count == 1


class TestApiKeys:
    GENERATED = ApiKeys(names.key_secret("chat", builders.uid_of("GPTService", "chat")), generated=True)

    @pytest.mark.parametrize(
        ("auth", "expected"),
        [
            pytest.param({}, GENERATED, id="absent: safe by default"),
            pytest.param({"auth": {"apiKeys": {"generate": True}}}, GENERATED, id="asked for"),
            pytest.param(
                {"auth": {"apiKeys": {"secretRef": {"name": "team-keys"}}}},
                ApiKeys("team-keys", generated=False),
                id="the user's",
            ),
            pytest.param({"auth": {"disabled": True}}, None, id="none"),
        ],
    )
    def test_which_secret_counts(self, auth: Body, expected: ApiKeys | None) -> None:
        assert resolved(spec(**auth)).api_keys == expected

    @pytest.mark.parametrize(
        "auth", [{}, {"apiKeys": {}}, {"apiKeys": {"generate": False}}, {"disabled": False}, {"apiKeys": None}]
    )
    def test_half_a_choice_is_refused_and_opens_nothing(self, auth: Body) -> None:
        assert refusal(spec(auth=auth)).reason is conditions.INVALID_SPEC


class TestRollout:
    @pytest.mark.parametrize(
        ("fields", "surge", "unavailable"),
        [
            pytest.param({}, 1, 0, id="nothing"),
            pytest.param({"rollout": {}}, 1, 0, id="nothing in it"),
            pytest.param({"rollout": {"maxSurge": "25%"}}, "25%", 0, id="a surge"),
            pytest.param({"rollout": {"maxSurge": 0}}, 0, 1, id="no surge"),
            pytest.param({"rollout": {"maxUnavailable": 2}}, 0, 2, id="an unavailability"),
            pytest.param({"rollout": {"maxUnavailable": "0%"}}, 1, "0%", id="none unavailable"),
            pytest.param({"rollout": {"maxSurge": 1, "maxUnavailable": 1}}, 1, 1, id="both"),
            pytest.param({"cache": {"size": "1Gi"}}, 0, 1, id="a cache for one pod"),
            pytest.param({"cache": {"size": "1Gi"}, "rollout": {"maxUnavailable": "50%"}}, 0, "50%", id="and a bound"),
            pytest.param({"cache": {"size": "1Gi", "accessModes": ["ReadWriteMany"]}}, 1, 0, id="a cache for many"),
        ],
    )
    def test_an_absent_bound_lets_the_rollout_move(
        self, fields: Body, surge: int | str, unavailable: int | str
    ) -> None:
        outcome = resolved(spec(**fields)).rollout
        assert (outcome.max_surge, outcome.max_unavailable) == (surge, unavailable)


class TestExposure:
    def test_what_is_built_in(self) -> None:
        outcome = resolved(spec())
        assert (outcome.exposure.type, outcome.exposure.port, outcome.exposure.annotations) == ("ClusterIP", 80, {})
        assert outcome.pod.service_account_name == "chat-pods"

    def test_the_user_s_fields_without_reserved_keys(self) -> None:
        outcome = resolved(
            spec(
                service={"type": "NodePort", "port": 81, "annotations": {"a": "b", "argocd.argoproj.io/x": "y"}},
                podLabels={"team": "a", "gptservice-name": "other"},
                podAnnotations={"note": "n", "inference.ai/priority": "mine"},
                priority="Normal",
                imagePullSecrets=[{"name": "r"}],
                serviceAccountName="serving",
            )
        )
        assert (outcome.exposure.type, outcome.exposure.port, outcome.exposure.annotations) == (
            "NodePort", 81, {"a": "b"},
        )  # fmt: skip
        assert outcome.pod.labels == {"team": "a"}
        assert outcome.pod.annotations == {"note": "n", "inference.ai/priority": "normal"}
        assert (outcome.pod.service_account_name, outcome.pod.image_pull_secrets) == ("serving", ("r",))

    def test_a_priority_is_an_annotation_and_nothing_else(self) -> None:
        """As its description says: it is `scheduling.priorityClassName` that preempts."""
        high, none = resolved(spec(priority="High")), resolved(spec())
        assert high.pod.annotations == {"inference.ai/priority": "high"}
        bare = dataclasses.replace(high.pod, annotations=none.pod.annotations)
        assert dataclasses.replace(high, pod=bare, origin=none.origin) == none


class TestEngineArguments:
    TYPO: Final = ["--dtipe=auto"]

    def test_what_the_bundled_vllm_would_refuse_is_refused_with_its_place_and_the_remedy(self) -> None:
        refused = refusal(spec(engine={"args": self.TYPO}))
        assert refused.reason is conditions.INVALID_ENGINE_ARGUMENT
        assert refused.message == (
            "spec.engine.args[0]: unrecognized argument: --dtipe; did you mean --dtype?. "
            + conditions.INVALID_ENGINE_ARGUMENT.remedy
        )

    def test_a_runtime_image_of_the_service_s_own_may_have_another_vllm(self) -> None:
        assert resolved(spec(engine={"args": self.TYPO, "image": "mine:2"})).engine_args == tuple(self.TYPO)

    def test_so_may_the_operator_s(self) -> None:
        settings = builders.config(runtime_vllm_version="0.33.0")
        assert resolved(spec(engine={"args": self.TYPO}), settings=settings).engine_args == tuple(self.TYPO)

    def test_a_field_of_the_catalogue_wins_over_an_argument_of_the_service(self) -> None:
        service = {"modelRef": "m", "engine": {"args": ["--max-model-len=1k"]}}
        (warning,) = resolved(service, gpt_model("m", contextLength=2048)).warnings
        assert warning == "spec.engine.args[0]: --max-model-len has no effect beside contextLength, which is 2048"


def test_parallelism_that_does_not_fit_names_the_arguments() -> None:
    refused = refusal(spec(gpu={"count": 2}, engine={"args": ["--tensor-parallel-size=4"]}))
    assert refused.reason is conditions.INVALID_ENGINE_ARGUMENT
    assert refused.message.startswith("spec.engine.args[0]: ")
    assert "gpu.count, which is 2" in refused.message


@pytest.mark.parametrize("bad", ["text", ["list"], 5, {"model": 5, "engine": {"env": "A=b"}, "gpu": []}, {"engine": 1}])
def test_a_stored_spec_of_any_shape_is_a_refusal_not_a_crash(bad: Any) -> None:
    body = {**builders.service(), "spec": bad}
    assert isinstance(parse.parse(body), Refusal)


def test_no_value_of_a_variable_is_in_a_refusal() -> None:
    refused = refusal(spec(engine={"env": [{"name": "1X", "value": "hunter2"}, {"name": "A", "value": ["hunter2"]}]}))
    assert "hunter2" not in refused.message
