"""What our middleware inside the engine's API server is written against, and how it refuses: OpenAI's form of an error.

Imports nothing but the standard library, so that it fits any version of the engine's libraries.
"""

import json
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]
Header = tuple[bytes, bytes]

CLOSE: Header = (b"connection", b"close")
_POLICY_VIOLATION = 1008
"""A WebSocket's code."""


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """An answer in the form of OpenAI's API errors."""

    status: int
    message: str
    kind: str
    code: str
    headers: tuple[Header, ...]


async def refuse(send: Send, refusal: Refusal, *, events: str = "http.response") -> None:
    """Answer without the application; ``events`` is the prefix of ASGI's messages for it."""
    error = {"message": refusal.message, "type": refusal.kind, "param": None, "code": refusal.code}
    body = json.dumps({"error": error}).encode()
    content = ((b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()))
    await send({"type": f"{events}.start", "status": refusal.status, "headers": [*content, *refusal.headers]})
    await send({"type": f"{events}.body", "body": body})


async def refuse_any(scope: Message, send: Send, refusal: Refusal) -> None:
    """Answer a request, or a WebSocket's handshake: alike where the server can, else by the 403 it makes of this."""
    if scope["type"] == "http":
        await refuse(send, refusal)
    elif scope["type"] == "websocket" and "websocket.http.response" in (scope.get("extensions") or {}):
        await refuse(send, refusal, events="websocket.http.response")
    elif scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
