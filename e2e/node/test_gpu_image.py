"""The image for GPUs, built from its Containerfile on the stand-in engine: no CPU runs vLLM's own image.

What can differ from the image for CPUs is what the Containerfile does: it is built, and a pod fetches and serves with
it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from e2e.api.state import Observer
from e2e.cluster import paths
from e2e.cluster.handle import Cluster
from e2e.cluster.images import catalogue, model, oci
from e2e.kube import Kube
from e2e.node.conftest import Talk
from e2e.node.release import VLLM, Release
from e2e.node.services import SOON, model_in_s3, standin
from gptservice_runtime import digest

pytestmark = pytest.mark.long

NAME = "gpu-image"
IMAGE = catalogue.reference("runtime")


@pytest.fixture(scope="module")
def archive(cluster: Cluster) -> Path:
    built = catalogue.archive("runtime")
    cluster.load_image(built)
    return built


def test_its_labels_say_what_it_is_made_of(archive: Path) -> None:
    labels = oci.read_archive(archive).labels
    assert labels["org.opencontainers.image.title"] == "gptservice-runtime"
    assert labels["org.opencontainers.image.version"]
    assert labels["org.opencontainers.image.base.name"]


@pytest.mark.usefixtures("archive")
async def test_a_pod_fetches_and_serves_with_it(
    cluster: Cluster, release: Release, kube: Kube, namespace: str, observer: Observer, talk: Talk, tmp_path: Path
) -> None:
    release.use(VLLM)
    with model_in_s3(cluster, kube, namespace, NAME, tmp_path / "s3") as source:
        body = standin(NAME, resources={"requests": {"cpu": "10m", "memory": "1Gi"}}, **source)
        body["spec"]["engine"]["image"] = IMAGE
        kube.apply(body, namespace)
        told = observer.wait_ready(NAME, timeout=SOON)
    assert told["status"]["effective"]["digest"] == digest.of_path(paths.models() / model.NAME)
    (pod,) = observer.pods(NAME)
    containers = (*pod["spec"]["initContainers"], *pod["spec"]["containers"])
    assert {each["image"] for each in containers} == {IMAGE}
    async with talk(NAME) as chat:
        assert (await chat.chat("What is the capital of France?", max_tokens=10)).text
