"""The termination message: how a container tells the operator why it ended."""

import bisect
import json
import logging
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from gptservice_runtime import contract

_log = logging.getLogger(__name__)

_MASK = "***"
_SECRET_NAME = re.compile(r"TOKEN|KEY|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)
_SECRET_SHAPE = re.compile(
    r"\b(?:hf_|sk-|nvapi-|ghp_)[A-Za-z0-9_-]{8,}|(?<=Bearer )\S+|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"
)
_QUERY = re.compile(r"(\w://[^\s?\"']+)\?[^\s\"']*")
_SHORTEST_SECRET = 6
"""Characters; shorter values (``true``) of a variable such as ``USE_TOKEN`` would mask half a message."""


def secret_values(environment: Mapping[str, str]) -> list[str]:
    """Values of the variables whose names suggest one, longest first, so that none masks part of another."""
    named = {value.strip() for name, value in environment.items() if _SECRET_NAME.search(name)}
    found = [value for value in named if len(value) >= _SHORTEST_SECRET and not value.isdigit()]
    return sorted(found, key=len, reverse=True)


def mask(text: str, secrets: Iterable[str]) -> str:
    """Replace the given values, and whatever has the shape of a token, by ``***``."""
    for secret in secrets:
        text = text.replace(secret, _MASK)
    return _SECRET_SHAPE.sub(_MASK, text)


def without_queries(text: str) -> str:
    """Without what addresses have behind their paths, which may be a signature."""
    return _QUERY.sub(r"\1", text)


def encode_failure(failure: contract.FailureMessage) -> bytes:
    """JSON of at most TERMINATION_MESSAGE_MAX_BYTES; a longer ``message`` keeps its beginning and its end."""
    whole = _encode(failure, failure["message"])
    if len(whole) <= contract.TERMINATION_MESSAGE_MAX_BYTES:
        return whole

    def size(kept: int) -> int:
        return len(_encode(failure, _shorten(failure["message"], kept)))

    too_long = bisect.bisect_right(range(len(failure["message"])), contract.TERMINATION_MESSAGE_MAX_BYTES, key=size)
    return _encode(failure, _shorten(failure["message"], too_long - 1))


def _encode(failure: contract.FailureMessage, message: str) -> bytes:
    return json.dumps({**failure, "message": message}, ensure_ascii=False).encode(errors="replace")


def _shorten(text: str, kept: int) -> str:
    return f"{text[: kept // 2]} ... {text[len(text) - (kept - kept // 2) :]}"


def write_failure(path: Path, failure: contract.FailureMessage, environment: Mapping[str, str]) -> None:
    """Write a failure without secrets; see `write` for a log that cannot be written."""
    masked = contract.FailureMessage(
        reason=failure["reason"],
        message=mask(failure["message"], secret_values(environment)),
        phase=failure["phase"],
    )
    _log.error("%s while %s: %s", masked["reason"], masked["phase"], masked["message"])
    write(path, encode_failure(masked))


def write_fetched(path: Path, result: contract.FetchResult) -> None:
    """Write what a successful fetch found."""
    write(path, json.dumps(result).encode())


def write(path: Path, content: bytes) -> None:
    """Replace the file's content by one write; one that cannot be written costs a warning, not the exit code.

    The kubelet bind-mounts this file and reads it when the container has ended: it cannot be renamed over,
    and nobody reads it half-way.
    """
    try:
        with path.open("wb", buffering=0) as file:
            file.write(content)
    except OSError as error:
        _log.warning(
            "cannot write the termination message to %s (%s): its content is in the line above; "
            "check the container's terminationMessagePath",
            path,
            error.strerror,
        )
