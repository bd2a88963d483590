"""Encrypted weights in real pods: readable in memory and nowhere else, and refused with a key that is not theirs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.api.state import Observer, condition, holds
from e2e.cluster import paths
from e2e.cluster.images import model
from e2e.kube import Kube, Object
from e2e.kubectl import Kubectl
from e2e.node import encrypted
from e2e.node.conftest import Talk
from e2e.node.containers import identity
from e2e.node.release import STANDIN, Release
from e2e.node.services import MODEL, SOON, standin
from gptservice_runtime import contract

pytestmark = pytest.mark.long

NAME = "private"
MARKER_BYTES = 256
KEY, OTHER = "weights-key", "other-key"


@pytest.fixture(scope="module", autouse=True)
def weights(
    release: Release, kube: Kube, kubectl: Kubectl, namespace: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """The encrypted model of the claim, and two Secrets of which one opens it."""
    release.use(STANDIN)
    key = encrypted.new_key()
    encrypted.key_secret(kube, namespace, KEY, key)
    encrypted.key_secret(kube, namespace, OTHER, encrypted.new_key())
    with encrypted.claim(kubectl, namespace, tmp_path_factory.mktemp("weights") / "claim", key) as folder:
        yield folder


def private(name: str = NAME, key: str | None = KEY, **spec: Any) -> Object:
    reference: Object = {"decryptionKeySecretRef": {"name": key, "key": "key"}} if key else {}
    defaults: Object = {"model": encrypted.URI, "resources": encrypted.ROOM}
    return standin(name, **{**defaults, **reference, **spec})


def wait_refused(observer: Observer, name: str, reason: str) -> str:
    told = observer.wait(lambda o: holds(o, "Ready", "False", reason), f"to say {reason}", name, timeout=SOON)
    return str(condition(told, "Ready")["message"])


async def test_it_serves_and_what_is_readable_lies_in_memory_alone(
    kube: Kube, kubectl: Kubectl, namespace: str, observer: Observer, talk: Talk, weights: Path
) -> None:
    kube.apply(private(), namespace)
    observer.wait_ready(NAME, timeout=SOON)
    async with talk(NAME) as chat:
        assert await chat.models()
    (pod,) = observer.pods(NAME)
    plain = (paths.models() / model.NAME / "model.safetensors").read_bytes()[:MARKER_BYTES]
    place = ("--namespace", namespace, pod["metadata"]["name"], "-c", "engine")
    said = kubectl.run("exec", *place, "--", "python3", "-c", encrypted.SEARCH, plain.hex()).split("\n")
    print(f"readable in the pod: {said}")
    (found,) = [line for line in said if line]
    assert found.startswith(f"tmpfs {contract.DECRYPTED_ROOT}/")
    assert (weights / "model.safetensors").read_bytes()[:MARKER_BYTES] != plain


async def test_with_another_key_the_old_revision_keeps_answering(
    kube: Kube, namespace: str, observer: Observer, talk: Talk
) -> None:
    before = observer.wait_ready(NAME, timeout=SOON)
    (pod,) = observer.pods(NAME)
    kube.apply(private(key=OTHER), namespace)

    def is_told(gpt: Object | None) -> bool:
        return holds(gpt, "Degraded", "True") and "ChecksumMismatch" in str((gpt or {})["status"])

    told = observer.wait(is_told, "to say that the key is another's", NAME, timeout=SOON)
    assert "wrong key" in str(told["status"]["lastFailure"]["message"])
    assert told["status"]["lastFailure"]["reason"] == "ChecksumMismatch"
    assert holds(told, "Available")
    async with talk(NAME) as chat:
        assert await chat.models()
    assert identity(pod) in [identity(one) for one in observer.pods(NAME)]
    kube.apply(private(), namespace)
    after = observer.wait_ready(NAME, timeout=SOON)
    assert after["status"]["effective"]["uri"] == before["status"]["effective"]["uri"]


def test_weights_that_are_not_encrypted_are_not_served_with_a_key(
    kube: Kube, namespace: str, observer: Observer
) -> None:
    kube.apply(private("plain", model=MODEL), namespace)
    assert "is not encrypted" in wait_refused(observer, "plain", "ChecksumMismatch")
    kube.delete("GPTService", "plain", namespace)


def test_encrypted_weights_are_not_served_without_a_key(kube: Kube, namespace: str, observer: Observer) -> None:
    kube.apply(private("keyless", None), namespace)
    assert "spec.decryptionKeySecretRef" in wait_refused(observer, "keyless", "ModelAccessDenied")
    kube.delete("GPTService", "keyless", namespace)


def test_a_model_that_is_larger_than_its_memory_says_so(kube: Kube, namespace: str, observer: Observer) -> None:
    small = {"requests": {"cpu": "10m", "memory": "192Mi"}, "limits": {"memory": "1100Mi"}}
    kube.apply(private("small", resources=small), namespace)
    assert "raise spec.resources.limits.memory by at least" in wait_refused(observer, "small", "OutOfMemory")
    kube.delete("GPTService", "small", namespace)


def test_a_missing_secret_is_waited_for(kube: Kube, namespace: str, observer: Observer) -> None:
    kube.apply(private("waiting", "not-there"), namespace)
    wait_refused(observer, "waiting", "SecretNotFound")
    kube.delete("GPTService", "waiting", namespace)
