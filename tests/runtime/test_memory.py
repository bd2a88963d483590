"""Weights against the memory that an engine without a GPU may hold."""

import pytest

from gptservice_runtime import memory, models

FILES = [("config.json", 900), ("model-1.safetensors", 500), ("model-2.safetensors", 500), ("tokenizer.json", 900)]


@pytest.mark.parametrize("limit", [None, 1000, 5000])
def test_what_fits_and_what_goes_elsewhere_passes(limit: int | None) -> None:
    memory.demand("s3://b/m", FILES, limit)


@pytest.mark.parametrize("files", [FILES, [("a.gguf", 1000)], [("pytorch_model.bin", 1000)]])
def test_weights_alone_are_counted_and_refused_with_both_sizes(files: list[tuple[str, int]]) -> None:
    with pytest.raises(models.ModelError) as refused:
        memory.demand("s3://b/m", files, 999)
    assert refused.value.reason == "OutOfMemory"
    assert "s3://b/m" in str(refused.value)
    assert "spec.resources.limits.memory" in str(refused.value)


def test_the_message_has_sizes_of_people() -> None:
    with pytest.raises(models.ModelError, match=r"14\.00 GiB and the container may hold 8\.00 GiB"):
        memory.demand("s3://b/m", [("model.safetensors", 14 << 30)], 8 << 30)
