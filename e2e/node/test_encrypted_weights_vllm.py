"""Encrypted weights on real vLLM: the decrypted model is the model."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2e.api.state import Observer
from e2e.kube import Kube, Object
from e2e.kubectl import Kubectl
from e2e.node import encrypted
from e2e.node.conftest import Talk
from e2e.node.release import VLLM, Release

pytestmark = [pytest.mark.vllm, pytest.mark.long]

NAME = "private"
START_SECONDS = 600


async def test_it_answers(
    release: Release, kube: Kube, kubectl: Kubectl, namespace: str, observer: Observer, talk: Talk, tmp_path: Path
) -> None:
    release.use(VLLM)
    key = encrypted.new_key()
    encrypted.key_secret(kube, namespace, "weights-key", key)
    spec: Object = {
        "model": encrypted.URI,
        "decryptionKeySecretRef": {"name": "weights-key"},
        "contextLength": 2048,
        "gpu": {"count": 0},
        "resources": {"requests": {"cpu": "500m", "memory": "5Gi"}, "limits": {"memory": "8Gi"}},
        "engine": {"args": ["--dtype=float32", "--enforce-eager", "--kv-cache-memory-bytes=1G"]},
    }
    service: Object = {"apiVersion": "ai.example.com/v1", "kind": "GPTService", "metadata": {"name": NAME}}
    with encrypted.claim(kubectl, namespace, tmp_path / "claim", key):
        kube.apply({**service, "spec": spec}, namespace)
        observer.wait_ready(NAME, timeout=START_SECONDS)
        async with talk(NAME) as chat:
            assert "Paris" in (await chat.chat("What is the capital of France?", max_tokens=100)).text
        kube.delete("GPTService", NAME, namespace)
