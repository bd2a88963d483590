"""The engine's arguments and environment."""

import importlib
import inspect
import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from e2e.standin.standin_engine import arguments as standin
from gptservice_runtime import engine, tls

OPTIONS = engine.EngineOptions(
    model=Path("/models/source/smollm2"),
    served_model_names=("gpt-4-turbo", "prod-gpt"),
    tensor_parallel_size=None,
    max_model_len=None,
    max_tokens=None,
    otlp_endpoint=None,
    drain_timeout=60,
    require_api_key=False,
    tls=None,
    host="0.0.0.0",
    port=8000,
    extra_arguments=(),
)
PATHS = engine.EnginePaths(
    cache_root=Path("/var/cache/gptservice"),
    limits_file=Path("/etc/gptservice/limits/limits.json"),
    keys_directory=Path("/etc/gptservice/keys"),
    run_directory=Path("/dev/shm/gptservice"),
    package_parent=Path("/opt/gptservice/app"),
)
TOKEN = "0123456789abcdef"


def value(argv: list[str], flag: str) -> str | None:
    """What argparse would take: the last one wins."""
    positions = [at for at, word in enumerate(argv) if word == flag]
    return argv[positions[-1] + 1] if positions else None


def test_the_model_is_the_positional_argument() -> None:
    assert engine.arguments(OPTIONS)[:3] == ["vllm", "serve", "/models/source/smollm2"]


def test_all_served_names_belong_to_one_flag() -> None:
    argv = engine.arguments(OPTIONS)
    assert argv[argv.index("--served-model-name") + 1 :] == ["gpt-4-turbo", "prod-gpt"]


def test_the_engine_gets_the_whole_drain_time_out() -> None:
    assert value(engine.arguments(OPTIONS), "--shutdown-timeout") == "60"


@pytest.mark.parametrize(
    ("field", "flag", "expected"),
    [
        pytest.param("tensor_parallel_size", "--tensor-parallel-size", "4", id="tensor parallel"),
        pytest.param("max_model_len", "--max-model-len", "4", id="context length"),
        pytest.param("max_tokens", "--override-generation-config.max_new_tokens", "4", id="max tokens"),
    ],
)
def test_optional_flags_appear_only_when_asked_for(field: str, flag: str, expected: str) -> None:
    assert value(engine.arguments(OPTIONS), flag) is None
    assert value(engine.arguments(replace(OPTIONS, **{field: 4})), flag) == expected


@pytest.mark.parametrize("flag", ["--port", "--host", "--shutdown-timeout", "--middleware"])
def test_a_user_cannot_take_over_what_the_pod_promises(flag: str) -> None:
    taken = engine.arguments(replace(OPTIONS, extra_arguments=(flag, "taken-over")))
    assert value(taken, flag) == value(engine.arguments(OPTIONS), flag)


def middleware(argv: list[str]) -> list[str]:
    return [argv[at + 1] for at, word in enumerate(argv) if word == "--middleware"]


INNERMOST_FIRST = ["ENGINE_PROBE", "MIDDLEWARE", "SIZE_LIMIT", "ROUTE_GUARD", "KEY_CHECK", "ACCESS_LOG"]


@pytest.mark.parametrize("extra", [(), ("--middleware", "taken.over")])
def test_nothing_of_the_users_comes_between_ours_or_outside_of_them(extra: tuple[str, ...]) -> None:
    asked = replace(OPTIONS, require_api_key=True, extra_arguments=extra)
    ours = [getattr(engine, name) for name in INNERMOST_FIRST]
    assert middleware(engine.arguments(asked))[-6:] == ours
    without = engine.arguments(replace(asked, require_api_key=False))
    assert middleware(without)[-5:] == [path for path in ours if path != engine.KEY_CHECK]


@pytest.mark.parametrize("name", [*INNERMOST_FIRST, "LIVE_CERTIFICATES"])
def test_the_engine_finds_each_of_them(name: str) -> None:
    module, _, found = getattr(engine, name).rpartition(".")
    assert inspect.isclass(getattr(importlib.import_module(module), found))


DIRECTORIES = tls.Directories(certificate=Path("/etc/tls"), client_ca=None)


def test_with_tls_the_engine_itself_enforces_it() -> None:
    argv = engine.arguments(replace(OPTIONS, tls=DIRECTORIES, extra_arguments=("--ssl-keyfile", "mine")))
    assert (value(argv, "--ssl-certfile"), value(argv, "--ssl-keyfile")) == ("/etc/tls/tls.crt", "/etc/tls/tls.key")
    assert engine.LIVE_CERTIFICATES in middleware(argv)
    assert value(argv, "--ssl-cert-reqs") is None
    mutual = engine.arguments(replace(OPTIONS, tls=replace(DIRECTORIES, client_ca=Path("/etc/ca"))))
    assert value(mutual, "--ssl-cert-reqs") == "2"
    assert not [word for word in engine.arguments(OPTIONS) if word.startswith("--ssl")]


def test_a_user_cannot_know_the_supervisors_token() -> None:
    environment = engine.environment({engine.METRICS_TOKEN_ENV: "guessed"}, PATHS, TOKEN, None)
    assert environment[engine.METRICS_TOKEN_ENV] == TOKEN


