"""The operator's process is killed: it starts again, and neither it nor its absence touches what runs."""

from __future__ import annotations

import asyncio

import pytest

from e2e.api.state import Observer
from e2e.cluster.handle import Cluster
from e2e.kube import Kube, wait_until
from e2e.node import containers
from e2e.node.conftest import Talk
from e2e.node.release import RESYNC_SECONDS, VLLM, Release
from e2e.node.services import SOON, standin

NAMES = ("one", "two")


@pytest.fixture
def running(release: Release, kube: Kube, namespace: str, observer: Observer) -> None:
    release.use(VLLM)
    for name in NAMES:
        kube.apply(standin(name, replicas=2, maxInflightRequests=8), namespace)
    for name in NAMES:
        observer.wait_ready(name, timeout=SOON)


@pytest.mark.usefixtures("running")
async def test_a_killed_operator_restarts_and_writes_nothing(
    release: Release, cluster: Cluster, observer: Observer, talk: Talk
) -> None:
    def pods() -> set[object]:
        return {containers.identity(pod) for name in NAMES for pod in observer.pods(name)}

    # First, for it waits until what followed on Ready has been written.
    since = cluster.audit.mark()
    before, versions = pods(), observer.versions()
    release.kill()
    wait_until(release.log, lambda log: "store filled" in log, "the new process to have listed everything", timeout=60)
    # Its first passes, and a resync.
    await asyncio.sleep(RESYNC_SECONDS * 1.5)
    written = cluster.audit.count(since, matching=lambda write: write.agent == "gptservice-operator")
    assert not written
    assert observer.versions() == versions
    assert pods() == before
    async with talk(NAMES[0]) as chat:
        assert (await chat.chat("hello")).text


@pytest.mark.usefixtures("running")
def test_it_goes_on_with_what_was_asked_meanwhile(
    release: Release, kube: Kube, namespace: str, observer: Observer
) -> None:
    release.scale(0)
    try:
        kube.scale("one", namespace, 1)
        kube.delete("Deployment", "two", namespace)
        kube.apply(standin("three"), namespace)
    finally:
        release.scale(1)
    for name in ("one", "two", "three"):
        observer.wait_ready(name, timeout=SOON)
    assert len(observer.pods("one")) == 1
