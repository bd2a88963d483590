"""How real vLLM fails: in its own words, and with each of its processes."""

from __future__ import annotations

import signal

import pytest

from e2e.api.state import Observer, condition, holds
from e2e.kube import Kube
from e2e.node import containers
from e2e.node.conftest import Talk
from e2e.node.release import VLLM, Release
from e2e.node.services import VLLM_SOON, on_vllm

pytestmark = [pytest.mark.vllm, pytest.mark.long]


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        pytest.param("--max-modl-len=9", "--max-modl-len=9; did you mean --max-model-len?", id="unknown"),
        pytest.param("--max-num-seqs=many", "many", id="not-a-number"),
        pytest.param("--max-num-seqs=0", "max_num_seqs", id="out-of-range"),
    ],
)
def test_a_refused_argument_is_told_in_vllms_words(
    argument: str,
    words: str,
    request: pytest.FixtureRequest,
    release: Release,
    kube: Kube,
    namespace: str,
    observer: Observer,
) -> None:
    """With an image of its own, so that the operator does not refuse it before vLLM can."""
    name = f"refused-{request.node.callspec.id}"
    release.use(VLLM)
    body = on_vllm(name, argument)
    body["spec"]["engine"]["image"] = VLLM["image"]
    kube.apply(body, namespace)
    told = observer.wait(
        lambda o: holds(o, "Ready", "False", "InvalidEngineArgument"), "to be refused", name, timeout=VLLM_SOON
    )
    assert words in condition(told, "Ready")["message"]
    kube.delete("GPTService", name, namespace)


def test_a_model_that_is_too_long_for_its_context_is_refused(
    release: Release, kube: Kube, namespace: str, observer: Observer
) -> None:
    """contextLength is the user's too: the message names what the model can do."""
    release.use(VLLM)
    kube.apply(on_vllm("too-long", contextLength=1000000), namespace)
    told = observer.wait(
        lambda o: holds(o, "Ready", "False", "InvalidEngineArgument"),
        "to be refused",
        "too-long",
        timeout=VLLM_SOON,
    )
    assert "8192" in condition(told, "Ready")["message"]
    kube.delete("GPTService", "too-long", namespace)


async def test_a_killed_engine_core_is_started_again(
    release: Release, kube: Kube, namespace: str, observer: Observer, talk: Talk
) -> None:
    """The API server survives its core for a moment; it is not to go on without it."""
    release.use(VLLM)
    kube.apply(on_vllm("core"), namespace)
    observer.wait_ready("core", timeout=VLLM_SOON)
    (pod,) = observer.pods("core")
    below = containers.descendants(containers.first_process(containers.status(pod)))
    (core,) = [pid for pid, command in below.items() if "EngineCore" in command]
    containers.kill(core, signal.SIGKILL)
    observer.wait(lambda o: holds(o, "Ready", "False", "CrashLoop"), "to say so", "core", timeout=120)
    observer.wait_ready("core", timeout=VLLM_SOON)
    (after,) = observer.pods("core")
    assert containers.restarts(after) == 1
    async with talk("core") as chat:
        assert "Paris" in (await chat.chat("What is the capital of France?", max_tokens=60)).text
    kube.delete("GPTService", "core", namespace)
