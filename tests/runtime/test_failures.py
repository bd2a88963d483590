"""What a dead engine's traces mean. Outputs are vLLM 0.32's own, shortened in the middle only."""

import signal
from collections.abc import Sequence

import pytest

from gptservice_runtime import failures

ARGUMENTS = ["--max-model-len", "9999", "--tensor-parallel-size=8", "--enforce-eager"]

UNKNOWN_FLAG = """\
usage: vllm [-h] [-v]
            {chat,complete,serve,launch,bench,collect-env,download-kernels,preload,run-batch,snapshot}
            ...
vllm: error: unrecognized arguments: --nonsense 3
"""
BAD_VALUE = "vllm serve: error: argument --max-num-seqs: invalid int value: 'many'\n"
UNKNOWN_MODEL = """\
    s.__pydantic_validator__.validate_python(ArgsKwargs(args, kwargs), self_instance=s)
pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig
  Value error, Unrecognized model in /models/source/m. Should have a `model_type` key in its config.json. \
[type=value_error, input_value=ArgsKwargs((), {'model': ...nderer_num_workers': 1}), input_type=ArgsKwargs]
    For further information visit https://errors.pydantic.dev/2.14/v/value_error
"""
TRUNCATED_WEIGHTS = """\
(Worker pid=4187) ERROR 11-30 00:48:37 [multiproc_executor.py:953]     with safe_open(st_file, framework="pt") as f:
(Worker pid=4187) ERROR 11-30 00:48:37 [multiproc_executor.py:953] safetensors._safetensors_rust.SafetensorError: \
Error while deserializing header: incomplete metadata, file not fully covered
(EngineCore pid=3824) ERROR 11-30 00:48:42 [core.py:1510] Exception: WorkerProc initialization failed due to an \
exception in a background process. See stack trace for root cause.
RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore': 1}
"""
DEAD_CORE = """\
(APIServer pid=2052) ERROR 11-30 00:47:08 [async_llm.py:906] vllm.v1.engine.exceptions.EngineDeadError: EngineCore \
encountered an issue. See stack trace (above) for the root cause.
INFO:     Finished server process [2052]
"""
CUDA_MEMORY = """\
(EngineCore pid=71) torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 28.00 GiB. GPU 0 has a total capacity
RuntimeError: Engine core initialization failed. See root cause above.
"""
NO_DEVICE = """\
    raise RuntimeError(
RuntimeError: Failed to infer device type, please set the environment variable `VLLM_LOGGING_LEVEL=DEBUG` to turn on \
verbose logging to help debug the issue.
"""


def evidence(
    output: str = "",
    *,
    code: int | None = 1,
    killed_by: int | None = None,
    phase: str = "Loading",
    oom_kills: int = 0,
    arguments: Sequence[str] = ARGUMENTS,
    flags: Sequence[str] = (),
) -> failures.Evidence:
    return failures.Evidence(
        ended=failures.EngineExit(code=None if killed_by else code, signal_number=killed_by),
        phase=phase,  # type: ignore[arg-type]
        arguments=arguments,
        flags=flags,
        last_output=output,
        oom_kills=oom_kills,
    )


@pytest.mark.parametrize(
    ("known", "reason", "said"),
    [
        pytest.param(
            evidence(UNKNOWN_FLAG, code=2), "InvalidEngineArgument",
            "unrecognized arguments: --nonsense 3 (exit code 2)", id="unknown flag",
        ),
        pytest.param(evidence(BAD_VALUE, code=2), "InvalidEngineArgument", "invalid int value: 'many'", id="bad value"),
        pytest.param(
            evidence(UNKNOWN_MODEL), "ModelLoadFailed", "vllm refused the model: Unrecognized model in", id="bad model"
        ),
        pytest.param(
            evidence(TRUNCATED_WEIGHTS), "ModelLoadFailed",
            "model was served: safetensors._safetensors_rust.SafetensorError: Error while", id="truncated weights",
        ),
        pytest.param(
            evidence(DEAD_CORE, code=0, phase="Serving"), "CrashLoop", "without being asked (exit code 0)",
            id="the engine core was killed",
        ),
        pytest.param(evidence(CUDA_MEMORY), "GPUOutOfMemory", "GPU's memory", id="no GPU memory at the start"),
        pytest.param(evidence(CUDA_MEMORY, phase="Serving"), "GPUOutOfMemory", "GPU's memory", id="nor later"),
        pytest.param(evidence(NO_DEVICE), "InvalidImage", "no backend for the device that the pod has", id="no device"),
        pytest.param(evidence(NO_DEVICE), "InvalidImage", "runtime.cpuImage", id="what to do about it"),
        pytest.param(evidence(NO_DEVICE, phase="Serving"), "CrashLoop", "without being", id="words of one that served"),
        pytest.param(evidence("Traceback"), "ModelLoadFailed", "before the model was served", id="any other start"),
        pytest.param(evidence("no usage", code=2), "ModelLoadFailed", "exit code 2", id="exit 2, but no usage error"),
        pytest.param(evidence(code=0), "ModelLoadFailed", "exit code 0", id="success is a failure too"),
        pytest.param(evidence(phase="WarmingUp"), "ModelLoadFailed", "before", id="during the warm-up"),
        pytest.param(evidence("x", phase="Serving"), "CrashLoop", "without being asked", id="while serving"),
        pytest.param(evidence("x", phase="Draining"), "CrashLoop", "exit code 1", id="in the gap"),
        pytest.param(evidence(killed_by=9), "CrashLoop", "signal 9 (SIGKILL)", id="killed, but not for memory"),
        pytest.param(evidence(killed_by=11, phase="Serving"), "CrashLoop", "(SIGSEGV)", id="segmentation fault"),
        pytest.param(evidence(killed_by=9, oom_kills=1), "OutOfMemory", "memory limit", id="killed for memory"),
        pytest.param(evidence(oom_kills=1), "OutOfMemory", "memory limit", id="a worker killed for memory"),
    ],
)  # fmt: skip
def test_reasons(known: failures.Evidence, reason: str, said: str) -> None:
    failure = failures.classify(known)
    assert (failure["reason"], failure["phase"]) == (reason, known.phase)
    assert said in failure["message"]


