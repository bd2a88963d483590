"""Bounds what a connection may send that is no body: heads, which no middleware sees before they end, and trailers.

uvicorn has two parsers. h11 has a bound of its own; httptools, which is taken where it is installed, has none, so that
anybody who reaches the port could fill the pod's memory without a key.
"""

import importlib
import logging
from typing import Any

_log = logging.getLogger(__name__)

_PARSER = "uvicorn.protocols.http.httptools_impl"
_CLASS = "HttpToolsProtocol"


def install(most: int) -> None:
    """Have connections closed that send more than `most` bytes, and one read of the socket more, without a body's."""
    try:
        protocol: Any = getattr(importlib.import_module(_PARSER), _CLASS)
    except (ImportError, AttributeError):
        return
    if hasattr(protocol, "loose_bytes"):
        return
    received = protocol.data_received

    def data_received(self: Any, data: bytes) -> None:
        self.loose_bytes += len(data)
        received(self, data)
        if self.loose_bytes > most and self.transport is not None:
            _log.warning("a connection was closed: its request's head or trailers are longer than %d bytes", most)
            self.transport.abort()

    protocol.loose_bytes = 0
    protocol.data_received = data_received
    for name in ("on_headers_complete", "on_body", "on_message_complete"):
        setattr(protocol, name, _counting_anew(getattr(protocol, name)))


def _counting_anew(callback: Any) -> Any:
    def wrapped(self: Any, *arguments: Any) -> None:
        self.loose_bytes = 0
        callback(self, *arguments)

    return wrapped
