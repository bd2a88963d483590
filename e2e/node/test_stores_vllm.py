"""A model of an S3 bucket, on real vLLM."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2e.api.state import Observer
from e2e.cluster import paths
from e2e.cluster.handle import Cluster
from e2e.cluster.images import model
from e2e.kube import Kube
from e2e.node.conftest import Talk
from e2e.node.release import VLLM, Release
from e2e.node.services import VLLM_SOON, model_in_s3, on_vllm
from gptservice_runtime import digest

pytestmark = [pytest.mark.vllm, pytest.mark.long]

NAME = "from-s3"


async def test_it_answers(
    cluster: Cluster, release: Release, kube: Kube, namespace: str, observer: Observer, talk: Talk, tmp_path: Path
) -> None:
    release.use(VLLM)
    with model_in_s3(cluster, kube, namespace, NAME, tmp_path / "s3") as source:
        kube.apply(on_vllm(NAME, **source), namespace)
        told = observer.wait_ready(NAME, timeout=VLLM_SOON)
    assert told["status"]["effective"]["digest"] == digest.of_path(paths.models() / model.NAME)
    async with talk(NAME) as chat:
        assert "Paris" in (await chat.chat("What is the capital of France?", max_tokens=100)).text
