"""The two manifests that the project was given, unchanged: they wait for their model, then all three replicas serve."""

from __future__ import annotations

import pytest

from e2e.api.state import Observer, condition, holds
from e2e.cluster import paths
from e2e.kube import Kube
from e2e.kubectl import Kubectl
from e2e.node import containers
from e2e.node.conftest import Talk
from e2e.node.release import STANDIN, STANDIN_IMAGE, Release
from e2e.node.services import SOON

EXAMPLES = paths.REPOSITORY / "examples"
GIVEN = [
    pytest.param("prod-gpt", "gpt-4-turbo", id="model"),
    pytest.param("prod-gpt-35", "gpt-3.5-turbo-2024-04", id="modelRef"),
]


@pytest.mark.parametrize(("name", "model"), GIVEN)
async def test_three_replicas_serve_once_the_model_is_there(
    name: str,
    model: str,
    release: Release,
    kube: Kube,
    kubectl: Kubectl,
    namespace: str,
    observer: Observer,
    talk: Talk,
) -> None:
    release.use(STANDIN)
    kube.delete("GPTModel", model)
    kubectl.apply_file(EXAMPLES / f"{name}.yaml", namespace=namespace)
    waiting = observer.wait(lambda o: holds(o, "Accepted", "False", "UnknownModel"), "to be refused", name)
    assert "Apply a GPTModel of that name" in condition(waiting, "Accepted")["message"]
    assert observer.pods(name) == []

    kubectl.apply_file(EXAMPLES / f"model-{model}.yaml")
    ready = observer.wait_ready(name, timeout=SOON)
    assert ready["status"]["phase"] == "Ready"
    pods = observer.pods(name)
    assert [containers.status(pod)["image"] for pod in pods] == [STANDIN_IMAGE] * 3
    async with talk(name) as chat:
        assert await chat.models() == [model, name]
        for asked in (model, name):
            assert "You said: hello" in (await chat.chat("hello", model=asked)).text
