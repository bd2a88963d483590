"""What a drain waits for, with an engine that ends when it is asked to."""

import asyncio
from typing import Any

import pytest

from gptservice_runtime import control, draining

TIMES = draining.Times(gap=0, timeout=5)


class Engine:
    """As much of a child as a drain needs."""

    def __init__(self) -> None:
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def terminate(self) -> None:
        self.ended.set_result("exit code 0")


@pytest.mark.parametrize("what", ["in_flight", "sessions"])
async def test_it_waits_for_what_runs(what: str) -> None:
    engine: Any = Engine()
    block = control.ControlBlock.private()
    setattr(block, what, 1)
    drained = asyncio.create_task(draining.drain(engine, block, TIMES))
    await asyncio.sleep(0.5)
    assert block.draining
    assert not engine.ended.done()
    setattr(block, what, 0)
    await drained
    assert engine.ended.done()


@pytest.mark.parametrize("what", ["in_flight", "sessions"])
async def test_but_not_for_ever(what: str) -> None:
    engine: Any = Engine()
    block = control.ControlBlock.private()
    setattr(block, what, 2)
    with pytest.raises(draining.DrainTimeoutError, match="2 request"):
        await draining.drain(engine, block, draining.Times(gap=0, timeout=0))
