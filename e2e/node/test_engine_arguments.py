"""What the operator says of engine arguments, against vLLM's own parser: without an engine, and without a cluster."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from e2e.vllm import environment
from gptservice_operator import engine_arguments, reserved
from gptservice_operator.vllm import schema
from gptservice_runtime import contract, engine, engine_schema, tls

pytestmark = pytest.mark.vllm

FIELD = "spec.engine.args"
ANYTHING = engine_arguments.Fields(gpu_count=0, context_length=None, max_tokens=None)
OURS = engine.EngineOptions(
    model=Path(f"{contract.SOURCE_ROOT}/m"),
    served_model_names=("m", "chat"),
    tensor_parallel_size=2,
    max_model_len=2048,
    max_tokens=256,
    otlp_endpoint="http://collector:4318",
    drain_timeout=60,
    require_api_key=True,
    tls=tls.Directories(certificate=Path(contract.TLS_DIRECTORY), client_ca=Path(contract.CLIENT_CA_DIRECTORY)),
    host="::",
    port=contract.ENGINE_PORT,
    extra_arguments=(),
)
Args = tuple[str, ...]

GOOD: tuple[Args, ...] = (
    ("--dtype=bfloat16", "--enforce-eager"),
    ("--dtype", "float32", "--kv-cache-memory-bytes=1G", "--no-enable-prefix-caching"),
    ("--max_num_seqs", "16", "--max-num-batched-tokens", "2k", "--max-model-len", "25.6k"),
    ("--max-model-len=auto",),
    ("--max-model-len", "-1", "--seed", "-1"),
    ("--gpu-memory-util", "0.9", "--enforce-e"),
    ("-tp", "2", "-pp=2", "-q", "fp8", "-qfp8"),
    ("-O3",),
    ("-O", "2"),
    ("-O=0", "--compilation-config", '{"mode": 3}'),
    ("--cudagraph-capture-sizes", "1", "2", "4", "--seed=1"),
    ("--kv-transfer-config", '{"kv_connector_extra_config": {"cpu_bytes": 80m}}'),
    ("-cc.mode", "3", "--compilation_config.custom_ops+=none,+rms_norm", "--compilation-config.cudagraph_mode=NONE"),
    ("--override-generation-config.temperature", "0.5", "--override-generation-config.stop+", "a,b"),
    ("--override-generation-config", '{"temperature": 0.5}'),
    ("--hf-overrides", '{"a": {"b": 1}}', "--limit-mm-per-prompt", '{"image": 2}'),
    ("--speculative-config", '{"model": "x", "num_speculative_tokens": 3}', "--spec-tokens=3"),
    ("--chat-template", "{{ a }} --port is 8000", "--chat-template=./x.jinja"),
    ("--lora-modules", "a=/a", '{"name": "b", "path": "/b"}', "--enable-lora"),
    ("--allowed-origins", '["*"]', "--uvicorn-log-level", "warning"),
    ("--tokenizer", "", "--revision", "None", "--quantization", "None"),
    ("--reasoning-parser", "deepseek_r1", "--enable-auto-tool-choice", "--tool-call-parser", "hermes"),
    ("--moe-backend", "Flashinfer-CUTLASS"),
    ("--hf-token",),
    ("--log-config-file", "/x.json"),
)  # fmt: skip

BAD: tuple[tuple[Args, str], ...] = (
    (("--max-modl-len=1",), "[0]: unrecognized argument: --max-modl-len; did you mean --max-model-len?"),
    (("--enforce-eager", "--disable-log-requests"), "[1]: unrecognized argument: --disable-log-requests; did you mean"),
    (("--max-num-seqs", "many"), "[0]: argument --max-num-seqs: invalid int value: 'many'"),
    (("--max-num-seqs",), "[0]: argument --max-num-seqs: expected one argument"),
    (("--max-num-seqs", "--enforce-eager"), "[0]: argument --max-num-seqs: expected one argument"),
    (("--enforce-eager", "true"), "[1]: unrecognized argument: --enforce-eager does not take this value"),
    (("--enforce-eager=true",), "[0]: argument --enforce-eager"),
    (("--no-max-num-seqs",), "[0]: unrecognized argument: --no-max-num-seqs"),
    (("--dtype=bf16",), "[0]: argument --dtype: invalid choice: 'bf16'"),
    (("--max-model-len=1.5K",), "[0]: argument --max-model-len: invalid number"),
    (("--max", "1"), "[0]: ambiguous option: --max could match"),
    (("--compilation-config", '{"mode": '), "[0]: argument --compilation-config/-cc: invalid JSON"),
    (("--compilation-config", '{"modde": 3}'), "--compilation-config has no key 'modde'; did you mean 'mode'?"),
    (("--compilation-config.modde=3",), "--compilation-config has no key 'modde'; did you mean 'mode'?"),
    (("--seed=1", "--compilation-config.mode"), "[1]: argument --compilation-config.mode: expected one argument"),
    (("--dtype.mode", "3"), "[0]: argument --dtype: invalid choice"),
    (("--cudagraph-capture-sizes", "1", "x"), "[0]: argument --cudagraph-capture-sizes: invalid int value: 'x'"),
    (("model",), "[0]: unrecognized argument: a value that belongs to no flag"),
    (("--seed=1", "--", "--dtype=auto"), "[1]: '--' would end the flags"),
    (("-O", "x"), "[0]: unrecognized argument: -O"),
    (("--omni",), "[0]: unrecognized argument: --omni"),
)

GENERATION: tuple[tuple[Args, dict[str, Any]], ...] = (
    ((), {}),
    (("--override-generation-config.temperature", "0.5"), {"temperature": 0.5}),
    (("--override-generation-config.max_new_tokens=9999",), {}),
    (("--override-gen.max_new_tokens=9999",), {}),
    (("--override-generation-config", '{"max_new_tokens": 9999, "temperature": 0.5}'), {}),
)
"""What a user can try beside maxTokens, and what is left of it beside the cap."""

VALUES = (
    "1", "-1", "1.5", "-1.5", "1K", "1.5K", "auto", "", "text", '{"a": 80m}', "a b", "--", "--x y", "-O3", "a.b",
)  # fmt: skip

READ_BY_VLLM_ALONE = frozenset(
    {
        "--additional-config", "--hf-overrides", "--linear-backend", "--lora-modules", "--model-loader-extra-config",
        "--moe-backend", "--pt-load-map-location", "--sparse-indexer-topk-backend",
    }
)  # fmt: skip
"""Flags of which some wrong values are refused in the pod only: vLLM reads them by functions of its own."""


@cache
def flags() -> tuple[dict[str, Any], ...]:
    return tuple(json.loads(engine_schema.path().read_text())["flags"])


def configurations() -> frozenset[str]:
    """Flags whose JSON values are checked by vLLM's configuration classes: here only form and outermost keys are."""
    return frozenset(flag["names"][0] for flag in flags() if flag.get("type") == "config")


