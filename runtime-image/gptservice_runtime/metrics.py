"""What `/metrics` says: the engine's own metrics as they are, then the runtime's, in Prometheus' text format."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import aiohttp

from gptservice_runtime import contract, keys
from gptservice_runtime.control import REFUSED, ControlBlock
from gptservice_runtime.reach import Reach
from gptservice_runtime.readiness import Readiness

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class EngineMetrics:
    """Asks the engine for its metrics: one request at a time, however many scrape."""

    def __init__(self, reach: Reach, keys_directory: Path | None) -> None:
        """`keys_directory` is None where no API key is demanded."""
        self._reach = reach
        self._keys_directory = keys_directory
        self._asking: asyncio.Task[bytes | None] | None = None

    async def fetch(self) -> bytes | None:
        """The engine's text; None when it gives none within METRICS_TIMEOUT_SECONDS. Never raises."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask())
        # Shielded: a scraper that goes away takes nothing from the others.
        return await asyncio.shield(self._asking)

    async def _ask(self) -> bytes | None:
        try:
            headers = self._headers()
            async with (
                self._reach.session(contract.METRICS_TIMEOUT_SECONDS) as session,
                session.get(contract.METRICS_PATH, headers=headers, allow_redirects=False) as response,
            ):
                # Another format could not be followed by ours.
                if response.status != 200 or response.content_type != "text/plain":
                    return None
                return await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError, keys.UnusableKeysError):
            return None

    def _headers(self) -> dict[str, str]:
        ours = {"Accept": "text/plain", "Accept-Encoding": "identity"}
        if self._keys_directory is None:
            return ours
        return {**ours, "Authorization": f"Bearer {keys.first_key(self._keys_directory)}"}


def page(engine: bytes | None, state: Readiness, block: ControlBlock, start_seconds: float | None) -> bytes:
    """The whole answer.

    Args:
        engine: the engine's own metrics; None when it gave none.
        state: whether the pod may take traffic.
        block: what the middleware has counted.
        start_seconds: how long it took until the pod was ready; None before that.
    """
    theirs = b"" if engine is None else engine.rstrip(b"\n") + b"\n"
    refused: Mapping[str, int] = {f'{{reason="{why}"}}': block.refused(why) for why in REFUSED}
    families = [
        family("ready", "gauge", "1 while the pod may take traffic.", {"": int(state.ready)}),
        family("engine_up", "gauge", "1 if the engine gave its own metrics.", {"": int(engine is not None)}),
        family("requests_in_flight", "gauge", "Requests being answered.", {"": block.in_flight}),
        family("requests_refused_total", "counter", "Requests refused before they reached the engine.", refused),
    ]
    if start_seconds is not None:
        took = {"": round(start_seconds, 3)}
        families.append(family("start_seconds", "gauge", "From the start of the container to ready.", took))
    return theirs + "".join(families).encode()


def family(name: str, kind: str, meaning: str, samples: Mapping[str, float]) -> str:
    """One of the runtime's metrics in Prometheus' text format; `samples` by their labels in braces."""
    full = f"{contract.METRICS_PREFIX}{name}"
    lines = [f"# HELP {full} {meaning}", f"# TYPE {full} {kind}"]
    lines += [f"{full}{labels} {value}" for labels, value in samples.items()]
    return "".join(f"{line}\n" for line in lines)
