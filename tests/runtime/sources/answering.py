"""Servers that answer as no real one can be made to, and fetches from them within the test's own process."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

from gptservice_runtime.transfer import download, retrying
from gptservice_runtime.transfer.source import Source
from tests.runtime.harness import free_ports

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
FILES = {"config.json": b"{}", "model.safetensors": bytes(range(256)) * 4000}
STALL = 0.5


@asynccontextmanager
async def answering(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """The address of a server that answers everything by a function, while the context is open."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)
    await runner.setup()
    (port,) = free_ports(1)
    try:
        await web.TCPSite(runner, "127.0.0.1", port, ssl_context=tls).start()
        yield f"http{'' if tls is None else 's'}://127.0.0.1:{port}"
    finally:
        await runner.cleanup()


def secret(folder: Path, **values: str) -> Path:
    """A mounted Secret; ``__`` stands for a dot."""
    folder = folder / "credentials"
    folder.mkdir()
    for key, value in values.items():
        (folder / key.replace("__", ".")).write_text(value)
    return folder


async def fetched(source: Source, cache: Path, *, tries: int = 6, stall: float = STALL) -> download.Downloaded:
    """Have the model in the cache; models.ModelError."""
    await asyncio.to_thread(cache.mkdir, exist_ok=True)
    downloader = download.Downloader(
        source,
        download.Place(cache_root=cache, limit=None),
        retrying.Patience(tries=tries, pause=0.01, stall=stall),
        admit=lambda _files: None,
    )
    return await downloader.run()
