"""An event loop whose clock jumps to the next timer, so that hours of waiting take no time."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_TICK = 1e-9
"""What the clock moves by when nothing is waited for: like a real clock, it never stands still."""


class _Selector(selectors.SelectSelector):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise RuntimeError("every task waits for another one: nothing would ever happen again")
            self.now += max(timeout, _TICK)
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """A loop whose time starts at 0 seconds."""

    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in virtual time."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)


def now() -> float:
    """Return the virtual time in seconds."""
    return asyncio.get_running_loop().time()
