"""Bounds what a connection may send before its request's head has ended: no middleware sees it before that.

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
    """Have connections closed that send more than `most` bytes, and one read of the socket more, of an unended head."""
    try:
        protocol: Any = getattr(importlib.import_module(_PARSER), _CLASS)
    except (ImportError, AttributeError):
        return
    if hasattr(protocol, "head_bytes"):
        return
    received, ended, complete = protocol.data_received, protocol.on_headers_complete, protocol.on_message_complete

    def data_received(self: Any, data: bytes) -> None:
        if self.head_bytes is not None:
            self.head_bytes += len(data)
        received(self, data)
        if self.head_bytes is not None and self.head_bytes > most and self.transport is not None:
            _log.warning("a connection was closed: its request's head is longer than %d bytes", most)
            self.transport.abort()

    def on_headers_complete(self: Any) -> None:
        self.head_bytes = None
        ended(self)

    def on_message_complete(self: Any) -> None:
        self.head_bytes = 0
        complete(self)

    protocol.head_bytes = 0
    protocol.data_received = data_received
    protocol.on_headers_complete = on_headers_complete
    protocol.on_message_complete = on_message_complete
