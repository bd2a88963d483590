"""The manifests that the project was given on real vLLM, with one replica; then a rolling update while they are asked.

The tests share one service and run in this order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from e2e.api.state import Observer, holds
from e2e.cluster import paths
from e2e.kube import Kube
from e2e.kubectl import Kubectl
from e2e.node.conftest import Talk
from e2e.node.load import STREAM, Load
from e2e.node.plans import Plan
from e2e.node.release import VLLM, Release
from e2e.node.rollout import edit_engine_under
from e2e.node.services import restricted_namespace
from e2e.reach import Reach

pytestmark = pytest.mark.vllm

EXAMPLES = paths.REPOSITORY / "examples"
START_SECONDS = 600
# Every replica is a vLLM of its own: one manifest is enough for each run.
GIVEN = [
    pytest.param(("prod-gpt", "gpt-4-turbo"), id="model"),
    pytest.param(("prod-gpt-35", "gpt-3.5-turbo-2024-04"), id="modelRef", marks=pytest.mark.long),
]
# One stream at any time, so that one is running when the old pod is told to go. A stream is short enough for the drain
# time-out of 60 s where two engines share two cores: fewer than 0.6 tokens per second were measured there.
PLAN = Plan(
    per_second=0.5,
    short={"max_tokens": 5, "ignore_eos": True},
    streams=({"max_tokens": 20, "ignore_eos": True},),
)


@dataclass(frozen=True)
class Served:
    """One of the manifests, with a single replica, Ready."""

    name: str
    model: str


@pytest.fixture(scope="module")
def namespace(kube: Kube, kubectl: Kubectl) -> Iterator[str]:
    """Not kept any longer than the module: its pods are large."""
    with restricted_namespace(kube, kubectl) as name:
        yield name


@pytest.fixture(scope="module", params=GIVEN)
def served(
    request: pytest.FixtureRequest,
    release: Release,
    kube: Kube,
    kubectl: Kubectl,
    namespace: str,
    observer: Observer,
) -> Iterator[Served]:
    name, model = request.param
    release.use(VLLM)
    kube.delete("GPTModel", model)
    kubectl.apply_file(EXAMPLES / f"{name}.yaml", namespace=namespace)
    observer.wait(lambda o: holds(o, "Accepted", "False", "UnknownModel"), "to be refused", name)
    kubectl.run("scale", f"gptservice/{name}", "--replicas=1", "--namespace", namespace)
    kubectl.apply_file(EXAMPLES / f"model-{model}.yaml")
    observer.wait_ready(name, timeout=START_SECONDS)
    yield Served(name, model)
    kube.delete("GPTService", name, namespace)


async def test_it_answers_under_both_names(served: Served, talk: Talk) -> None:
    async with talk(served.name) as chat:
        assert await chat.models() == [served.model, served.name]
        for name in (served.model, served.name):
            answer = await chat.chat("What is the capital of France?", max_tokens=60, model=name)
            assert "Paris" in answer.text


def test_a_rolling_update_loses_no_request(
    served: Served,
    kube: Kube,
    kubectl: Kubectl,
    reach: Reach,
    namespace: str,
    observer: Observer,
    tell: Callable[[str], None],
) -> None:
    with Load(kubectl, reach, namespace, served.name, PLAN) as load:
        leaving = edit_engine_under(load, kube, observer, ["--max-num-seqs=32"], timeout=START_SECONDS)
    tell(f"rolling update, real vLLM: {load.summary()}")
    assert not load.lost()
    assert [load.running_at(STREAM, seconds) for seconds in leaving] != [[]]
