"""The ASGI middleware inside vLLM's API server that logs each request by one line, and gives each an identifier.

A line has nothing of a body, a query or a header but the identifier: prompts and keys never reach the log.
Imports nothing but the standard library, so that it fits any version of the engine's libraries.
"""

import logging
import re
import sys
import time
import uuid

from gptservice_runtime import asgi, contract, guard

_ID_HEADER = b"x-request-id"
_USABLE_ID = re.compile(rb"[A-Za-z0-9._:/+=-]{1,128}")
"""A client's own identifier; any other would let it write into the log, or fill it."""
_UNPRINTABLE = re.compile(r"[^\x21-\x7e]")
_LONGEST_PATH = 256
_FAILED = asgi.Refusal(
    status=500,
    message="the server failed; its log says why, by this answer's X-Request-Id",
    kind="server_error",
    code="internal_error",
    headers=(asgi.CLOSE,),
)


class AccessLog:
    """One line when an answer has ended, `X-Request-Id` in each answer: the client's own, or one made up.

    The outermost middleware, so that refusals are logged too. vLLM gets the identifier with the request and begins its
    own by it. The supervisor's requests are not logged.
    """

    def __init__(self, app: asgi.Application) -> None:
        self._app = app
        self._log = _logger()

    async def __call__(self, scope: asgi.Message, receive: asgi.Receive, send: asgi.Send) -> None:
        """One request."""
        if scope["type"] != "http" or guard.is_supervisor(scope):
            await self._app(scope, receive, send)
            return
        began = time.monotonic()
        request_id = _identifier(scope)
        status, whole = 0, False

        async def send_with_id(message: asgi.Message) -> None:
            nonlocal status, whole
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*_without_id(message), (_ID_HEADER, request_id)]}
            await send(message)
            whole = message["type"] == "http.response.body" and not message.get("more_body", False)

        headers = [*_without_id(scope), (_ID_HEADER, request_id)]
        try:
            await self._app({**scope, "headers": headers}, receive, send_with_id)
        except Exception:
            # The server's own answer is made outside of all middleware, and would name no request.
            if not status:
                await asgi.refuse(send_with_id, _FAILED)
            raise
        finally:
            took = time.monotonic() - began
            self._log.info("%s", line(scope, status, took, request_id.decode(), whole=whole))


def line(scope: asgi.Message, status: int, seconds: float, request_id: str, *, whole: bool) -> str:
    """What is logged; without a status where no answer was begun, and `aborted` where it did not come to its end."""
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    path = _UNPRINTABLE.sub("?", raw.decode("latin-1"))[:_LONGEST_PATH]
    end = "" if whole else " aborted"
    return f"{contract.COMMAND} access {scope['method']} {path} {status or '-'} {seconds:.3f}s id={request_id}{end}"


def _identifier(scope: asgi.Message) -> bytes:
    given = [value for name, value in scope.get("headers", ()) if name.lower() == _ID_HEADER]
    if len(given) == 1 and _USABLE_ID.fullmatch(given[0]):
        return bytes(given[0])
    return uuid.uuid4().hex.encode()


def _without_id(message: asgi.Message) -> list[asgi.Header]:
    return [header for header in message.get("headers", ()) if header[0].lower() != _ID_HEADER]


def _logger() -> logging.Logger:
    """To the container's log as it is, whatever the engine makes of logging."""
    logger = logging.getLogger(f"{__name__}.lines")
    if not logger.handlers:
        logger.addHandler(logging.StreamHandler(sys.stdout))
        logger.setLevel(logging.INFO)
        logger.propagate = False
    return logger
