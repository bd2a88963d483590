"""Arguments and variables that belong to the operator, in every spelling that vLLM's parser takes."""

import pytest

from gptservice_operator import reserved

REFUSED_ARGS = [
    pytest.param("--middleware=x.Y", id="middleware"),
    pytest.param("--api-server-count", id="api-server-count"),
    pytest.param("--port=1", id="port"),
    pytest.param("--host", id="host"),
    pytest.param("--uds", id="uds"),
    pytest.param("--grpc", id="grpc"),
    pytest.param("--ssl-keyfile=/k", id="ssl-*"),
    pytest.param("--ssl-ca-certs", id="another ssl-*"),
    pytest.param("--enable-ssl-refresh", id="enable-ssl-refresh"),
    pytest.param("--no-enable-ssl-refresh", id="its negation"),
    pytest.param("--api-key=secret", id="api-key"),
    pytest.param("--served-model-name", id="served-model-name"),
    pytest.param("--root-path=/x", id="root-path"),
    pytest.param("--headless", id="headless"),
    pytest.param("--data-parallel-size=2", id="data-parallel-size"),
    pytest.param("--data-parallel-supervisor-port", id="another data-parallel-*"),
    pytest.param("--no-data-parallel-hybrid-lb", id="a negated data-parallel-*"),
    pytest.param("--config=/f", id="config"),
    pytest.param("--model=x", id="model"),
    pytest.param("--shutdown-timeout=1", id="shutdown-timeout"),
    pytest.param("--served_model_name=x", id="underscores"),
    pytest.param("--Served-Model-Name=x", id="capitals"),
    pytest.param("--middlew=x.Y", id="an abbreviation"),
    pytest.param("--api-k", id="an abbreviation of api-key"),
    pytest.param("--ud", id="an abbreviation of uds"),
    pytest.param("--data-par=2", id="an abbreviation of a family"),
    pytest.param("--ssl", id="a family's beginning"),
    pytest.param("-dp", id="-dp is data-parallel-size"),
    pytest.param("-dp=2", id="-dp with its value"),
    *(
        pytest.param(alias, id=f"{alias} is a data-parallel-*")
        for alias in ("-dpa", "-dpb", "-dpe", "-dph", "-dpl", "-dpm", "-dpn", "-dpp", "-dpr")
    ),
    pytest.param("-asc", id="-asc is api-server-count"),
]


@pytest.mark.parametrize("arg", REFUSED_ARGS)
def test_a_reserved_argument_is_refused_with_its_place_and_a_reason(arg: str) -> None:
    (said,) = reserved.refused_args(["--dtype=bfloat16", arg], "spec.engine.args")
    assert said.startswith("spec.engine.args[1]: -")
    assert "reserved: " in said
    assert "secret" not in said, "a value may be a key"


@pytest.mark.parametrize(
    "args",
    [
        pytest.param([], id="none"),
        pytest.param(["--dtype=bfloat16", "--enforce-eager"], id="flags of the engine"),
        pytest.param(["--max-model-len", "2048"], id="a flag and its value"),
        pytest.param(["--chat-template", "--port is 8000"], id="a value is no flag"),
        pytest.param(["--config-format=hf"], id="a longer flag that begins like a reserved one"),
        pytest.param(["--model-impl=vllm"], id="likewise model"),
        pytest.param(["--hf-config-path=/models/source"], id="likewise config in the middle"),
        pytest.param(["--distributed-executor-backend=mp"], id="no data-parallel"),
        pytest.param(["--reasoning-parser", "deepseek_r1"], id="reasoning"),
        pytest.param(["-tp", "2", "-pp", "2", "-q", "awq", "-ep", "-cc", "{}"], id="short flags of the engine"),
        pytest.param(["-O3"], id="the optimisation level"),
        pytest.param(["--seed", "-1"], id="a negative number"),
        pytest.param(["--override-generation-config.temperature", "0.5"], id="a nested key"),
    ],
)
def test_other_arguments_pass(args: list[str]) -> None:
    assert list(reserved.refused_args(args, "spec.engine.args")) == []


def test_every_reserved_argument_is_named() -> None:
    said = list(reserved.refused_args(["--port", "1", "--uds", "/s"], "GPTModel m: spec.engine.args"))
    assert [line.partition(": -")[0] for line in said] == [
        "GPTModel m: spec.engine.args[0]",
        "GPTModel m: spec.engine.args[2]",
    ]


@pytest.mark.parametrize(
    "name",
    [
        "MAX_TOKENS",
        "HOME",
        "PATH",
        "NVIDIA_VISIBLE_DEVICES",
        "VLLM_API_KEY",
        "VLLM_SERVER_DEV_MODE",
        "HF_TOKEN",
        "HF_HUB_OFFLINE",
        "PYTHONPATH",
        "PYTHONSTARTUP",
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
    ],
)
def test_a_reserved_variable_is_refused_with_its_name_and_a_reason(name: str) -> None:
    (said,) = reserved.refused_env(["OMP_NUM_THREADS", name])
    assert said.startswith(f"spec.engine.env[{name}]: ")
    assert "reserved: " in said


@pytest.mark.parametrize(
    "name",
    ["OMP_NUM_THREADS", "NCCL_DEBUG", "CUDA_VISIBLE_DEVICES", "VLLM_LOGGING_LEVEL", "VLLM_CPU_KVCACHE_SPACE", "home"],
)
def test_other_variables_pass(name: str) -> None:
    assert list(reserved.refused_env([name])) == []


class TestParallelism:
    @pytest.mark.parametrize(
        ("args", "gpus"),
        [
            pytest.param([], 2, id="none given"),
            pytest.param(["--tensor-parallel-size", "2"], 2, id="that of the GPUs"),
            pytest.param(["-tp=2"], 2, id="the alias"),
            pytest.param(["--tensor_parallel_size=2", "-pp", "2"], 4, id="a product that fits"),
            pytest.param(["--tensor-parallel-size=1", "--tensor-parallel-size=4"], 4, id="the last one counts"),
            pytest.param(["--tensor-parallel-size=8"], 0, id="anything on the CPU"),
            pytest.param(["--tokenizer=x", "--t"], 1, id="other arguments"),
        ],
    )
    def test_what_fits_is_taken(self, args: list[str], gpus: int) -> None:
        assert reserved.parallel_conflict(args, gpus) is None

    @pytest.mark.parametrize(
        ("args", "gpus"),
        [
            pytest.param(["--tensor-parallel-size=4"], 2, id="too many"),
            pytest.param(["--tensor-parallel-size", "1"], 2, id="too few"),
            pytest.param(["-tp", "2"], 1, id="the alias"),
            pytest.param(["--tensor-par=4"], 2, id="an abbreviation"),
            pytest.param(["--pipeline-parallel-size=2"], 2, id="a pipeline beside the default"),
            pytest.param(["--tensor-parallel-size"], 2, id="without a value"),
            pytest.param(["--tensor-parallel-size=all"], 2, id="no number"),
            pytest.param(["--tensor-parallel-size=0"], 2, id="none"),
        ],
    )
    def test_what_does_not_is_told_with_the_numbers(self, args: list[str], gpus: int) -> None:
        told = reserved.parallel_conflict(args, gpus)
        assert told is not None
        assert "tensor parallel size" in told
