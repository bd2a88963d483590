"""The ASGI middleware that keeps vLLM's own metrics to the supervisor: clients of the serving port get a 404.

Imports nothing but the standard library, so that it fits any version of the engine's libraries.
"""

import hmac
import os

from gptservice_runtime import asgi, contract, engine

TOKEN_HEADER = "x-gptservice-metrics-token"  # noqa: S105 - the header's name
"""Carries what the supervisor made up for this one engine. In lower case, as in ASGI."""


class MetricsGuard:
    """Answers 404 to `/metrics`, and to whatever begins so, unless the supervisor asks.

    vLLM mounts its metrics under every path that begins so, for every method. Being loopback proves nothing: a
    port-forward and a sidecar come from there too.
    """

    def __init__(self, app: asgi.Application) -> None:
        self._app = app

    async def __call__(self, scope: asgi.Message, receive: asgi.Receive, send: asgi.Send) -> None:
        """One request."""
        if scope["type"] == "http" and _is_metrics(scope) and not is_supervisor(scope):
            await asgi.refuse(send, _NOT_HERE)
        else:
            await self._app(scope, receive, send)


def is_supervisor(scope: asgi.Message) -> bool:
    """Whether a request shows the token that only the supervisor knows."""
    token = os.environ.get(engine.METRICS_TOKEN_ENV, "").encode()
    shown = [value for name, value in scope.get("headers", ()) if name.lower() == TOKEN_HEADER.encode()]
    # Without a token nobody is the supervisor.
    return bool(token) and len(shown) == 1 and hmac.compare_digest(shown[0], token)


def _is_metrics(scope: asgi.Message) -> bool:
    """Routes are looked up without the root path, unless it ends in the middle of a name: then with it."""
    path: str = scope["path"]
    below = path.removeprefix(scope.get("root_path", ""))
    return path.startswith(contract.METRICS_PATH) or below.startswith(contract.METRICS_PATH)


_NOT_HERE = asgi.Refusal(
    status=404,
    message="There are no metrics here.",
    kind="invalid_request_error",
    code="not_found",
    # The body, if there is one, has not been read, so that the connection cannot be used again.
    headers=(asgi.CLOSE,),
)
