"""No request is lost while pods are replaced or taken away, or the operator is: steady load through the Service.

Nothing is tried again, and a stream counts only if it came to its own end with all its text. The tests share a service.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from e2e.api.state import Observer
from e2e.cluster.handle import Cluster
from e2e.cluster.images import catalogue
from e2e.kube import Kube, KubeError, Object, wait_until
from e2e.kubectl import Kubectl
from e2e.node import containers
from e2e.node.conftest import Disturbance
from e2e.node.load import STREAM, Load
from e2e.node.plans import BRIEF, HALF_A_MINUTE, Plan
from e2e.node.release import STANDIN, VLLM, Release
from e2e.node.rollout import edit_engine_under, watch_leave
from e2e.node.services import MODEL, SOON
from e2e.reach import Reach

NAME = "rolled"
PLANS = [pytest.param(BRIEF, id="brief"), pytest.param(HALF_A_MINUTE, id="half a minute", marks=pytest.mark.long)]
NEXT_TAG = "next"
_versions = itertools.count(100)


@dataclass(frozen=True)
class Scene:
    """The service under load, and all that acts on it."""

    load: Load
    kube: Kube
    kubectl: Kubectl
    observer: Observer
    release: Release

    def pods(self) -> dict[str, Object]:
        """Those that stay, by UID."""
        return {pod["metadata"]["uid"]: pod for pod in self.observer.pods(NAME)}


# Each returns when every pod that had to go was first seen to be leaving, in seconds of the load.
def edit(scene: Scene) -> list[float]:
    arguments = [f"--max-num-seqs={next(_versions)}"]
    return edit_engine_under(scene.load, scene.kube, scene.observer, arguments, timeout=SOON)


def scale_down(scene: Scene) -> list[float]:
    before = set(scene.pods())
    scene.kubectl.run("scale", f"gptservice/{NAME}", "--replicas=1", "--namespace", scene.load.namespace)
    left = wait_until(scene.pods, lambda pods: len(pods) == 1, "one pod", timeout=SOON)
    return watch_leave(scene.load, scene.observer, before - set(left), timeout=SOON)


def evict(scene: Scene) -> list[float]:
    """As a drain of the node does it: one at a time, since the budget has no room for two."""
    first, second = scene.pods().items()
    evicted(scene, first[1])
    with pytest.raises(KubeError, match="disruption budget") as refused:
        scene.kube.evict(second[1]["metadata"]["name"], scene.load.namespace)
    assert refused.value.status == 429
    left = watch_leave(scene.load, scene.observer, {first[0]}, timeout=SOON)
    scene.observer.wait_ready(NAME, timeout=SOON)
    evicted(scene, second[1])
    left += watch_leave(scene.load, scene.observer, {second[0]}, timeout=SOON)
    scene.observer.wait_ready(NAME, timeout=SOON)
    assert [containers.restarts(pod) for pod in scene.observer.pods(NAME)] == [0, 0]
    return left


def evicted(scene: Scene, pod: Object) -> None:
    """Evicts a pod as soon as the budget allows one; it follows the pods with a delay."""

    def allowed() -> int:
        budget = scene.kube.get("PodDisruptionBudget", NAME, scene.load.namespace)
        return int(budget["status"].get("disruptionsAllowed", 0))

    wait_until(allowed, bool, "the budget to have room for it")
    scene.kube.evict(pod["metadata"]["name"], scene.load.namespace)


def upgrade_the_operator(scene: Scene) -> list[float]:
    """To another image, and to other defaults of everything that the service leaves to them."""
    before = list(map(containers.identity, scene.observer.pods(NAME)))
    scene.release.upgrade({"image": {"tag": NEXT_TAG}, "runtime": dict(VLLM), "logLevel": "DEBUG"})
    scene.observer.wait_ready(NAME, timeout=SOON)
    assert list(map(containers.identity, scene.observer.pods(NAME))) == before
    return []


@dataclass(frozen=True)
class Scenario:
    """What happens to so many replicas, and how many of their pods go."""

    act: Callable[[Scene], list[float]]
    replicas: int
    leaving: int
    seconds: float
    """How long it takes at least: the operator is killed within that time."""


SCENARIOS = {
    "rolling update": Scenario(edit, replicas=2, leaving=2, seconds=8),
    "scale-down": Scenario(scale_down, replicas=3, leaving=2, seconds=3),
    "eviction": Scenario(evict, replicas=2, leaving=2, seconds=8),
    "operator upgrade": Scenario(upgrade_the_operator, replicas=2, leaving=0, seconds=8),
}


@pytest.fixture(scope="module")
def service(release: Release, cluster: Cluster, kube: Kube, namespace: str) -> Iterator[None]:
    """A service that leaves image and resources to the operator's defaults, which are those of the stand-in."""
    repository = catalogue.reference("operator").partition(":")[0]
    cluster.tag_image(catalogue.reference("operator"), f"{repository}:{NEXT_TAG}")
    release.use(STANDIN)
    spec = {"model": MODEL, "gpu": {"count": 0}}
    manifest = {"apiVersion": "ai.example.com/v1", "kind": "GPTService", "metadata": {"name": NAME}, "spec": spec}
    kube.apply(manifest, namespace)
    yield
    kube.delete("GPTService", NAME, namespace)


@pytest.mark.usefixtures("service")
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", SCENARIOS)
def test_no_request_is_lost(
    name: str,
    plan: Plan,
    disturbance: Disturbance,
    tell: Callable[[str], None],
    release: Release,
    kube: Kube,
    kubectl: Kubectl,
    reach: Reach,
    namespace: str,
    observer: Observer,
) -> None:
    scenario = SCENARIOS[name]
    release.use(STANDIN)
    kube.scale(NAME, namespace, scenario.replicas)
    observer.wait_ready(NAME, timeout=SOON)
    with Load(kubectl, reach, namespace, NAME, plan) as load, disturbance(scenario.seconds):
        leaving = scenario.act(Scene(load, kube, kubectl, observer, release))
    tell(f"{name}: {load.summary()}")
    assert not load.lost()
    assert len(leaving) == scenario.leaving
    assert all(load.running_at(STREAM, seconds) for seconds in leaving)
