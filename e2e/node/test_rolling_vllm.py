"""No request to real vLLM is lost in a rolling update: a request a second, and three streams of half a minute."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from e2e.api.state import Observer
from e2e.kube import Kube
from e2e.kubectl import Kubectl
from e2e.node.conftest import Disturbance
from e2e.node.load import STREAM, Load
from e2e.node.plans import VLLM_STREAMS
from e2e.node.release import VLLM, Release
from e2e.node.rollout import edit_engine_under
from e2e.node.services import ON_A_CPU, VLLM_SOON, on_vllm
from e2e.reach import Reach

pytestmark = [pytest.mark.vllm, pytest.mark.long, pytest.mark.timeout(1800)]

NAME = "streamed"
# Where the new engine's start takes the cores from the old one, a stream is far slower than usual.
DRAIN_SECONDS = 600
_versions = itertools.count(100)


@pytest.fixture(scope="module")
def served(release: Release, kube: Kube, namespace: str) -> Iterator[None]:
    release.use(VLLM)
    kube.apply(on_vllm(NAME, drainTimeoutSeconds=DRAIN_SECONDS), namespace)
    yield
    kube.delete("GPTService", NAME, namespace)


@pytest.mark.usefixtures("served")
def test_no_request_is_lost(
    kube: Kube,
    kubectl: Kubectl,
    reach: Reach,
    namespace: str,
    observer: Observer,
    disturbance: Disturbance,
    tell: Callable[[str], None],
) -> None:
    observer.wait_ready(NAME, timeout=VLLM_SOON)
    arguments = [*ON_A_CPU, f"--max-num-seqs={next(_versions)}"]
    with Load(kubectl, reach, namespace, NAME, VLLM_STREAMS) as load, disturbance(30):
        leaving = edit_engine_under(load, kube, observer, arguments, timeout=VLLM_SOON + DRAIN_SECONDS)
    streams = sorted(one.seconds for one in load.outcomes if one.kind == STREAM)
    tell(f"rolling update, real vLLM: {load.summary()}; streams took {streams[0]:.0f} to {streams[-1]:.0f} s")
    assert not load.lost()
    assert [len(load.running_at(STREAM, seconds)) for seconds in leaving] == [3]
