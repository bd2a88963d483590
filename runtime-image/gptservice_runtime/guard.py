"""The ASGI middleware that says which routes of the engine there are for clients; any other is a 404.

Imports nothing but the standard library, so that it fits any version of the engine's libraries.
"""

import hmac
import os

from gptservice_runtime import asgi, engine

TOKEN_HEADER = "x-gptservice-metrics-token"  # noqa: S105 - the header's name
"""Carries what the supervisor made up for this one engine. In lower case, as in ASGI."""


SERVED = frozenset(
    {
        *("v1", "v2", "tokenize", "detokenize", "generative_scoring"),
        *("pooling", "classify", "score", "rerank", "invocations"),
        *("health", "ping", "version", "docs", "redoc", "openapi.json"),
    }
)
"""First parts of the paths that clients may ask for. What a later vLLM adds elsewhere stays shut until it is known."""


class RouteGuard:
    """Answers 404 to every path that is not served, unless the supervisor asks.

    vLLM has routes that are its operator's business: they abort other people's requests, change the number of engines,
    or tell of all requests, and it mounts its metrics under every path that begins so. A client's key is no key to
    those. Being loopback proves nothing: a port-forward and a sidecar come from there too.
    """

    def __init__(self, app: asgi.Application) -> None:
        self._app = app

    async def __call__(self, scope: asgi.Message, receive: asgi.Receive, send: asgi.Send) -> None:
        """One request."""
        if scope["type"] not in ("http", "websocket") or _is_served(scope) or is_supervisor(scope):
            await self._app(scope, receive, send)
        else:
            await asgi.refuse_any(scope, send, _NOT_HERE)


def is_supervisor(scope: asgi.Message) -> bool:
    """Whether a request shows the token that only the supervisor knows."""
    token = os.environ.get(engine.METRICS_TOKEN_ENV, "").encode()
    shown = [value for name, value in scope.get("headers", ()) if name.lower() == TOKEN_HEADER.encode()]
    # Without a token nobody is the supervisor.
    return bool(token) and len(shown) == 1 and hmac.compare_digest(shown[0], token)


def _is_served(scope: asgi.Message) -> bool:
    """Routes are looked up without the root path, unless it ends in the middle of a name: then with it."""
    path: str = scope["path"]
    ways = (path, path.removeprefix(scope.get("root_path", "")))
    return all(_is_below_served(way.split("/")) for way in ways)


def _is_below_served(parts: list[str]) -> bool:
    return parts[0] == "" and parts[1:2] != [] and parts[1] in SERVED and not {".", ".."} & set(parts)


_NOT_HERE = asgi.Refusal(
    status=404,
    message="There is no such route here.",
    kind="invalid_request_error",
    code="not_found",
    # The body, if there is one, has not been read, so that the connection cannot be used again.
    headers=(asgi.CLOSE,),
)
