"""How vLLM reads arguments. That it is so is tested against vLLM's own parser: e2e/node/test_engine_arguments.py."""

import pytest

from gptservice_operator.vllm import schema
from gptservice_operator.vllm.arguments import Given, parse

FIELD = "spec.engine.args"


def given(*args: str) -> list[tuple[str, str | None, object]]:
    """Flag, key and value of arguments that vLLM takes."""
    parsed = parse(args, FIELD, schema.bundled())
    assert parsed.problems == ()
    return [(one.flag, one.key, one.value) for one in parsed.given]


def problems(*args: str) -> list[str]:
    return [f"{one.where.removeprefix(FIELD)} {one.what}" for one in parse(args, FIELD, schema.bundled()).problems]


@pytest.mark.parametrize(
    ("args", "flag", "value"),
    [
        pytest.param(["--max-num-seqs=16"], "--max-num-seqs", 16, id="a value behind ="),
        pytest.param(["--max-num-seqs", "16"], "--max-num-seqs", 16, id="a value behind a space"),
        pytest.param(["--max_num_seqs", "16"], "--max-num-seqs", 16, id="underscores"),
        pytest.param(["--tensor-par=4"], "--tensor-parallel-size", 4, id="a beginning that is one flag's only"),
        pytest.param(["-tp", "4"], "--tensor-parallel-size", 4, id="a short name"),
        pytest.param(["-qfp8"], "--quantization", "fp8", id="a value right behind a letter"),
        pytest.param(["--enforce-eager"], "--enforce-eager", True, id="a boolean flag"),
        pytest.param(["--no-enforce-eager"], "--enforce-eager", False, id="its negation"),
        pytest.param(["--headless"], "--headless", True, id="a switch"),
        pytest.param(["-O3"], "--optimization-level", "3", id="the optimization level"),
        pytest.param(["-O=3"], "--optimization-level", "3", id="with ="),
        pytest.param(["-O", "3"], "--optimization-level", "3", id="with a space"),
        pytest.param(["--seed", "-1"], "--seed", -1, id="a negative number"),
        pytest.param(["--cudagraph-capture-sizes", "1", "2"], "--cudagraph-capture-sizes", [1, 2], id="a list"),
        pytest.param(["--max-model-len=25.6k"], "--max-model-len", "25.6k", id="a size"),
        pytest.param(["--max-model-len=auto"], "--max-model-len", -1, id="a size that vLLM finds"),
        pytest.param(["--revision", "None"], "--revision", None, id="no value"),
        pytest.param(["--hf-token"], "--hf-token", None, id="a value that may be left out"),
        pytest.param(["--allowed-origins", '["*"]'], "--allowed-origins", ["*"], id="JSON"),
        pytest.param(["--chat-template", "--port is 1"], "--chat-template", "--port is 1", id="text like a flag"),
        pytest.param(["--moe-backend=TRITON"], "--moe-backend", "TRITON", id="what only vLLM can read"),
    ],
)
def test_a_flag_is_called_by_its_long_name(args: list[str], flag: str, value: object) -> None:
    assert given(*args) == [(flag, None, value)]


def test_a_size_in_a_configuration_is_none_of_json() -> None:
    ((flag, _, value),) = given(
        "--kv-transfer-config", '{"kv_connector": "80m", "kv_connector_extra_config": {"n": 80m}}'
    )
    assert (flag, value) == ("--kv-transfer-config", {"kv_connector": "80m", "kv_connector_extra_config": {"n": 0}})


