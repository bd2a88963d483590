"""No request is lost while pods are replaced or taken away: steady load, through the Service, nothing tried again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.api.state import Observer
from e2e.kube import Kube, wait_until
from e2e.kubectl import Kubectl
from e2e.node import containers
from e2e.node.load import Load, Plan
from e2e.node.release import VLLM, Release
from e2e.node.rollout import edit_engine_under, watch_leave
from e2e.node.services import SOON, standin
from e2e.reach import Reach

NAME = "rolled"


def stream(seconds: int) -> dict[str, object]:
    """A stream that takes so long: two words a second."""
    return {"max_tokens": 2 * seconds, "ignore_eos": True, "standin": {"token_milliseconds": 500}}


SHORT = {"max_tokens": 5, "ignore_eos": True, "standin": {"token_milliseconds": 10}}
# Eight streams of 20 to 30 s at any time, so that one is begun every three seconds.
PLAN = Plan(per_second=5, short=SHORT, streams=tuple(stream(seconds) for seconds in (20, 21, 22, 24, 25, 27, 28, 30)))
# Still longer than the 5 s for which a pod that is told to go takes new requests.
LIGHTER = Plan(per_second=5, short=SHORT, streams=tuple(stream(seconds) for seconds in (10, 11, 12, 13)))


@pytest.fixture
def load(
    release: Release, kube: Kube, kubectl: Kubectl, reach: Reach, namespace: str, observer: Observer
) -> Iterator[Load]:
    """A service of two replicas, and the load on it, not begun yet."""
    release.use(VLLM)
    kube.apply(standin(NAME, replicas=2), namespace)
    observer.wait_ready(NAME, timeout=SOON)
    yield Load(kubectl, reach, namespace, NAME, PLAN)
    kube.delete("GPTService", NAME, namespace)
    wait_until(lambda: observer.pods(NAME), lambda pods: not pods, "the pods to go", timeout=SOON)


def test_an_edited_engine_argument_loses_no_request(
    load: Load, kube: Kube, observer: Observer, capsys: pytest.CaptureFixture[str]
) -> None:
    with load:
        leaving = edit_engine_under(load, kube, observer, ["--max-num-seqs=7"], timeout=SOON)
    with capsys.disabled():
        print(f"\nrolling update: {load.summary()}")
    assert not load.failed()
    assert len(leaving) == 2
    assert all(load.running_at("stream", seconds) for seconds in leaving)


def test_scaling_down_loses_no_request(
    load: Load, kubectl: Kubectl, observer: Observer, capsys: pytest.CaptureFixture[str]
) -> None:
    load.plan = LIGHTER
    before = {pod["metadata"]["uid"] for pod in observer.pods(NAME)}
    with load:
        wait_until(lambda: load.seconds, lambda seconds: seconds > 3, "the load to run")
        kubectl.run("scale", f"gptservice/{NAME}", "--replicas=1", "--namespace", load.namespace)
        wait_until(lambda: observer.pods(NAME), lambda pods: len(pods) == 1, "one pod", timeout=SOON)
        gone = before - {pod["metadata"]["uid"] for pod in observer.pods(NAME)}
        (leaving,) = watch_leave(load, observer, gone, timeout=SOON)
    with capsys.disabled():
        print(f"\nscaling down: {load.summary()}")
    assert not load.failed()
    assert load.running_at("stream", leaving)


def test_a_pod_that_is_deleted_finishes_what_it_began(load: Load, kube: Kube, observer: Observer) -> None:
    load.plan = LIGHTER
    with load:
        wait_until(lambda: load.seconds, lambda seconds: seconds > 3, "the load to run")
        before = {pod["metadata"]["uid"]: pod for pod in observer.pods(NAME)}
        uid, pod = before.popitem()
        kube.delete("Pod", pod["metadata"]["name"], load.namespace)
        (leaving,) = watch_leave(load, observer, {uid}, timeout=SOON)
    assert not load.failed(), load.summary()
    assert len(load.running_at("stream", leaving)) == len(LIGHTER.streams)
    observer.wait_ready(NAME, timeout=SOON)
    assert [containers.restarts(other) for other in observer.pods(NAME)] == [0, 0]
