"""`gptservice-runtime` as the operator calls it, up to the point where processes start."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from gptservice_runtime import __main__ as command
from gptservice_runtime import contract, digest, fetch, launch


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "termination-log"


@pytest.fixture
def claim(tmp_path: Path) -> Path:
    model = tmp_path / "claim" / "smollm2"
    model.mkdir(parents=True)
    (model / "config.json").write_text("{}")
    (model / "model.safetensors").write_text("1234567")
    return tmp_path / "claim"


OTHER = f"sha256:{'0' * 64}"


def message(log: Path) -> dict[str, Any]:
    return json.loads(log.read_bytes())


def test_a_fetched_model_is_reported(claim: Path, log: Path) -> None:
    arguments = ["fetch", "--uri", "pvc://models/smollm2", "--source-root", str(claim), "--termination-log", str(log)]
    assert command.main(arguments) == contract.EXIT_OK
    found = message(log)
    assert found.pop("seconds") >= 0
    assert found == {"uri": "pvc://models/smollm2", "revision": None, "digest": None, "bytes": 9}


def test_a_mounted_model_is_verified_where_a_digest_is_demanded(claim: Path, log: Path) -> None:
    wanted = digest.of_path(claim / "smollm2")
    arguments = ["fetch", "--uri", "pvc://models/smollm2", "--source-root", str(claim), "--digest", wanted]
    assert command.main([*arguments, "--termination-log", str(log)]) == contract.EXIT_OK
    assert message(log)["digest"] == wanted


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        pytest.param(["--uri", "pvc://models/other"], 1, "ModelNotFound", id="no such model"),
        pytest.param(["--uri", "pvc://models/../x"], 1, "InvalidSpec", id="parent"),
        pytest.param(["--uri", "ftp://host/x"], 1, "InvalidSpec", id="a source of a later version"),
        pytest.param(["--uri", "hf://org/../name"], 1, "InvalidSpec", id="parent in a repository"),
        pytest.param(["--uri", "pvc://models/smollm2", "--digest", OTHER], 1, "ChecksumMismatch", id="digest"),
        pytest.param(["--uri", "pvc://models/smollm2", "--digest", "sha256:0"], 2, "InvalidImage", id="no digest"),
        pytest.param([], 2, "InvalidImage", id="flag missing"),
        pytest.param(["--uri", "x", "--from-the-future"], 2, "InvalidImage", id="flag of a newer operator"),
    ],
)
def test_a_refused_fetch_says_why(claim: Path, log: Path, arguments: list[str], code: int, reason: str) -> None:
    own = ["fetch", "--source-root", str(claim), "--termination-log", str(log), *arguments]
    assert command.main(own) == code
    assert (message(log)["reason"], message(log)["phase"]) == (reason, "Fetching")


SERVE = ["serve", "--model", "/m", "--served-model-name", "a", "--startup-timeout", "9", "--drain-timeout", "9"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["serve"], "--model", id="flag missing"),
        pytest.param([*SERVE, "--port", "1"], "--port", id="engine argument without separator"),
        pytest.param([*SERVE, "--max-tokens", "0"], "--max-tokens: 0 is not a positive integer", id="zero"),
        pytest.param([*SERVE, "--drain-timeout", "-1"], "--drain-timeout: -1 is negative", id="negative"),
        pytest.param([*SERVE, "--max-model-len", "x"], "--max-model-len", id="no number"),
        pytest.param([*SERVE, "--max-tok", "1"], "--max-tok", id="abbreviation"),
    ],
)
def test_refused_serve_arguments_are_named(log: Path, arguments: list[str], said: str) -> None:
    assert command.main([*arguments, "--termination-log", str(log)]) == contract.EXIT_USAGE
    assert (message(log)["reason"], message(log)["phase"]) == ("InvalidImage", "Checking")
    assert said in message(log)["message"]


def test_a_bad_max_tokens_variable_is_named(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAX_TOKENS", "lots")
    assert command.main([*SERVE, "--termination-log", str(log)]) == contract.EXIT_USAGE
    assert "MAX_TOKENS is 'lots'" in message(log)["message"]


@pytest.mark.parametrize("arguments", [["fetch", "--uri", "pvc://models/smollm2"], SERVE], ids=["fetch", "serve"])
def test_what_nobody_has_expected_is_told_too(
    log: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, arguments: list[str]
) -> None:
    """By its type and its text, and without what must not be told."""

    def fail(*_: object) -> None:
        raise RuntimeError("Symlink loop at https://host/model?signature=hidden of hf_abcdefghijkl, of hunter2-hunter2")

    monkeypatch.setenv("SOME_PASSWORD", "hunter2-hunter2")
    monkeypatch.setattr(fetch, "fetch", fail)
    monkeypatch.setattr(launch, "run", fail)
    monkeypatch.setattr(signal, "pthread_sigmask", lambda *_: None)
    assert command.main([*arguments, "--termination-log", str(log)]) == contract.EXIT_FAILURE
    told = message(log)
    assert (told["reason"], told["phase"]) == ("CrashLoop", "Fetching" if arguments[0] == "fetch" else "Checking")
    assert told["message"].startswith("RuntimeError: Symlink loop at https://host/model of ***, of ***: gptservice")
    assert "Traceback" in caplog.text
    for secret in ("hidden", "hf_abc", "hunter2"):
        assert secret not in caplog.text