def test_a_nested_key_may_stand_anywhere_and_counts_last() -> None:
    """vLLM takes it out first: what follows it still belongs to the list before it."""
    found = given(
        "--cudagraph-capture-sizes", "1", "-cc.mode", "3", "2", "--override_generation_config.stop_words+=a,b"
    )
    assert found == [
        ("--cudagraph-capture-sizes", None, [1, 2]),
        ("--compilation-config", "mode", "3"),
        ("--override-generation-config", "stop_words", "a,b"),
    ]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        pytest.param(["--dtipe=1"], "[0] unrecognized argument: --dtipe; did you mean --dtype?", id="a typo"),
        pytest.param(["--zzz"], "[0] unrecognized argument: --zzz", id="nothing like it"),
        pytest.param(["--Dtype=auto"], "[0] unrecognized argument: --Dtype; did you mean --dtype?", id="capitals"),
        pytest.param(["--max=1"], "[0] ambiguous option: --max=1 could match --max-", id="a beginning of several"),
        pytest.param(["--max-num-seqs=many"], "[0] argument --max-num-seqs: invalid int value: 'many'", id="no number"),
        pytest.param(["--max-num-seqs"], "[0] argument --max-num-seqs: expected one argument", id="no value"),
        pytest.param(["--dtype=bf16"], "[0] argument --dtype: invalid choice: 'bf16'", id="no choice"),
        pytest.param(["--max-model-len=1.5K"], "[0] argument --max-model-len: invalid number (such", id="half a byte"),
        pytest.param(["--allowed-origins=["], "[0] argument --allowed-origins: invalid JSON: '['", id="half of JSON"),
        pytest.param(["--allowed-origins", "[" * 4000], "[0] argument --allowed-origins: invalid JSON", id="deep JSON"),
        pytest.param(["--enforce-eager=1"], "[0] argument --enforce-eager", id="a value for a boolean flag"),
        pytest.param(["--seed=1", "--no-seed"], "[1] unrecognized argument: --no-seed", id="a negation"),
        pytest.param(["--compilation-config", '{"mod": 1}'], "has no key 'mod'; did you mean 'mode'?", id="a key"),
        pytest.param(["--compilation-config.mod=1"], "has no key 'mod'; did you mean 'mode'?", id="a nested key"),
        pytest.param(["--seed.a=1"], "[0] argument --seed: invalid int value", id="a key of a number"),
        pytest.param(["--sede.a=1"], "[0] unrecognized argument: --sede; did you mean --seed?", id="a key of nothing"),
        pytest.param(["--compilation-config.mode"], "[0] argument --compilation-config.mode: expected", id="its value"),
        pytest.param(["--"], "[0] '--' would end the flags", id="the end of flags"),
        pytest.param(["-O", "4"], "[0] unrecognized argument: -O", id="a level that there is not"),
        pytest.param(["--seed", "-1.5"], "[1] vLLM takes -1.5 for a nested key: give it as --flag=-1.5", id="below 0"),
    ],
)  # fmt: skip
def test_what_vllm_would_say(args: list[str], said: str) -> None:
    assert said in "; ".join(problems(*args))


@pytest.mark.parametrize(
    ("args", "place"),
    [
        pytest.param(["text"], "[0]", id="before every flag"),
        pytest.param(["--seed", "1", "hunter2"], "[2]", id="behind a flag that has its value"),
        pytest.param(["--enforce-eager", "hunter2"], "[1]", id="behind a flag that takes none"),
        pytest.param(["--apikey", "hunter2"], "[0]", id="behind a flag that there is not"),
        pytest.param(["--apikey=hunter2"], "[0]", id="in a flag that there is not"),
        pytest.param(["--apikey.x=hunter2"], "[0]", id="in a key that there is not"),
    ],
)
def test_a_value_that_belongs_to_no_flag_is_told_by_its_place_alone(args: list[str], place: str) -> None:
    """It may be a secret."""
    (told,) = problems(*args)
    assert told.startswith(f"{place} unrecognized argument")
    assert "hunter2" not in told


def test_every_problem_is_told_and_the_rest_is_read() -> None:
    parsed = parse(["--nope", "--seed=1", "--dtype", "--max-num-seqs=x"], FIELD, schema.bundled())
    assert [one.where for one in parsed.problems] == [f"{FIELD}[0]", f"{FIELD}[2]", f"{FIELD}[3]"]
    assert parsed.given == (Given(f"{FIELD}[1]", "--seed", 1),)
