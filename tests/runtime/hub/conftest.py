"""A hub with one small model, and pods that fetch it."""

import json
import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from e2e.hub.repository import Repository
from e2e.hub.server import Hub
from tests.runtime.hub.fetching import Pod

WEIGHTS = 3_000_000
MakePod = Callable[..., Pod]


def make_repository(folder: Path, weights: int = WEIGHTS) -> Repository:
    """A model in two shards, with things that serving does not need."""
    folder.mkdir(parents=True)
    random_bytes = random.Random(folder.name)
    names = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
    for name in (*names, "pytorch_model.bin", "original/consolidated.00.pth", "onnx/model.onnx"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(random_bytes.randbytes(weights // 2))
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": names[0], "b": names[1]}}))
    for name in ("config.json", "tokenizer.json", "README.md", ".gitattributes"):
        (folder / name).write_text(f"{{}}{' ' * 1000}")
    return Repository(folder)


def needed(repository: Repository) -> int:
    """Bytes of what serving needs."""
    files = repository.files.values()
    return sum(file.size for file in files if "/" not in file.name and file.path.suffix in {".json", ".safetensors"})


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    async with Hub({"org/name": make_repository(tmp_path / "hub" / "name")}).serving() as serving:
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