def test_a_user_cannot_lead_the_key_check_to_other_keys() -> None:
    environment = engine.environment({engine.KEYS_DIRECTORY_ENV: "/tmp/mine"}, PATHS, TOKEN, None)
    assert environment[engine.KEYS_DIRECTORY_ENV] == str(PATHS.keys_directory)


@given(
    names=st.lists(st.from_regex(r"[a-z0-9]([a-z0-9./_-]{0,20}[a-z0-9])?", fullmatch=True), min_size=1, max_size=5),
    parallel=st.none() | st.integers(1, 16),
    length=st.none() | st.integers(1, 1_000_000),
    tokens=st.none() | st.integers(1, 100_000),
    extra=st.lists(st.sampled_from(["--enforce-eager", "--seed=3", "--no-enable-prefix-caching"])),
)
def test_an_argument_parser_understands_every_combination(
    names: list[str], parallel: int | None, length: int | None, tokens: int | None, extra: list[str]
) -> None:
    asked = replace(
        OPTIONS,
        served_model_names=tuple(names),
        tensor_parallel_size=parallel,
        max_model_len=length,
        max_tokens=tokens,
        extra_arguments=tuple(extra),
    )
    parsed = standin.parse(engine.arguments(asked)[1:])
    assert parsed.served_model_names == tuple(names)
    assert (parsed.max_model_len, parsed.max_new_tokens) == (length, tokens)
    assert parsed.model == str(OPTIONS.model)


def test_the_users_variables_reach_the_engine() -> None:
    environment = engine.environment({"VLLM_CPU_KVCACHE_SPACE": "1", "PATH": "/bin"}, PATHS, TOKEN, None)
    assert (environment["VLLM_CPU_KVCACHE_SPACE"], environment["PATH"]) == ("1", "/bin")


@pytest.mark.parametrize(("given", "expected"), [({}, "nobind"), ({"VLLM_CPU_OMP_THREADS_BIND": "0-3"}, "0-3")])
def test_threads_are_bound_to_no_core_unless_somebody_chose_them(given: dict[str, str], expected: str) -> None:
    """Every pod of a node would choose the same ones."""
    assert engine.environment(given, PATHS, TOKEN, None)["VLLM_CPU_OMP_THREADS_BIND"] == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("HF_HUB_OFFLINE", "1", id="no call to a hub"),
        pytest.param("VLLM_NO_USAGE_STATS", "1", id="no usage statistics"),
        pytest.param("VLLM_SERVER_DEV_MODE", None, id="no development routes"),
    ],
)
def test_a_user_cannot_undo_what_keeps_the_pod_safe(name: str, expected: str | None) -> None:
    assert engine.environment({name: "0"}, PATHS, TOKEN, None).get(name) == expected


@pytest.mark.parametrize(
    "name", ["HOME", "XDG_CACHE_HOME", "VLLM_CACHE_ROOT", "HF_HOME", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"]
)
def test_every_cache_is_on_the_declared_volume(name: str) -> None:
    environment = engine.environment({name: "/somewhere/read-only"}, PATHS, TOKEN, None)
    assert Path(environment[name]).is_relative_to(PATHS.cache_root)


def test_without_a_passwd_entry_there_is_still_a_user_name() -> None:
    assert engine.environment({}, PATHS, TOKEN, None)["LOGNAME"]


@pytest.mark.parametrize(
    ("inherited", "parent", "expected"),
    [
        pytest.param("", "/opt/gptservice/app", "/opt/gptservice/app", id="ours is added"),
        pytest.param("/u", "/opt/gptservice/app", "/u:/opt/gptservice/app", id="after the user's"),
        pytest.param("/opt/gptservice/app", "/opt/gptservice/app", "/opt/gptservice/app", id="once"),
        pytest.param("", "/venv/lib/python3.11/site-packages", "", id="never a whole environment"),
    ],
)
def test_the_engine_can_import_the_middleware(inherited: str, parent: str, expected: str) -> None:
    paths = replace(PATHS, package_parent=Path(parent))
    assert engine.environment({"PYTHONPATH": inherited}, paths, TOKEN, None)["PYTHONPATH"] == expected


@pytest.mark.parametrize(
    ("flag", "variable", "cap"),
    [
        pytest.param(None, "", None, id="neither"),
        pytest.param(None, "2048", 2048, id="the variable"),
        pytest.param(16, "2048", 16, id="the flag wins"),
        pytest.param(16, "nonsense", 16, id="a variable that is not used is not read"),
    ],
)
def test_the_cap_of_generated_tokens(flag: int | None, variable: str, cap: int | None) -> None:
    assert engine.tokens_cap(flag, {"MAX_TOKENS": variable}) == cap


@pytest.mark.parametrize("variable", ["0", "-1", "1.5", "many", "²"])
def test_a_cap_that_is_no_positive_integer_is_refused(variable: str) -> None:
    with pytest.raises(ValueError, match="MAX_TOKENS"):
        engine.tokens_cap(None, {"MAX_TOKENS": variable})


def test_the_logged_command_line_can_be_read_back() -> None:
    argv = engine.arguments(replace(OPTIONS, max_tokens=4))
    assert json.loads(engine.command_line(argv)) == argv
