"""The hub in a thread of its own, for tests that are not asynchronous."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from e2e.hub.server import Hub


@contextmanager
def in_thread(hub: Hub) -> Iterator[Hub]:
    """Serve while the context is open; what could not listen raises here."""
    loop, stop, up = asyncio.new_event_loop(), asyncio.Event(), threading.Event()
    failures: list[OSError] = []

    async def serve() -> None:
        try:
            async with hub.serving():
                up.set()
                await stop.wait()
        except OSError as error:
            failures.append(error)
            up.set()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), name="hub")
    thread.start()
    up.wait()
    try:
        if failures:
            raise failures[0]
        yield hub
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()
