"""The end of an engine that serves: a gap, refusals, running requests to their end, then the engine itself."""

import asyncio
import logging
from dataclasses import dataclass

from gptservice_runtime.child import Child
from gptservice_runtime.control import ControlBlock
from gptservice_runtime.waiting import first

_log = logging.getLogger(__name__)

_POLL_SECONDS = 0.1
KILL_MARGIN_SECONDS = 5.0
"""Beyond the drain time-out, before the engine is killed; after GRACE_MARGIN_SECONDS the kubelet kills us."""


class EngineEndedError(Exception):
    """The engine ended before it was asked to."""


class DrainTimeoutError(Exception):
    """Something was still running when its time was over; the text says what, and what to do."""


@dataclass(frozen=True, kw_only=True)
class Times:
    """In seconds."""

    gap: float
    """In which requests are still served, since endpoints are being removed."""
    timeout: int
    """What running requests get after that."""


async def drain(process: Child, block: ControlBlock, times: Times) -> None:
    """Return once every request and then the engine has ended; EngineEndedError, DrainTimeoutError."""
    await first(process.ended, within=times.gap)
    if process.ended.done():
        raise EngineEndedError
    loop = asyncio.get_running_loop()
    deadline = loop.time() + times.timeout
    _log.info("draining: up to %d s for running requests", times.timeout)
    block.drain()
    await _finish_requests(process, block, times, deadline)
    process.terminate()
    await first(process.ended, within=deadline - loop.time() + KILL_MARGIN_SECONDS)
    if not process.ended.done():
        raise _too_late(f"the engine did not end within {KILL_MARGIN_SECONDS:.0f} s more", times)
    _log.info("drained: the engine ended with %s", process.ended.result())


async def _finish_requests(process: Child, block: ControlBlock, times: Times, deadline: float) -> None:
    """Return once nothing is in flight. The engine gets no signal before: it would drop what waits to begin."""
    loop = asyncio.get_running_loop()
    while True:
        # Sleep first: a request that came just before the refusals must have been counted.
        await first(process.ended, within=_POLL_SECONDS)
        if process.ended.done():
            raise EngineEndedError
        running = block.in_flight + block.sessions
        if running == 0:
            return
        if loop.time() >= deadline:
            raise _too_late(f"{running} request(s) were still running and are cut", times)


def _too_late(what: str, times: Times) -> DrainTimeoutError:
    return DrainTimeoutError(
        f"{what} after the drain time-out of {times.timeout} s: raise drainTimeoutSeconds if requests take longer"
    )