def tried() -> Iterator[tuple[str, Args]]:
    """Every flag in every spelling, with values of every kind: the flag, and how it is used."""
    for flag in flags():
        name = flag["names"][0]
        choices = [str(choice) for choice in flag.get("choices", ())[:2]]
        for value in (*VALUES, *choices, *(choice.upper() for choice in choices)):
            yield name, (name, value)
            yield name, (f"{name}={value}",)
        for key in flag.get("keys", ())[:1]:
            yield from ((name, args) for args in ((f"{name}.{key}", "null"), (f"{name}.{key}s=1",)))
        for spelling in (*flag["names"], f"--{name[2:].replace('-', '_')}", name[:-1], f"--no-{name[2:]}", f"{name}s"):
            yield from (
                (name, args) for args in ((spelling,), (spelling, "1"), (spelling, "1", "2"), (f"{spelling}=1",))
            )
            yield name, (f"{spelling}.a", "1")


def refused(args: Args) -> str | None:
    """What the operator says against them."""
    try:
        engine_arguments.decide({FIELD: args}, ANYTHING, vllm_version=contract.VLLM_VERSION)
    except engine_arguments.RefusedError as error:
        return str(error)
    return None


def is_reserved(args: Args) -> bool:
    return bool(reserved.reserved_args(args, FIELD, schema.bundled()))


