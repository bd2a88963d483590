"""Moments that are left to chance and can be had again: whoever uses one prints the seed, and E2E_SEED sets it."""

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SEED_VARIABLE = "E2E_SEED"
SEED = int(os.environ.get(SEED_VARIABLE) or random.SystemRandom().randrange(1 << 32))


def moment(of: str, *, within: float) -> float:
    """A time in seconds, at most `within`; the same for the same seed and the same `of`, whatever else was asked."""
    return random.Random(f"{SEED}/{of}").uniform(0, within)  # noqa: S311 - nothing is kept secret by it


@contextmanager
def meanwhile(act: Callable[[], object], *, after: float) -> Iterator[None]:
    """Does something in a thread, `after` seconds from the block's beginning.

    It has been done when the block is left, however short that was; what it raised is raised there.
    """
    failed: list[BaseException] = []

    def run() -> None:
        time.sleep(after)
        try:
            act()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, name="meanwhile")
    thread.start()
    try:
        yield
    finally:
        thread.join()
    if failed:
        raise failed[0]
