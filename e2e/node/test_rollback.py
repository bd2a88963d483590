"""A revision whose engine fails gives way to the one before, with real containers: beside it, and in its place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from e2e.api.state import Observer, condition, holds, revision_of
from e2e.installation import NAMESPACE, RELEASE
from e2e.kube import Kube, Object
from e2e.kubectl import Kubectl
from e2e.node.conftest import GPUS
from e2e.node.containers import identity
from e2e.node.release import VLLM, Release
from e2e.node.services import SOON, last_words, standin

STABLE_SECONDS = "GPTSERVICE_STABLE_SECONDS"
BROKEN = "ValueError: these weights are broken"
FAILING = {"STANDIN_FAIL_AT_START": "1", "STANDIN_LAST_WORDS": last_words(BROKEN)}


@pytest.fixture(scope="module", autouse=True)
def soon_stable(release: Release, kubectl: Kubectl) -> Iterator[None]:
    """Two minutes are long; other tests want a revision that is never stable."""
    release.use(VLLM)

    def configure(setting: str) -> None:
        place = ("--namespace", NAMESPACE)
        kubectl.run("set", "env", f"deployment/{RELEASE}", setting, *place)
        kubectl.run("rollout", "status", f"deployment/{RELEASE}", "--timeout=60s", *place, timeout=70)

    configure(f"{STABLE_SECONDS}=3")
    yield
    configure(f"{STABLE_SECONDS}-")


def wait_stable(observer: Observer, name: str) -> str:
    observer.wait_ready(name, timeout=SOON)
    observer.wait(lambda o: "stableRevision" in (o or {})["status"], "a stable revision", name, timeout=SOON)
    return str(revision_of(observer.child("Deployment", name)))


def wait_rolled_back(observer: Observer, name: str) -> Object:
    def back(gpt: Object | None) -> bool:
        return holds(gpt, "Ready", "False", "RolledBack") and holds(gpt, "Available")

    return observer.wait(back, "to be rolled back, and to serve", name, timeout=SOON)


def test_with_room_beside_it_the_old_pod_stays(kube: Kube, namespace: str, observer: Observer) -> None:
    kube.apply(standin("beside"), namespace)
    before = wait_stable(observer, "beside")
    (pod,) = observer.pods("beside")
    kube.apply(standin("beside", env=FAILING), namespace)
    told = wait_rolled_back(observer, "beside")
    assert BROKEN in condition(told, "Degraded")["message"]
    observer.wait_rolled("beside", lambda d: revision_of(d) == before, "the old pod alone to be left")
    assert [identity(one) for one in observer.pods("beside")] == [identity(pod)]


def test_on_the_only_gpus_it_comes_back_in_place_of_the_failed_one(
    kube: Kube, namespace: str, observer: Observer
) -> None:
    room: dict[str, Any] = {"gpu": {"count": GPUS}, "rollout": {"surgeWaitSeconds": 2}}
    kube.apply(standin("in-place", **room), namespace)
    before = wait_stable(observer, "in-place")
    kube.apply(standin("in-place", env=FAILING, **room), namespace)
    told = wait_rolled_back(observer, "in-place")
    assert BROKEN in condition(told, "Degraded")["message"]
    observer.wait_rolled("in-place", lambda d: revision_of(d) == before, "the revision that was stable to serve")
    kube.delete("GPTService", "in-place", namespace)
