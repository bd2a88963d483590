"""ASGI middleware inside vLLM's API server: bounds requests in flight, moves clients away and refuses them at the end.

Imports nothing but the standard library, so that it fits any version of the engine's libraries.
"""

import json
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

from gptservice_runtime import asgi, connections, contract, control, engine, kubelet

_log = logging.getLogger(__name__)

_CHEAP_POSTS = frozenset({"/abort_requests", "/detokenize", "/inference/v1/abort_requests", "/ping", "/tokenize"})
"""They generate nothing. Any other POST counts: a generation route of a later vLLM must too."""
_EVENT_STREAM = b"text/event-stream"
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
            content = kubelet.read_whole(self._path.parent, lambda folder: (folder / self._path.name).read_bytes())
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
    """Answers 429 above the bound, 503 while draining; everything else passes through.

    A client that keeps its connection would meet the 503, when the endpoints have long been changed. So every response
    from SIGTERM on ends its connection, and every stream does at any time: it may outlive the moment of SIGTERM.

    The engine's API server is one process with one event loop, and nothing is awaited between looking at
    the count and raising it: the bound is exact. A slot is held until the inner application has returned:
    after the last byte of a stream or after the client has gone.
    """

    def __init__(self, app: asgi.Application) -> None:
        self._app = app
        self._limit = LimitFile(Path(os.environ.get(engine.LIMITS_FILE_ENV, _DEFAULT_LIMITS_FILE)))
        self._control = control.ControlBlock.of_supervisor()

    async def __call__(self, scope: asgi.Message, receive: asgi.Receive, send: asgi.Send) -> None:
        """One request; or the server's whole life."""
        if scope["type"] == "lifespan":
            async with connections.kept(scope, self._control):
                await self._app(scope, receive, send)
            return
        if scope["type"] == "websocket":
            await self._session(scope, receive, send)
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        send = self._ending_connections(send)
        if scope["method"] != "POST" or scope["path"] in _CHEAP_POSTS:
            await self._app(scope, receive, send)
            return
        if self._control.draining:
            self._control.count_refused("draining")
            await asgi.refuse(send, _DRAINING)
            return
        limit = self._limit.current()
        if limit is not None and self._control.in_flight >= limit:
            self._control.count_refused("limit")
            await asgi.refuse(send, _too_many(limit))
            return
        self._control.in_flight += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._control.in_flight -= 1

    async def _session(self, scope: asgi.Message, receive: asgi.Receive, send: asgi.Send) -> None:
        """It may be silent for long, so that it takes no place of those that generate."""
        if self._control.draining:
            self._control.count_refused("draining")
            await asgi.refuse_any(scope, send, _DRAINING)
            return
        self._control.sessions += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._control.sessions -= 1

    def _ending_connections(self, send: asgi.Send) -> asgi.Send:
        async def send_closing(message: asgi.Message) -> None:
            if message["type"] == "http.response.start" and (self._control.stopping or _is_stream(message)):
                message = {**message, "headers": [*message.get("headers", ()), asgi.CLOSE]}
            await send(message)

        return send_closing


def _is_stream(start: asgi.Message) -> bool:
    headers = start.get("headers", ())
    return any(name.lower() == b"content-type" and value.startswith(_EVENT_STREAM) for name, value in headers)


_DRAINING = asgi.Refusal(
    status=503,
    message="This replica is shutting down. Retry: another one will answer.",
    kind="service_unavailable",
    code="draining",
    headers=((b"retry-after", b"1"),),
)


def _too_many(limit: int) -> asgi.Refusal:
    return asgi.Refusal(
        status=429,
        message=f"This replica already serves {limit} requests, its maxInflightRequests: retry later.",
        kind="rate_limit_error",
        code="rate_limit_exceeded",
        headers=((b"retry-after", b"1"),),
    )
