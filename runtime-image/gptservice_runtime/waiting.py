"""Waiting for one of several things."""

import asyncio
from collections.abc import Awaitable
from typing import Any


async def first(*awaitables: Awaitable[Any], within: float | None = None) -> None:
    """Wait for whichever comes first, or for `within` seconds. Futures that were given stay untouched."""
    given = {item for item in awaitables if isinstance(item, asyncio.Future)}
    made = {asyncio.ensure_future(item) for item in awaitables if not isinstance(item, asyncio.Future)}
    try:
        await asyncio.wait(given | made, timeout=within, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in made:
            task.cancel()
