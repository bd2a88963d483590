"""A proxy with its control port, in the event loop of the caller or in a thread of its own."""

from __future__ import annotations

import asyncio
import ssl
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from yarl import URL

from e2e.proxy.control import ControlServer
from e2e.proxy.log import RequestLog
from e2e.proxy.server import ProxyServer
from e2e.proxy.switchboard import Switchboard
from e2e.proxy.tls import loopback_tls

_START_SECONDS = 10.0


@dataclass(frozen=True, kw_only=True)
class ProxyOptions:
    """How to run a proxy; port 0 takes a free one."""

    upstream: str
    ca_file: Path | None = None
    """The authority of the API server's certificate; None trusts the system's."""
    port: int = 0
    control_port: int | None = None
    """None runs without a control port."""
    tls: bool = False
    log_file: Path | None = None


@dataclass(eq=False)
class Proxy:
    """A running proxy: `async with`, or start() and stop()."""

    options: ProxyOptions
    switchboard: Switchboard = field(init=False)
    url: str = field(default="", init=False)
    ca_pem: str | None = field(default=None, init=False)
    """What a client must trust, when the proxy serves HTTPS."""
    control_url: str | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.switchboard = Switchboard(log=RequestLog(file=self.options.log_file))
        upstream = URL(self.options.upstream)
        secure = upstream.scheme == "https"
        verify = ssl.create_default_context(cafile=self.options.ca_file) if secure else None
        self._server = ProxyServer(upstream, verify, self.switchboard)
        self._control = ControlServer(self.switchboard)

    async def start(self) -> None:
        """Listen; raises OSError when a port is taken."""
        try:
            await self._listen()
        except BaseException:
            await self.stop()
            raise

    async def _listen(self) -> None:
        context = None
        if self.options.tls:
            context, self.ca_pem = loopback_tls()
        port = await self._server.start(port=self.options.port, tls=context)
        self.url = f"{'https' if context else 'http'}://127.0.0.1:{port}"
        if self.options.control_port is not None:
            control = await self._control.start(port=self.options.control_port)
            self.control_url = f"http://127.0.0.1:{control}"

    async def stop(self) -> None:
        await self._control.stop()
        await self._server.stop()

    async def __aenter__(self) -> Proxy:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()


@dataclass(eq=False)
class ProxyThread:
    """A Proxy in a thread with its own event loop, for tests without asyncio."""

    proxy: Proxy
    _thread: threading.Thread | None = field(default=None, init=False)
    _started: threading.Event = field(default_factory=threading.Event, init=False)
    _stop: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _failure: BaseException | None = field(default=None, init=False)

    @property
    def switchboard(self) -> Switchboard:
        return self.proxy.switchboard

    def start(self) -> None:
        """Start and wait until it listens; raises what its start raised."""
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)
        self._thread.start()
        if not self._started.wait(_START_SECONDS):
            raise TimeoutError(f"the proxy did not listen within {_START_SECONDS:.0f} s")
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        loop = self.switchboard.loop
        if self._thread is None or loop is None:
            return
        with suppress(RuntimeError):  # the loop is closed when the proxy failed by itself
            loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(_START_SECONDS)

    def __enter__(self) -> ProxyThread:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except BaseException as error:
            self._failure = error
        finally:
            self._started.set()

    async def _main(self) -> None:
        async with self.proxy:
            self._started.set()
            await self._stop.wait()
