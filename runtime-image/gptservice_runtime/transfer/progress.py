"""How far a download is: for the log, for `/metrics`, and for pods that wait."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from aiohttp import web

from gptservice_runtime import contract, metrics, probes, units

_log = logging.getLogger(__name__)
_LOG_SECONDS = 10.0
_WINDOW_SECONDS = 30.0
"""The rate is that of the last half minute: what it was an hour ago says nothing of what is left."""


class Progress:
    """Counters of one fetch; bytes."""

    def __init__(self, what: str) -> None:
        """`what` is being fetched."""
        self.what = what
        self.total = 0
        """Of the whole model; 0 until it is known."""
        self.present = 0
        """Of the model, in the cache and good."""
        self.received = 0
        """Over the network, thrown away ones too."""
        self.retries = 0
        self._samples: deque[tuple[float, int]] = deque([(time.monotonic(), 0)])

    def arrived(self, count: int) -> None:
        """Count bytes that have just come over the network."""
        self.received += count
        self.present += count

    def retried(self) -> None:
        """Count one more try."""
        self.retries += 1

    @property
    def rate(self) -> float:
        """Bytes per second."""
        now = time.monotonic()
        while len(self._samples) > 1 and now - self._samples[0][0] > _WINDOW_SECONDS:
            self._samples.popleft()
        then, received = self._samples[0]
        return (self.received - received) / max(now - then, 1e-3)

    def __str__(self) -> str:
        if not self.total:
            return f"{self.what}: asking what there is"
        text = f"{self.what}: {units.size(self.present)} of {units.size(self.total)}"
        if (rate := self.rate) < 1:
            return text
        left = max(self.total - self.present, 0) / rate
        return f"{text}, {units.size(rate)}/s, {left:.0f} s left"

    def page(self) -> bytes:
        """The metrics, in Prometheus' text format."""
        return "".join(
            [
                metrics.family("fetch_size_bytes", "gauge", "Size of the model; 0 until known.", {"": self.total}),
                metrics.family("fetch_present_bytes", "gauge", "Of those, in the cache.", {"": self.present}),
                metrics.family("fetch_received_bytes_total", "counter", "From the network.", {"": self.received}),
                metrics.family("fetch_retries_total", "counter", "Requests made again.", {"": self.retries}),
            ]
        ).encode()

    async def report(self) -> None:
        """Say so in the log, until cancelled."""
        while True:
            await asyncio.sleep(_LOG_SECONDS)
            _log.info("%s", self)
            self._samples.append((time.monotonic(), self.received))


@asynccontextmanager
async def told(progress: Progress, port: int) -> AsyncIterator[None]:
    """Tell of the progress in the log and on `/metrics` while the context is open."""

    async def scrape(_request: web.Request) -> web.Response:
        return web.Response(body=progress.page(), headers={"Content-Type": metrics.CONTENT_TYPE})

    app = web.Application()
    app.add_routes([web.get(contract.METRICS_PATH, scrape)])
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(probes.serving(app, port))
        except OSError as error:
            _log.warning("no metrics of this download: port %d: %s", port, error.strerror)
        reporting = asyncio.create_task(progress.report())
        stack.callback(reporting.cancel)
        yield