@pytest.mark.parametrize(
    ("refused", "told"),
    [
        pytest.param("--max-modl-len=4", "; did you mean --max-model-len? (exit", id="a typo"),
        pytest.param("--max_modl_len 4 --x", "; did you mean --max-model-len? (exit", id="several"),
        pytest.param("--zzz", ": --zzz (exit", id="nothing like it"),
        pytest.param("4", ": 4 (exit", id="no flag"),
    ],
)
def test_the_nearest_flag_is_told(refused: str, told: str) -> None:
    output = f"vllm: error: unrecognized arguments: {refused}\n"
    failure = failures.classify(evidence(output, code=2, flags=["--max-model-len", "--dtype"]))
    assert told in failure["message"]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        pytest.param("User-specified max_model_len (9999) is greater than", "InvalidEngineArgument", id="given"),
        pytest.param(
            "Total number of attention heads (9) must be divisible by tensor parallel size (8).",
            "InvalidEngineArgument",
            id="given, in other words",
        ),
        pytest.param("the derived max_model_lens are", "ModelLoadFailed", id="another word"),
        pytest.param("quantization foo is unknown", "ModelLoadFailed", id="an option that was not given"),
    ],
)
def test_a_validation_error_is_the_users_only_if_it_names_an_argument(error: str, reason: str) -> None:
    output = f"1 validation error for ModelConfig\n  Value error, {error} [type=value_error, input_value=1]\n"
    failure = failures.classify(evidence(output))
    assert failure["reason"] == reason
    assert f": {error} (exit code 1)" in failure["message"]


def test_every_field_that_is_at_fault_is_told() -> None:
    """As vLLM 0.32 answers --max-num-seqs=0: the field that was not given comes first."""
    output = """\
pydantic_core._pydantic_core.ValidationError: 2 validation errors for SchedulerConfig
max_num_batched_tokens
  Input should be greater than or equal to 1 [type=greater_than_equal, input_value=0, input_type=int]
    For further information visit https://errors.pydantic.dev/2.14/v/greater_than_equal
max_num_seqs
  Input should be greater than or equal to 1 [type=greater_than_equal, input_value=0, input_type=int]
    For further information visit https://errors.pydantic.dev/2.14/v/greater_than_equal
"""
    failure = failures.classify(evidence(output, arguments=["--max-num-seqs=0"]))
    assert failure["reason"] == "InvalidEngineArgument"
    least = "Input should be greater than or equal to 1"
    assert f": max_num_batched_tokens: {least}; max_num_seqs: {least} (exit code 1)" in failure["message"]


def test_the_last_lines_are_quoted_in_order_and_without_gaps() -> None:
    output = "".join(f"line {number}\n\n" for number in range(40))
    message = failures.classify(evidence(output))["message"]
    assert message.endswith("line 38\nline 39")
    assert "line 28\n" in message
    assert "line 27\n" not in message


def test_an_endless_line_does_not_push_the_others_out() -> None:
    message = failures.classify(evidence("first\n" + "x" * 100_000 + "\nlast"))["message"]
    assert len(message) < 1000
    assert "first\n" in message


def test_a_used_up_budget_quotes_the_engine() -> None:
    failure = failures.start_up_budget_used_up("Loading", 1800, "Loading weights: 12 %\n")
    assert failure["message"].endswith("budget of 1800 s (startupTimeoutSeconds); last lines: Loading weights: 12 %")


@pytest.mark.parametrize(
    ("status", "text"),
    [
        pytest.param(0, "exit code 0", id="success"),
        pytest.param(2 << 8, "exit code 2", id="code"),
        pytest.param(255 << 8, "exit code 255", id="highest code"),
        pytest.param(signal.SIGKILL, "signal 9 (SIGKILL)", id="signal"),
        pytest.param(signal.SIGSEGV | 0x80, "signal 11 (SIGSEGV)", id="signal with a core file"),
        pytest.param(35, "signal 35", id="a real-time signal"),
    ],
)
def test_how_a_process_ended(status: int, text: str) -> None:
    assert str(failures.EngineExit.from_wait_status(status)) == text
