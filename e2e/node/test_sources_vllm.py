"""A model of a hub, on real vLLM: downloaded by the init container, served without the hub."""

from __future__ import annotations

import pytest

from e2e.api.state import Observer
from e2e.cluster import network, paths
from e2e.cluster.handle import Cluster
from e2e.cluster.images import model
from e2e.hub.repository import Repository
from e2e.hub.running import in_thread
from e2e.hub.server import Hub
from e2e.kube import Kube, Object
from e2e.node.conftest import Talk
from e2e.node.release import VLLM, Release

pytestmark = [pytest.mark.vllm, pytest.mark.long]

NAME = "from-hub"
START_SECONDS = 600
SPEC: Object = {
    "model": "HuggingFaceTB/SmolLM2-135M-Instruct",
    "contextLength": 2048,
    "gpu": {"count": 0},
    "engine": {"args": ["--dtype=float32", "--enforce-eager", "--kv-cache-memory-bytes=1G"]},
}


def has_fetched(gpt: Object | None) -> bool:
    return "revision" in (gpt or {}).get("status", {}).get("effective", {})


async def test_it_answers_while_the_hub_is_gone(
    cluster: Cluster, release: Release, kube: Kube, namespace: str, observer: Observer, talk: Talk
) -> None:
    hub = Hub({SPEC["model"]: Repository(paths.models() / model.NAME)}, host=network.outer(cluster.record.number))
    service: Object = {"apiVersion": "ai.example.com/v1", "kind": "GPTService", "metadata": {"name": NAME}}
    with in_thread(hub):
        release.use({**VLLM, "hubEndpoint": hub.endpoint})
        kube.apply({**service, "spec": SPEC}, namespace)
        observer.wait(has_fetched, "to have fetched", NAME, timeout=START_SECONDS)
    observer.wait_ready(NAME, timeout=START_SECONDS)
    async with talk(NAME) as chat:
        assert await chat.models() == [SPEC["model"], NAME]
        assert "Paris" in (await chat.chat("What is the capital of France?", max_tokens=100)).text
