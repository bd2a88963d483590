"""The runtime with real vLLM and a model that generates no text: ready once it has answered what it can."""

from pathlib import Path

import aiohttp
import pytest

from e2e.cluster.images import model
from e2e.vllm import environment
from tests.runtime.harness import Runtime

pytestmark = [pytest.mark.node, pytest.mark.vllm, pytest.mark.long]

START_SECONDS = 600
ARGUMENTS = (
    *("--dtype=float32", "--enforce-eager", "--max-model-len=512", "--kv-cache-memory-bytes=1G"),
    *("--runner=pooling", "--convert=embed"),
)


async def test_a_model_that_embeds_becomes_ready(tmp_path: Path) -> None:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=START_SECONDS)) as session:
        running = Runtime(tmp_path, session)
        running.model = model.prepared()
        path = f"{environment.executable(tmp_path / 'bin')}:/usr/local/bin:/usr/bin:/bin"
        given = {**environment.variables(), "PATH": path, "NVIDIA_VISIBLE_DEVICES": "void"}
        running.start(*ARGUMENTS, environment=given, startup_timeout=START_SECONDS)
        try:
            await running.ready(START_SECONDS)
            asked = {"model": "main-name", "input": ["Paris", "a river"]}
            async with session.post(running.url("/v1/embeddings"), json=asked) as response:
                assert response.status == 200
                found = [one["embedding"] for one in (await response.json())["data"]]
            async with session.post(running.url("/v1/completions"), json={"model": "main-name"}) as response:
                assert response.status == 404, "the other question would have done"
        finally:
            running.kill()
    assert len(found) == 2
    assert found[0] != found[1]
