"""Which arguments an engine gets, and the one rule between arguments and fields."""

from dataclasses import replace

import pytest

from gptservice_operator import engine_arguments
from gptservice_operator.engine_arguments import Fields, decide
from gptservice_runtime import contract

NO_FIELDS = Fields(gpu_count=0, context_length=None, max_tokens=None)
CATALOGUE, OWN = "GPTModel m: spec.engine.args", "spec.engine.args"
KNOWN = contract.VLLM_VERSION


def refused(*args: str, vllm_version: str | None = KNOWN, fields: Fields = NO_FIELDS) -> str:
    with pytest.raises(engine_arguments.RefusedError) as error:
        decide({OWN: args}, fields, vllm_version=vllm_version)
    return str(error.value)


def test_a_services_arguments_come_after_those_of_the_catalogue() -> None:
    assert decide({CATALOGUE: ["--seed=1"], OWN: ["--seed=2"]}, NO_FIELDS, vllm_version=KNOWN).args == (
        "--seed=1",
        "--seed=2",
    )


def test_a_wrong_argument_is_told_with_the_list_that_it_is_in() -> None:
    with pytest.raises(engine_arguments.RefusedError, match=r"^GPTModel m: spec\.engine\.args\[1\]: .*--seed\?; spec"):
        decide({CATALOGUE: ["--enforce-eager", "--sead=1"], OWN: ["--nope"]}, NO_FIELDS, vllm_version=KNOWN)


def test_a_value_does_not_reach_over_from_one_list_to_the_next() -> None:
    with pytest.raises(engine_arguments.RefusedError, match=r"m: spec\.engine\.args\[0\]: argument --seed: expected"):
        decide({CATALOGUE: ["--seed"], OWN: ["2"]}, NO_FIELDS, vllm_version=KNOWN)


@pytest.mark.parametrize("version", [None, "0.33.0"])
def test_of_another_vllm_only_the_reserved_arguments_are_known(version: str | None) -> None:
    assert decide({OWN: ["--new-flag=1", "-x"]}, NO_FIELDS, vllm_version=version).args == ("--new-flag=1", "-x")
    assert "[0]: --port is reserved" in refused("--port=1", vllm_version=version)


def test_a_reserved_argument_is_told_once() -> None:
    assert refused("--api-key") == "spec.engine.args[0]: --api-key is reserved: " + (
        "keys are set by the service, never in arguments, which anybody can read"
    )


def test_of_many_mistakes_some_are_told() -> None:
    told = refused(*["--nope" + "x" * 4000] * 64)
    assert told.endswith("and 59 more")
    assert len(told) < 2500


class TestParallelism:
    @pytest.mark.parametrize(
        ("args", "gpus", "tensor"),
        [
            pytest.param([], 2, 2, id="none given"),
            pytest.param(["--tensor-parallel-size", "2"], 2, 2, id="that of the GPUs"),
            pytest.param(["-tp=2"], 2, 2, id="the short name"),
            pytest.param(["--tensor_parallel_size=2", "-pp", "2"], 4, 2, id="a product that fits"),
            pytest.param(["-tp", "1", "-pp", "4"], 4, 1, id="a pipeline alone"),
            pytest.param(["-pp", "2"], 8, 4, id="what a pipeline leaves"),
            pytest.param(["-pcp=2", "--pipeline-parallel-size=2"], 8, 2, id="what both leave"),
            pytest.param(["-dcp=2"], 2, 2, id="what takes no GPU of its own"),
            pytest.param(["--tensor-parallel-size=1", "--tensor-parallel-size=4"], 4, 4, id="the last one counts"),
            pytest.param(["--tensor-parallel-size=8"], 0, 8, id="anything on the CPU"),
            pytest.param(["--tokenizer=x"], 1, 1, id="other arguments"),
        ],
    )
    def test_what_fits_is_taken(self, args: list[str], gpus: int, tensor: int) -> None:
        fields = replace(NO_FIELDS, gpu_count=gpus)
        assert decide({OWN: args}, fields, vllm_version=KNOWN).tensor_parallel_size == tensor

    @pytest.mark.parametrize(
        ("args", "gpus"),
        [
            pytest.param(["--tensor-parallel-size=4"], 2, id="too many"),
            pytest.param(["--tensor-parallel-size", "1"], 2, id="too few"),
            pytest.param(["-tp", "2"], 1, id="the short name"),
            pytest.param(["--tensor-par=4"], 2, id="an abbreviation"),
            pytest.param(["--pipeline-parallel-size=2"], 3, id="a pipeline that does not divide"),
            pytest.param(["--pipeline-parallel-size=4"], 2, id="a pipeline that is too long"),
            pytest.param(["-tp=2", "-pcp=2"], 2, id="a context beside all of them"),
            pytest.param(["-pp=0"], 2, id="a pipeline of none"),
            pytest.param(["--tensor-parallel-size=0"], 2, id="none"),
            pytest.param(["-tp=-1", "-pp=-2"], 2, id="a product of negative numbers"),
        ],
    )
    def test_what_does_not_is_told_with_the_numbers(self, args: list[str], gpus: int) -> None:
        told = refused(*args, fields=replace(NO_FIELDS, gpu_count=gpus))
        assert "parallel size" in told
        assert f"gpu.count, which is {gpus}" in told


@pytest.mark.parametrize(
    ("args", "fields", "warned"),
    [
        pytest.param(["--max-model-len=1k"], NO_FIELDS, [], id="no field, no conflict"),
        pytest.param(
            ["--seed=1", "--max-model-l=1k"], replace(NO_FIELDS, context_length=4096),
            ["spec.engine.args[1]: --max-model-len has no effect beside contextLength, which is 4096"],
            id="contextLength",
        ),
        pytest.param(
            ["--override-generation-config", '{"temperature": 0.5}'], replace(NO_FIELDS, max_tokens=16),
            ["spec.engine.args[0]: --override-generation-config has no effect beside maxTokens; give each key as "
             "--override-generation-config.KEY=VALUE"],
            id="maxTokens and a whole value",
        ),
        pytest.param(
            ["--override-generation-config.max_new_tokens", "99"], replace(NO_FIELDS, max_tokens=16),
            ["spec.engine.args[0]: --override-generation-config.max_new_tokens has no effect beside maxTokens, "
             "which is 16"],
            id="maxTokens and its own key",
        ),
        pytest.param(
            ["--override-generation-config.temperature=0.5"], replace(NO_FIELDS, max_tokens=16), [],
            id="maxTokens and another key",
        ),
        pytest.param(
            ["--log-config-file=/x.json"], NO_FIELDS,
            [f"spec.engine.args[0]: --log-config-file is deprecated in vLLM {KNOWN} and will go"], id="deprecated",
        ),
    ],
)  # fmt: skip
def test_a_field_wins_over_an_argument_and_a_warning_says_so(
    args: list[str], fields: Fields, warned: list[str]
) -> None:
    assert list(decide({OWN: args}, fields, vllm_version=KNOWN).warnings) == warned
