"""The termination message: small, whole, without secrets."""

import json
import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gptservice_runtime import contract, termination


def failure(message: str) -> contract.FailureMessage:
    return {
        "reason": contract.REASON_MODEL_LOAD_FAILED,
        "message": message,
        "phase": contract.PHASE_LOADING,
    }


@given(st.text(), st.integers(min_value=1, max_value=3000))
def test_any_message_fits_and_stays_json(text: str, times: int) -> None:
    encoded = termination.encode_failure(failure(text * times))
    assert len(encoded) <= contract.TERMINATION_MESSAGE_MAX_BYTES
    decoded = json.loads(encoded)
    assert (decoded["reason"], decoded["phase"]) == ("ModelLoadFailed", "Loading")


@pytest.mark.parametrize(
    "filler",
    [
        pytest.param("x", id="ascii"),
        pytest.param("語", id="three bytes each"),
        pytest.param('"', id="escaped to two"),
        pytest.param("\x00", id="escaped to six"),
        pytest.param("\udc80", id="a byte that was no text"),
    ],
)
def test_a_long_message_keeps_its_beginning_and_its_end(filler: str) -> None:
    decoded = json.loads(termination.encode_failure(failure(f"the cause {filler * 9000} the last line")))
    assert decoded["message"].startswith("the cause ")
    assert decoded["message"].endswith(" the last line")
    assert " ... " in decoded["message"]


def test_a_long_message_uses_the_room_there_is() -> None:
    assert len(termination.encode_failure(failure("x" * 9000))) > contract.TERMINATION_MESSAGE_MAX_BYTES - 100


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        pytest.param("token hf_abcDEF123456 refused", "token *** refused", id="shape of a hub token"),
        pytest.param("Authorization: Bearer abc.def", "Authorization: Bearer ***", id="bearer"),
        pytest.param("https://u:p4ss@host/x", "https://***@host/x", id="credentials in a URL"),
        pytest.param("password=s3cr3t-value!", "password=***", id="value of a variable called so"),
        pytest.param("s3cr3t-value!-and-more", "***", id="the longer of two secrets first"),
        pytest.param("--max-model-len 123456", "--max-model-len 123456", id="a number is no secret"),
        pytest.param("true story", "true story", id="a short value is no secret"),
    ],
)
def test_secrets_are_masked(text: str, masked: str) -> None:
    environment = {
        "MY_PASSWORD": "s3cr3t-value!",
        "OTHER_SECRET": "s3cr3t-value!-and-more",
        "MAX_TOKENS": "123456",
        "USE_TOKEN": "true",
        "EMPTY_KEY": "",
    }
    assert termination.mask(text, termination.secret_values(environment)) == masked


def test_a_shorter_message_replaces_a_longer_one(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("x" * 5000)
    termination.write_failure(log, failure("short"), {})
    assert json.loads(log.read_bytes())["message"] == "short"


def test_a_log_that_cannot_be_written_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        termination.write_failure(tmp_path / "no" / "log", failure("why it failed"), {})
    assert "why it failed" in caplog.text
    assert "terminationMessagePath" in caplog.text
