"""A small model to serve from the stand-in hub."""

from __future__ import annotations

import json
import random
from pathlib import Path

from e2e.hub.repository import Repository

SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
_NOT_NEEDED = ("pytorch_model.bin", "original/consolidated.00.pth", "onnx/model.onnx")


def make_repository(folder: Path, weights: int) -> Repository:
    """A model of so many bytes in two shards, beside things that serving does not need."""
    folder.mkdir(parents=True)
    source = random.Random(folder.name)  # noqa: S311 - the same bytes each time
    for name in (*SHARDS, *_NOT_NEEDED):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(source.randbytes(weights // 2))
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": SHARDS[0], "b": SHARDS[1]}}))
    for name in ("config.json", "tokenizer.json", "README.md", ".gitattributes"):
        (folder / name).write_text(f"{{}}{' ' * 1000}")
    return Repository(folder)


def needed(repository: Repository) -> int:
    """Bytes of what serving needs of it."""
    files = repository.files.values()
    return sum(file.size for file in files if "/" not in file.name and file.path.suffix in {".json", ".safetensors"})
