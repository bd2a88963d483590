"""A forward proxy as companies have it at their border: it alone knows where a host is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

HOST = "source.invalid"
"""A name that no resolver knows: what reaches it went through the proxy."""


@dataclass
class ForwardProxy:
    """Takes every host for the loopback."""

    refuses: bool = False
    """Whether it lets nothing through."""
    asked: list[str] = field(default_factory=list[str])
    """Host and port of each connection."""
    port: int = 0

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[ForwardProxy]:
        """Listen while the context is open."""
        server = await asyncio.start_server(self._answer, "127.0.0.1", self.port)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            method, target, version = head.split(b"\r\n", 1)[0].decode().split()
            parts = urlsplit(target if "://" in target else f"//{target}")
            self.asked.append(parts.netloc)
            if self.refuses:
                writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                await writer.drain()
            else:
                upstream = await asyncio.open_connection("127.0.0.1", parts.port or 80)
                if method == "CONNECT":
                    writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                else:
                    path = parts._replace(scheme="", netloc="").geturl() or "/"
                    rest = head.split(b"\r\n", 1)[1]
                    # One request for each connection, so that none needs to be told from the next.
                    upstream[1].write(f"{method} {path} {version}\r\nConnection: close\r\n".encode() + rest)
                await asyncio.gather(_pass_on(reader, upstream[1]), _pass_on(upstream[0], writer))
        writer.close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()
