"""Updates on a node with few GPUs: where an old pod's will do, it goes by itself; else the old pod answers throughout.

The tests share a service of one GPU and one replica. Each begins with what the one before has left: Ready, and stable.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from e2e.api.state import Observer, condition, holds
from e2e.kube import Kube, Object, wait_until
from e2e.kubectl import Kubectl
from e2e.node import devices
from e2e.node.conftest import Disturbance
from e2e.node.containers import identity
from e2e.node.load import Load
from e2e.node.plans import SHORT_ONES
from e2e.node.rollout import wait_stable, watch_leave
from e2e.node.services import SOON, standin
from e2e.reach import Reach
from gptservice_operator.api import conditions

NAME = "scarce"
SURGE_WAIT_SECONDS = 2
MIG = "nvidia.com/mig-1g.10gb"
SWITCHED = "ai.example.com/switched"
_versions = itertools.count(100)


@dataclass
class Service:
    """The service, and what it was given so far."""

    kube: Kube
    namespace: str
    observer: Observer
    spec: dict[str, Any]

    def apply(self, **changes: Any) -> None:
        """An edit, which the next one takes back."""
        self.kube.apply(standin(NAME, **{**self.spec, **changes}), self.namespace)

    def another_version(self) -> None:
        """An edit that lasts, of something that only another pod can have."""
        self.spec["maxTokens"] = next(_versions)
        self.apply()

    def pod(self) -> Object:
        """Its only pod."""
        (pod,) = self.observer.pods(NAME)
        return pod

    def wait_stable(self) -> Object:
        """Waits until it is as it was given, and returns its pod."""
        wait_stable(self.observer, NAME, timeout=SOON)
        return self.pod()

    def is_switched(self) -> bool:
        """Whether a revision is marked to take the old pod's place."""
        return any(SWITCHED in one["metadata"]["annotations"] for one in self.observer.revisions(NAME))


@pytest.fixture(scope="module")
def service(gpus: object, soon_stable: None, kube: Kube, namespace: str, observer: Observer) -> Iterator[Service]:
    spec = {"gpu": {"count": 1}, "rollout": {"surgeWaitSeconds": SURGE_WAIT_SECONDS}}
    service = Service(kube, namespace, observer, spec)
    service.another_version()
    yield service
    kube.delete("GPTService", NAME, namespace)


@pytest.fixture
def load(service: Service, kubectl: Kubectl, reach: Reach, namespace: str) -> Load:
    """Not begun yet."""
    return Load(kubectl, reach, namespace, NAME, SHORT_ONES)


class TestOneGpu:
    """The service holds it."""

    def test_an_update_takes_the_old_pods_place_without_help(
        self, service: Service, load: Load, disturbance: Disturbance, tell: Callable[[str], None]
    ) -> None:
        before = service.wait_stable()
        with load, disturbance(10):
            service.another_version()
            after = service.wait_stable()
        tell(f"the only GPU: nothing was answered for {load.gap():.1f} s; {load.counts()}")
        assert after["metadata"]["uid"] != before["metadata"]["uid"]
        wait_until(service.is_switched, lambda marked: not marked, "the mark to be taken back")

    @pytest.mark.parametrize(
        ("edit", "lacking"),
        [
            pytest.param({"upgradeStrategy": "RollingUpdate"}, devices.RESOURCE, id="a strategy that was chosen"),
            pytest.param({"gpu": {"count": 16}}, devices.RESOURCE, id="more GPUs than any node has"),
            pytest.param({"gpu": {"count": 1, "resourceName": MIG}}, MIG, id="a MIG slice that no node has"),
        ],
    )
    def test_what_cannot_go_is_said_and_the_old_pod_answers(
        self,
        edit: dict[str, Any],
        lacking: str,
        service: Service,
        load: Load,
        disturbance: Disturbance,
        tell: Callable[[str], None],
    ) -> None:
        before = service.wait_stable()
        with load, disturbance(5):
            service.apply(maxTokens=next(_versions), **edit)
            told = service.observer.wait(is_blocked, "to be blocked", NAME, timeout=SOON)
            assert identity(before) in map(identity, service.observer.pods(NAME))
            assert not service.is_switched()
            service.apply()
            assert identity(service.wait_stable()) == identity(before)
        tell(f"blocked: {load.summary()}")
        assert not load.lost()
        for kind in ("Ready", "Degraded"):
            assert f"Insufficient {lacking}" in condition(told, kind)["message"]
            assert conditions.ROLLOUT_BLOCKED.remedy in condition(told, kind)["message"]
        assert holds(told, "Available")


def is_blocked(gpt: Object | None) -> bool:
    return holds(gpt, "Ready", "False", "RolloutBlocked")


def test_with_two_gpus_the_new_pod_comes_first(
    service: Service,
    load: Load,
    gpus: Callable[[int], None],
    disturbance: Disturbance,
    tell: Callable[[str], None],
) -> None:
    gpus(2)
    before = service.wait_stable()
    with load, disturbance(8):
        service.another_version()
        watch_leave(load, service.observer, {before["metadata"]["uid"]}, timeout=SOON)
        service.wait_stable()
    tell(f"two GPUs: {load.summary()}")
    assert not load.lost()
    assert not service.is_switched()
