"""ASGI middleware inside vLLM's API server: bounds requests in flight and refuses new ones while draining.

Imports nothing but the standard library, so that it fits any version of the engine's libraries.
"""

import json
import logging
import os
import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gptservice_runtime import contract, control, engine

_log = logging.getLogger(__name__)

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]

_CHEAP_POSTS = frozenset({"/abort_requests", "/detokenize", "/inference/v1/abort_requests", "/ping", "/tokenize"})
"""They generate nothing. Any other POST counts: a generation route of a later vLLM must too."""
_DEFAULT_LIMITS_FILE = f"{contract.LIMITS_DIRECTORY}/{contract.LIMITS_FILE}"


class LimitFile:
    """The bound of requests in flight, as the mounted file has it; read once in LIMITS_POLL_SECONDS."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._next_read = float("-inf")
        self._content: bytes | None = None
        self._limit: int | None = None

    def current(self) -> int | None:
        """The bound, or None for no bound. A file that says nonsense is logged once and changes nothing."""
        now = self._clock()
        if now >= self._next_read:
            self._next_read = now + contract.LIMITS_POLL_SECONDS
            self._read()
        return self._limit

    def _read(self) -> None:
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            content = b"{}"
        except OSError as error:
            _log.warning("cannot read %s (%s): the bound stays %s", self._path, error.strerror, self._limit)
            return
        if content == self._content:
            return
        self._content = content
        try:
            self._limit = parse_limit(content)
        except ValueError as error:
            _log.warning("%s: %s; the bound stays %s", self._path, error, self._limit)
        else:
            _log.info("at most %s requests in flight", "any number of" if self._limit is None else self._limit)


def parse_limit(content: bytes) -> int | None:
    """The bound in the file's JSON, None when it has none; ValueError when it is no positive integer."""
    limits: object = json.loads(content)
    if not isinstance(limits, dict):
        raise ValueError("not a JSON object")
    limit: object = limits.get(contract.LIMITS_KEY_MAX_INFLIGHT)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
        raise ValueError(f"{contract.LIMITS_KEY_MAX_INFLIGHT} must be a positive integer, not {limit!r}")
    return limit


class InFlightLimit:
    """Answers 429 above the bound, 503 while draining; everything else passes through untouched.

    The engine's API server is one process with one event loop, and nothing is awaited between looking at
    the count and raising it: the bound is exact. A slot is held until the inner application has returned:
    after the last byte of a stream or after the client has gone.
    """

    def __init__(self, app: Application) -> None:
        self._app = app
        self._limit = LimitFile(Path(os.environ.get(engine.LIMITS_FILE_ENV, _DEFAULT_LIMITS_FILE)))
        self._control = _control_block(os.environ.get(engine.CONTROL_FILE_ENV, ""))

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http" or scope["method"] != "POST" or scope["path"] in _CHEAP_POSTS:
            await self._app(scope, receive, send)
            return
        if self._control.draining:
            await _answer(send, _DRAINING)
            return
        limit = self._limit.current()
        if limit is not None and self._control.in_flight >= limit:
            await _answer(send, _too_many(limit))
            return
        self._control.in_flight += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._control.in_flight -= 1


def _control_block(path: str) -> control.ControlBlock:
    try:
        return control.ControlBlock.open(Path(path))
    except (OSError, ValueError) as error:
        _log.warning("%s=%r (%s): SIGTERM will not wait for running requests", engine.CONTROL_FILE_ENV, path, error)
        return control.ControlBlock.private()


@dataclass(frozen=True, kw_only=True)
class _Refusal:
    """An answer in the form of OpenAI's API errors."""

    status: int
    message: str
    kind: str
    code: str
    headers: tuple[tuple[bytes, bytes], ...]


_DRAINING = _Refusal(
    status=503,
    message="This replica is shutting down. Retry: another one will answer.",
    kind="service_unavailable",
    code="draining",
    headers=((b"retry-after", b"1"), (b"connection", b"close")),
)


def _too_many(limit: int) -> _Refusal:
    return _Refusal(
        status=429,
        message=f"This replica already serves {limit} requests, its maxInflightRequests: retry later.",
        kind="rate_limit_error",
        code="rate_limit_exceeded",
        headers=((b"retry-after", b"1"),),
    )


async def _answer(send: Send, refusal: _Refusal) -> None:
    error = {"message": refusal.message, "type": refusal.kind, "param": None, "code": refusal.code}
    body = json.dumps({"error": error}).encode()
    content = ((b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()))
    headers = [*content, *refusal.headers]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
