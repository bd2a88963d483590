"""Looks at an engine that serves, once a second, for as long as it is healthy enough to be kept."""

import asyncio
import logging
from collections.abc import Callable

from gptservice_runtime import processes
from gptservice_runtime.child import Child
from gptservice_runtime.control import ControlBlock
from gptservice_runtime.health import Health, Look

_log = logging.getLogger(__name__)

_PERIOD_SECONDS = 1.0
_DEAD_SECONDS = 10
"""What vLLM's API server gets to end by itself when its core has died: it looks every 5 s."""


async def watch(process: Child, block: ControlBlock, tell: Callable[[str], None], *, on_cpu: bool) -> None:
    """Call `tell` with what is wrong with the engine, and with "" when it is well again; kill one that is dead.

    Returns when the engine has been killed so.
    """
    health = Health.at(_look(process, block), on_cpu=on_cpu)
    while health.dead_since is None or health.last.now - health.dead_since < _DEAD_SECONDS:
        await asyncio.sleep(_PERIOD_SECONDS)
        before, health = health, health.after(_look(process, block))
        if health.problem and not before.problem:
            _log.warning("not ready: %s", health.problem)
        elif before.problem and not health.problem:
            _log.info("ready again: the engine answers")
        tell(health.problem)
    _log.error("%s, but the rest has not ended within %d s: it is killed", health.problem, _DEAD_SECONDS)
    process.kill_group()
    await process.ended


def _look(process: Child, block: ControlBlock) -> Look:
    return Look(
        now=asyncio.get_running_loop().time(),
        answered=block.probes_answered,
        failed=block.probes_failed,
        movements=block.movements,
        in_flight=block.in_flight,
        processes=processes.of_group(process.pid),
    )
