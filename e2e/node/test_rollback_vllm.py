"""What real vLLM cannot run is rolled back by itself, and kubectl says what went wrong and what to do.

The tests share a service of one GPU. Each begins with what the one before has left: Ready, and stable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
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


@dataclass(frozen=True)
class Mistake:
    """An edit that cannot run, what it is to be called, and a word of what vLLM or the runtime says of it."""

    cause: Reason
    word: str
    args: tuple[str, ...] = ()
    spec: dict[str, Any] = field(default_factory=dict[str, Any])


# The argument is one that vLLM's parser takes, and with it the operator: its configuration then finds it too small.
ARGUMENT = Mistake(conditions.INVALID_ENGINE_ARGUMENT, "max_num_seqs", args=("--max-num-seqs=0",))
PATH = Mistake(conditions.MODEL_NOT_FOUND, "nothing-here", spec={"model": f"pvc://{MODEL_CLAIM}/nothing-here"})
MEMORY = Mistake(conditions.OUT_OF_MEMORY, "memory", spec={"resources": {"limits": {"memory": "1Gi"}}})
EACH = pytest.mark.parametrize(
    "mistake",
    [
        pytest.param(ARGUMENT, id="an argument"),
        pytest.param(PATH, id="a path", marks=long),
        pytest.param(MEMORY, id="a memory limit", marks=long),
    ],
)
Commit = Callable[[Mistake, float], None]


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


@pytest.fixture
def commit(before: str, load: Load, kube: Kube, observer: Observer, disturbance: Disturbance) -> Commit:
    """Makes a mistake under load, the operator being disturbed within some seconds, and waits until all is back."""

    def commit(mistake: Mistake, within: float) -> None:
        with load, disturbance(within):
            kube.apply(service(*mistake.args, **mistake.spec), load.namespace)
            wait_rolled_back(observer, NAME, timeout=VLLM_SOON)
            observer.wait_rolled(NAME, lambda one: revision_of(one) == before, "the stable revision alone to be left")

    return commit


@pytest.fixture
def assert_explained(kubectl: Kubectl, namespace: str) -> Callable[[Mistake], None]:
    def explained(mistake: Mistake) -> None:
        heading, row = kubectl.run("get", "gptservice", NAME, "-o", "wide", "--namespace", namespace).splitlines()
        assert dict(zip(heading.split(), row.split(), strict=True))["REASON"] == "RolledBack"
        described = " ".join(kubectl.run("describe", "gptservice", NAME, "--namespace", namespace).split())
        cause = mistake.cause
        for text in (cause.name, mistake.word, cause.remedy, conditions.ROLLED_BACK.remedy):
            assert text in described

    return explained


@EACH
def test_with_a_free_gpu_the_old_pod_answers_throughout(
    mistake: Mistake,
    gpus: Callable[[int], None],
    commit: Commit,
    load: Load,
    observer: Observer,
    assert_explained: Callable[[Mistake], None],
    tell: Callable[[str], None],
) -> None:
    gpus(2)
    (pod,) = observer.pods(NAME)
    commit(mistake, 15)
    tell(f"rolled back beside the old pod, {mistake.cause.name}: {load.summary()}")
    assert not load.lost()
    assert [identity(one) for one in observer.pods(NAME)] == [identity(pod)]
    assert_explained(mistake)


@pytest.mark.long
@EACH
def test_without_one_the_old_revision_comes_back(
    mistake: Mistake,
    gpus: Callable[[int], None],
    commit: Commit,
    load: Load,
    assert_explained: Callable[[Mistake], None],
    tell: Callable[[str], None],
) -> None:
    gpus(1)
    commit(mistake, 30)
    tell(f"rolled back on the only GPU, {mistake.cause.name}: nothing answered for {load.gap():.0f} s; {load.counts()}")
    assert_explained(mistake)