def takes_a_flag_of_ours(args: Args) -> bool:
    """To vLLM -1.5 is a nested key, whose value is the next argument: the first of the runtime's, if it is the last."""
    return args[-1] == "-1.5"


def command_line(args: Args, **fields: Any) -> Args:
    """What the runtime makes of the user's arguments: those of `vllm`."""
    return tuple(engine.arguments(engine.EngineOptions(**{**vars(OURS), **fields, "extra_arguments": args}))[1:])


def rendered() -> Iterator[Args]:
    """Every combination of fields, with the user's arguments of each kind before what the runtime adds."""
    chosen = {
        "served_model_names": (("m",), ("org/m", "m.1", "~m_2:x")),
        "tensor_parallel_size": (None, 4),
        "max_model_len": (None, 1, 16777216),
        "max_tokens": (None, 1, 16777216),
        "require_api_key": (False, True),
    }
    before: tuple[Args, ...] = (
        (),
        ("--cudagraph-capture-sizes", "1"),
        ("--override-generation-config.temperature=0.5",),
    )
    for fields in itertools.product(*chosen.values()):
        yield from (command_line(args, **dict(zip(chosen, fields, strict=True))) for args in before)


Asked = Mapping[Args, environment.Verdict]


@pytest.fixture(scope="module")
def vllm() -> Asked:
    """What vLLM says of command lines; asked once for all, since it takes seconds to be imported."""
    lists = [*GOOD, *(args for args, _ in BAD), *(args for _, args in tried())]
    capped = (command_line(args, max_tokens=256) for args, _ in GENERATION)
    vectors = [*dict.fromkeys([*map(command_line, lists), *rendered(), *capped])]
    return dict(zip(vectors, environment.verdicts(vectors), strict=True))


def test_the_committed_schema_is_that_of_the_pinned_vllm() -> None:
    committed = engine_schema.path().read_text()
    assert environment.schema() == committed, "run `make engine-arguments` and commit what it wrote"


def test_nothing_that_vllm_takes_is_refused(vllm: Asked) -> None:
    assert [
        f"{args}: {told}"
        for _, args in tried()
        if vllm[command_line(args)].said is None
        and (told := refused(args)) is not None
        and not (is_reserved(args) or takes_a_flag_of_ours(args))
    ] == []


def test_what_vllm_refuses_is_refused_but_for_what_it_reads_by_functions_of_its_own(vllm: Asked) -> None:
    elsewhere = READ_BY_VLLM_ALONE | configurations()
    assert [
        f"{args}: {said}"
        for flag, args in tried()
        if flag not in elsewhere and (said := vllm[command_line(args)].said) is not None and refused(args) is None
    ] == []


@pytest.mark.parametrize("args", GOOD, ids=" ".join)
def test_usual_arguments_are_taken_by_both(args: Args, vllm: Asked) -> None:
    assert (vllm[command_line(args)].said, refused(args)) == (None, None)


@pytest.mark.parametrize(("args", "told"), BAD, ids=lambda value: " ".join(value) if isinstance(value, tuple) else "")
def test_wrong_ones_are_refused_by_both_and_told(args: Args, told: str, vllm: Asked) -> None:
    assert vllm[command_line(args)].said is not None
    assert told in (refused(args) or "nothing")


def test_vllm_takes_whatever_the_runtime_adds(vllm: Asked) -> None:
    assert [(vector, said) for vector in rendered() if (said := vllm[vector].said) is not None] == []


@pytest.mark.parametrize(("args", "left"), GENERATION, ids=lambda value: " ".join(value) or "nothing")
def test_the_cap_of_tokens_wins_whatever_the_arguments_say(args: Args, left: dict[str, Any], vllm: Asked) -> None:
    assert vllm[command_line(args, max_tokens=256)].generation == {**left, "max_new_tokens": 256}
