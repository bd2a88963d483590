"""Bounds how long a connection may wait with a request's head: until it has ended, nothing asks for a key.

uvicorn has a time for connections between two requests, and none for one that sends nothing at first, or a head that
does not end: anybody who reaches the port could keep as many as the pod may have open files.

Imports nothing but the standard library, so that it fits any version of the engine's libraries.
"""

import importlib
import logging
from typing import Any

_log = logging.getLogger(__name__)

_PROTOCOLS = (
    ("uvicorn.protocols.http.httptools_impl", "HttpToolsProtocol"),
    ("uvicorn.protocols.http.h11_impl", "H11Protocol"),
)


def install(idle_seconds: float, head_seconds: float) -> None:
    """Have connections closed that send nothing at first, or a head that does not end, for longer than that."""
    for module, name in _PROTOCOLS:
        try:
            protocol: Any = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError):
            continue
        if not hasattr(protocol, "head_timer"):
            _install(protocol, idle_seconds, head_seconds)


def _install(protocol: Any, idle_seconds: float, head_seconds: float) -> None:
    made, received, lost = protocol.connection_made, protocol.data_received, protocol.connection_lost
    upgrade = protocol.handle_websocket_upgrade

    def connection_made(self: Any, transport: Any) -> None:
        made(self, transport)
        _arm(self, idle_seconds)

    def data_received(self: Any, data: bytes) -> None:
        before = self.cycle
        # An answer may be given before the body has come, which is no head then.
        is_body = before is not None and before.more_body
        received(self, data)
        if self.cycle is not before:
            _disarm(self)
        elif not (is_body or self.head_has_begun) and (before is None or before.response_complete):
            _arm(self, head_seconds)
            self.head_has_begun = True

    def handle_websocket_upgrade(self: Any, *arguments: Any) -> None:
        upgrade(self, *arguments)
        # It hears no more of this connection, which is another protocol's.
        _disarm(self)
        self.head_has_begun = True

    def connection_lost(self: Any, error: Exception | None) -> None:
        _disarm(self)
        self.head_has_begun = True
        lost(self, error)

    protocol.head_timer, protocol.head_has_begun = None, False
    protocol.connection_made, protocol.data_received = connection_made, data_received
    protocol.connection_lost, protocol.handle_websocket_upgrade = connection_lost, handle_websocket_upgrade


def _arm(connection: Any, seconds: float) -> None:
    _disarm(connection)
    connection.head_timer = connection.loop.call_later(seconds, _close, connection, seconds)


def _disarm(connection: Any) -> None:
    """For the head that has ended; the next one has its own time."""
    if connection.head_timer is not None:
        connection.head_timer.cancel()
    connection.head_timer, connection.head_has_begun = None, False


def _close(connection: Any, seconds: float) -> None:
    _log.info("a connection was closed: no request's head has ended on it for %.0f s", seconds)
    connection.transport.abort()
