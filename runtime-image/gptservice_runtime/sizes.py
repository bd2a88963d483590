"""The ASGI middleware that bounds the size of requests: the engine's API server holds each of them in memory whole.

Imports nothing but the standard library, so that it fits any version of the engine's libraries.
"""

import asyncio
from collections.abc import Iterable

from gptservice_runtime import asgi, connections, head_limit, head_time

MAX_BODY_BYTES = 128 * 1024 * 1024
"""More than any prompt with its images and sounds; some of them at a time fit into the memory of the smallest pod."""


MAX_HEAD_BYTES = 64 * 1024
"""Of the address and all headers; see head_limit for those that do not end."""
HEAD_SECONDS = 60.0
"""From its first byte on; see head_time for those that do not end, and for connections that send nothing."""
BODY_SECONDS = 60.0
"""For the whole body: a client that sends none would keep one of the places that maxInflightRequests gives."""


class SizeLimit:
    """Answers 413 to a body that is announced, or turns out, to be larger than MAX_BODY_BYTES; 431 to a long head."""

    def __init__(self, app: asgi.Application) -> None:
        self._app = app
        head_limit.install(MAX_HEAD_BYTES)
        head_time.install(connections.KEEP_ALIVE_SECONDS, HEAD_SECONDS)

    async def __call__(self, scope: asgi.Message, receive: asgi.Receive, send: asgi.Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif _head(scope) > MAX_HEAD_BYTES:
            await asgi.refuse(send, _LONG_HEAD)
        elif _announced(scope.get("headers", ())) > MAX_BODY_BYTES:
            await asgi.refuse(send, _TOO_LARGE)
        else:
            await _Bounded(receive, send).run(self._app, scope)


class _Bounded:
    """One request whose body has no announced size, or an honest one."""

    def __init__(self, receive: asgi.Receive, send: asgi.Send) -> None:
        self._receive, self._send = receive, send
        self._left = MAX_BODY_BYTES
        self._deadline = asyncio.get_running_loop().time() + BODY_SECONDS
        self._whole = False
        self._answered = False
        self._refusal: asgi.Refusal | None = None

    async def run(self, app: asgi.Application, scope: asgi.Message) -> None:
        try:
            await app(scope, self._take, self._answer)
        except Exception:
            if self._refusal is None:
                raise
        if self._refusal is not None and not self._answered:
            await asgi.refuse(self._send, self._refusal)

    async def _take(self) -> asgi.Message:
        if self._refusal is not None:
            return _GONE
        try:
            # After the body comes nothing but the client's leaving, which is waited for as long as the answer takes.
            async with asyncio.timeout_at(None if self._whole else self._deadline):
                message = await self._receive()
        except TimeoutError:
            self._refusal = _TOO_LATE
            return _GONE
        self._left -= len(message.get("body", b""))
        self._whole = not message.get("more_body", False)
        if self._left < 0:
            self._refusal = _TOO_LARGE
            return _GONE
        return message

    async def _answer(self, message: asgi.Message) -> None:
        # What the application makes of a body that broke off is not the reason.
        if self._refusal is None or self._answered:
            self._answered = True
            await self._send(message)


def _head(scope: asgi.Message) -> int:
    sizes = [len(name) + len(value) for name, value in scope.get("headers", ())]
    return len(scope.get("raw_path") or b"") + len(scope.get("query_string", b"")) + sum(sizes)


def _announced(headers: Iterable[asgi.Header]) -> int:
    """The greatest Content-Length; 0 without one that is a number: the server takes no request with another."""
    values = [value for name, value in headers if name.lower() == b"content-length"]
    return max((int(value) for value in values if value.isdigit()), default=0)


def _refusal(status: int, code: str, message: str) -> asgi.Refusal:
    """What is left of the request has not been read, so that the connection cannot be used again."""
    return asgi.Refusal(status=status, message=message, kind="invalid_request_error", code=code, headers=(asgi.CLOSE,))


_GONE: asgi.Message = {"type": "http.disconnect"}
_TOO_LARGE = _refusal(
    413, "request_too_large", f"The request's body is larger than {MAX_BODY_BYTES // 1024 // 1024} MiB."
)
_LONG_HEAD = _refusal(
    431,
    "request_header_too_large",
    f"The request's address and headers are longer than {MAX_HEAD_BYTES // 1024} KiB.",
)
_TOO_LATE = _refusal(408, "request_timeout", f"The request's body did not arrive within {BODY_SECONDS:.0f} s.")
