"""Arguments and variables that belong to the operator, in every spelling that vLLM's parser takes."""

import pytest

from gptservice_operator import reserved
from gptservice_operator.vllm import schema

FIELD = "spec.engine.args"

REFUSED_ARGS = [
    pytest.param("--middleware=x.Y", id="middleware"),
    pytest.param("--api-server-count", id="api-server-count"),
    pytest.param("--port=1", id="port"),
    pytest.param("--host", id="host"),
    pytest.param("--uds", id="uds"),
    pytest.param("--grpc", id="grpc"),
    pytest.param("--grpc-port=1", id="grpc-port"),
    pytest.param("--help", id="help"),
    pytest.param("--help=all", id="help of a section"),
    pytest.param("-h", id="-h is help"),
    pytest.param("--middleware.x=y", id="a nested key of one"),
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
    ((place, said),) = reserved.reserved_args(["--dtype=bfloat16", arg], FIELD, schema.bundled()).items()
    assert place == "spec.engine.args[1]"
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
    assert reserved.reserved_args(args, FIELD, schema.bundled()) == {}


def test_every_reserved_argument_is_named() -> None:
    assert list(reserved.reserved_args(["--port", "1", "--uds", "/s"], FIELD, schema.bundled())) == [
        "spec.engine.args[0]",
        "spec.engine.args[2]",
    ]


def test_every_reserved_argument_is_one_of_the_bundled_vllm() -> None:
    """One that vLLM calls by another name now would not be reserved any more."""
    flags = set(schema.bundled().spellings.values())
    assert {f"--{name}" for name in reserved.ENGINE_ARGS} <= flags
    for prefix in reserved.ENGINE_ARG_PREFIXES:
        assert any(flag.startswith(f"--{prefix}") for flag in flags)


def test_a_member_of_a_family_is_reserved_in_a_vllm_that_is_not_known() -> None:
    assert reserved.reserved_args(["--no-data-parallel-new", "--ssl-new=1"], FIELD, schema.bundled()).keys() == {
        "spec.engine.args[0]",
        "spec.engine.args[1]",
    }


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
