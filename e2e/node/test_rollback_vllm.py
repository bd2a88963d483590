"""What real vLLM cannot run is rolled back by itself, and kubectl says what went wrong and what to do.

The tests share a service of one GPU. Each begins with what the one before has left: Ready, and stable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e.api.state import Observer, revision_of
from e2e.installation import MODEL_CLAIM
from e2e.kube import Kube
from e2e.kubectl import Kubectl
from e2e.node.conftest import Disturbance
from e2e.node.containers import identity
from e2e.node.load import Load
from e2e.node.plans import VLLM_SHORT_ONES
from e2e.node.rollout import wait_rolled_back, wait_stable
from e2e.node.services import VLLM_SOON, on_vllm
from e2e.reach import Reach
from gptservice_operator.api import conditions
from gptservice_operator.api.conditions import Reason

pytestmark = [pytest.mark.vllm, pytest.mark.usefixtures("soon_stable")]

NAME = "chat"
long = pytest.mark.long

# The argument is one that vLLM's parser takes, and with it the operator: its configuration then finds it too small.
ARGUMENT = pytest.param(("--max-num-seqs=0",), {}, conditions.INVALID_ENGINE_ARGUMENT, "max_num_seqs", id="an argument")
OTHERS = [
    pytest.param(
        (), {"model": f"pvc://{MODEL_CLAIM}/nothing-here"}, conditions.MODEL_NOT_FOUND, "nothing-here", id="a path",
        marks=long,
    ),
    pytest.param(
        (), {"resources": {"limits": {"memory": "1Gi"}}}, conditions.OUT_OF_MEMORY, "memory", id="a memory limit",
        marks=long,
    ),
]  # fmt: skip


def service(*args: str, **spec: Any) -> dict[str, Any]:
    return on_vllm(NAME, *args, **{"gpu": {"count": 1}, "rollout": {"surgeWaitSeconds": 2}, **spec})


@pytest.fixture(scope="module")
def served(soon_stable: None, gpus: object, kube: Kube, namespace: str, observer: Observer) -> Iterator[None]:
    kube.apply(service(), namespace)
    yield
    kube.delete("GPTService", NAME, namespace)


@pytest.fixture
def before(served: None, kube: Kube, namespace: str, observer: Observer) -> str:
    """The key of the revision that serves, and is stable."""
    kube.apply(service(), namespace)
    return wait_stable(observer, NAME, timeout=VLLM_SOON)


@pytest.fixture
def load(before: str, kubectl: Kubectl, reach: Reach, namespace: str) -> Load:
    """Not begun yet."""
    return Load(kubectl, reach, namespace, NAME, VLLM_SHORT_ONES)


def wait_back(observer: Observer, revision: str) -> None:
    """Waits until the revision that came back serves, and nothing is left of the other."""
    observer.wait_rolled(NAME, lambda one: revision_of(one) == revision, "the stable revision alone to be left")


def assert_explained(kubectl: Kubectl, namespace: str, cause: Reason, words: str) -> None:
    heading, row = kubectl.run("get", "gptservice", NAME, "-o", "wide", "--namespace", namespace).splitlines()
    assert dict(zip(heading.split(), row.split(), strict=True))["REASON"] == "RolledBack"
    described = " ".join(kubectl.run("describe", "gptservice", NAME, "--namespace", namespace).split())
    for text in (cause.name, words, cause.remedy, conditions.ROLLED_BACK.remedy):
        assert text in described


@pytest.mark.parametrize(("args", "spec", "cause", "words"), [ARGUMENT, *OTHERS])
def test_with_a_free_gpu_the_old_pod_answers_throughout(
    args: tuple[str, ...],
    spec: dict[str, Any],
    cause: Reason,
    words: str,
    before: str,
    gpus: Callable[[int], None],
    load: Load,
    kube: Kube,
    kubectl: Kubectl,
    observer: Observer,
    disturbance: Disturbance,
    tell: Callable[[str], None],
) -> None:
    gpus(2)
    (pod,) = observer.pods(NAME)
    with load, disturbance(15):
        kube.apply(service(*args, **spec), load.namespace)
        wait_rolled_back(observer, NAME, timeout=VLLM_SOON)
        wait_back(observer, before)
    tell(f"rolled back beside the old pod, {cause.name}: {load.summary()}")
    assert not load.lost()
    assert [identity(one) for one in observer.pods(NAME)] == [identity(pod)]
    assert_explained(kubectl, load.namespace, cause, words)


@pytest.mark.long
@pytest.mark.parametrize(("args", "spec", "cause", "words"), [ARGUMENT, *OTHERS])
def test_without_one_the_old_revision_comes_back(
    args: tuple[str, ...],
    spec: dict[str, Any],
    cause: Reason,
    words: str,
    before: str,
    gpus: Callable[[int], None],
    load: Load,
    kube: Kube,
    kubectl: Kubectl,
    observer: Observer,
    disturbance: Disturbance,
    tell: Callable[[str], None],
) -> None:
    gpus(1)
    with load, disturbance(30):
        kube.apply(service(*args, **spec), load.namespace)
        wait_rolled_back(observer, NAME, timeout=VLLM_SOON)
        wait_back(observer, before)
    tell(f"rolled back on the only GPU, {cause.name}: nothing answered for {load.gap():.0f} s; {load.counts()}")
    assert_explained(kubectl, load.namespace, cause, words)
