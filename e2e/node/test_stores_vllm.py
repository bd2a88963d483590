"""A model of an S3 bucket, on real vLLM."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from e2e.api.state import Observer
from e2e.cluster import network, paths
from e2e.cluster.handle import Cluster
from e2e.cluster.images import model
from e2e.kube import Kube, Object
from e2e.node.conftest import Talk
from e2e.node.release import VLLM, Release
from e2e.sources import s3
from e2e.sources.gate import Gate, in_thread
from gptservice_runtime import digest

pytestmark = [pytest.mark.vllm, pytest.mark.long]

NAME = "from-s3"
START_SECONDS = 600
SPEC: Object = {
    "model": f"s3://{s3.BUCKET}/{model.NAME}",
    "modelCredentialsSecretRef": {"name": NAME},
    "contextLength": 2048,
    "gpu": {"count": 0},
    "engine": {"args": ["--dtype=float32", "--enforce-eager", "--kv-cache-memory-bytes=1G"]},
}


async def test_it_answers(
    cluster: Cluster, release: Release, kube: Kube, namespace: str, observer: Observer, talk: Talk, tmp_path: Path
) -> None:
    host = network.outer(cluster.record.number)
    with s3.serving(tmp_path / "s3") as server, in_thread(Gate(server.url, re.compile("^/models/"), host=host)) as gate:
        server.upload(paths.models() / model.NAME, model.NAME)
        release.use(VLLM)
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": NAME}}
        kube.create({**secret, "stringData": dict(server.credentials(gate.url))}, namespace)
        service: Object = {"apiVersion": "ai.example.com/v1", "kind": "GPTService", "metadata": {"name": NAME}}
        kube.apply({**service, "spec": SPEC}, namespace)
        told = observer.wait_ready(NAME, timeout=START_SECONDS)
    assert told["status"]["effective"]["digest"] == digest.of_path(paths.models() / model.NAME)
    async with talk(NAME) as chat:
        assert "Paris" in (await chat.chat("What is the capital of France?", max_tokens=100)).text
