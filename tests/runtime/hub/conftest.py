"""A hub with one small model, and pods that fetch it."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from e2e.hub.repository import Repository
from e2e.hub.sample import make_repository
from e2e.hub.server import Hub
from tests.runtime.hub.fetching import Pod

WEIGHTS = 3_000_000
MakePod = Callable[..., Pod]


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    async with Hub({"org/name": make_repository(tmp_path / "hub" / "name", WEIGHTS)}).serving() as serving:
        yield serving


@pytest.fixture
def repository(hub: Hub) -> Repository:
    return hub.repositories["org/name"]


@pytest.fixture
async def pod(tmp_path: Path, hub: Hub) -> AsyncIterator[MakePod]:
    made: list[Pod] = []

    def make(name: str = "pod", **options: Any) -> Pod:
        cache = options.pop("cache", tmp_path / "cache")
        made.append(Pod(tmp_path, hub, cache, name, **options))
        return made[-1]

    yield make
    for one in made:
        if one.process is not None and one.process.returncode is None:
            one.process.kill()
            await one.process.wait()
