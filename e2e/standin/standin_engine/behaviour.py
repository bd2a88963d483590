"""What the stand-in can be told to do: by environment for all, by a field of the body for one request."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

_PREFIX = "STANDIN_"
FIELD = "standin"
"""Name of the request body's extra field."""


@dataclass(frozen=True, kw_only=True)
class Behaviour:
    """Variables of the process: STANDIN_ and the field's name in capitals; integers, but for `last_words`."""

    startup_milliseconds: int = 0
    """Delay before the API listens."""
    token_milliseconds: int = 0
    """Delay before each token."""
    fail_at_start: int = 0
    """Exit code with which the process ends after the start-up delay; 0 = it does not."""
    last_words: str = ""
    """Text written to stderr before any failure that was asked for."""
    crash_after_requests: int = 0
    """After so many answered generation requests (the warm-up is the first) the process ends; 0 = never."""
    crash_exit_code: int = 1
    """Exit code of a crash; negative: the process kills itself by that signal."""
    hang_at_start: int = 0
    """1: never listens."""
    hang_after_requests: int = 0
    """After so many answered generation requests no further one is answered; 0 = never."""
    outlive_core: int = 0
    """1: the API server goes on when its core has died, where vLLM's ends."""
    allocate_mebibytes: int = 0
    """Memory taken, and touched, after the start-up delay."""


@dataclass(frozen=True, kw_only=True)
class RequestBehaviour:
    """Keys of the body's field `standin`; absent ones follow the process."""

    tokens: int | None = None
    """Length of the answer before any cap."""
    token_milliseconds: int | None = None
    delay_milliseconds: int = 0
    """Before the first byte of the answer."""
    prefill_milliseconds: int = 0
    """Length of a step of reading the prompt; the core answers nothing else during it."""
    prefill_steps: int = 1
    """How many of them; each moves `vllm:kv_cache_usage_perc`."""
    status: int = 200
    """Any other: an error of that status instead of an answer."""
    crash: bool = False
    """The process ends when this request comes in."""
    break_after_tokens: int | None = None
    """The connection is cut after so many tokens of a stream."""


def from_environment(environment: Mapping[str, str] = os.environ) -> Behaviour:
    """Read STANDIN_ variables; SystemExit for an unknown name or a value of the wrong type."""
    known = {f"{_PREFIX}{field.name.upper()}": field for field in fields(Behaviour)}
    values: dict[str, Any] = {}
    for name, text in environment.items():
        if not name.startswith(_PREFIX):
            continue
        if name not in known:
            raise SystemExit(f"stand-in: unknown variable {name}; known: {', '.join(sorted(known))}")
        values[known[name].name] = text if known[name].type is str else _integer(name, text)
    return Behaviour(**values)


def _integer(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise SystemExit(f"stand-in: {name} must be an integer, not {text!r}") from None


def from_request(body: Mapping[str, Any]) -> RequestBehaviour:
    """Read the body's field; TypeError for an unknown key."""
    return RequestBehaviour(**body.get(FIELD, {}))
