"""Fixtures of the runtime's process tests."""

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from tests.runtime.harness import Runtime


@pytest.fixture
async def runtime(tmp_path: Path) -> AsyncIterator[Runtime]:
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=40)
    ) as session:
        running = Runtime(tmp_path, session)
        try:
            yield running
        finally:
            running.kill()
