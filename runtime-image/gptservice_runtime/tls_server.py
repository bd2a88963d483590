"""Inside vLLM's API server: new certificates count without a restart, and the supervisor gets in without one.

Imports nothing but the standard library, so that it fits any version of the engine's libraries.
"""

import asyncio
import logging
import os
import ssl
from pathlib import Path
from typing import Any

from gptservice_runtime import asgi, contract, engine, guard, tls

_log = logging.getLogger(__name__)


class LiveCertificates:
    """Gives each new connection the certificate and the client CA that are mounted at that moment.

    vLLM makes one context at its start and keeps it for its listening socket. A server name callback may give a
    connection another one, and is called whether or not the client names a server. Connections that are open go on.

    Where clients must show a certificate the supervisor has none: it comes by a socket of its own, which lies in a
    folder that only its own user may enter, and shows its token there.
    """

    def __init__(self, app: asgi.Application) -> None:
        self._app = app
        client_ca = os.environ.get(engine.CLIENT_CA_DIRECTORY_ENV, "")
        self._directories = tls.Directories(
            certificate=Path(os.environ.get(engine.TLS_DIRECTORY_ENV) or contract.TLS_DIRECTORY),
            client_ca=Path(client_ca) if client_ca else None,
        )
        self._own_socket = os.environ.get(engine.OWN_SOCKET_ENV, "")

    async def __call__(self, scope: asgi.Message, receive: asgi.Receive, send: asgi.Send) -> None:
        """One request; or the server's whole life."""
        if scope["type"] == "lifespan":
            await self._live(scope, receive, send)
        elif self._own_socket and scope.get("client") is None and not guard.is_supervisor(scope):
            if scope["type"] == "http":
                await asgi.refuse(send, _NOT_FOR_YOU)
        else:
            await self._app(scope, receive, send)

    async def _live(self, scope: asgi.Message, receive: asgi.Receive, send: asgi.Send) -> None:
        listener: asyncio.Server | None = None
        try:
            server = scope["app"].state.server
            _keep_current(server.config.ssl, tls.Certificates(self._directories))
            if self._own_socket:
                listener = await _listen(server, self._own_socket)
        except (AttributeError, OSError, tls.UnusableCertificateError) as error:
            # Rather not serve than serve what cannot be renewed.
            await receive()
            await send({"type": "lifespan.startup.failed", "message": f"TLS cannot be set up: {error}"})
            return
        try:
            await self._app(scope, receive, send)
        finally:
            if listener is not None:
                listener.close()


def _keep_current(listening: ssl.SSLContext, certificates: tls.Certificates) -> None:
    """Before the first connection: what is decided before the callback is called comes from this context."""
    listening.minimum_version = tls.LEAST_VERSION
    tls.forbid_tickets(listening)

    def switch(connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> int | None:
        connection.context = certificates.current()
        # TLS 1.2 resumes sessions by their identifiers too; then the client's certificate is not looked at again.
        old = connection.session if connection.session_reused else None
        if old is not None and old.time <= certificates.changed_at:
            return ssl.ALERT_DESCRIPTION_HANDSHAKE_FAILURE
        return None

    listening.sni_callback = switch


async def _listen(server: Any, path: str) -> asyncio.Server:
    """Serve the same application at a Unix socket, in the way the server makes its own connections."""

    def protocol() -> asyncio.Protocol:
        config, state = server.config, server.lifespan.state
        made: asyncio.Protocol = config.http_protocol_class(
            config=config, server_state=server.server_state, app_state=state
        )
        return made

    listener = await asyncio.get_running_loop().create_unix_server(protocol, path)
    os.chmod(path, 0o600)
    return listener


_NOT_FOR_YOU = asgi.Refusal(
    status=403,
    message="This way in is the supervisor's own.",
    kind="invalid_request_error",
    code="forbidden",
    headers=(asgi.CLOSE,),
)
