"""Kinds that come with other operators: under kopf they may be missing, come later, and go."""

import asyncio

import pytest

from gptservice_operator.api import kinds
from tests.operator import builders
from tests.operator.builders import NAMESPACE
from tests.operator.wiring.conftest import Run, eventually
from tests.operator.wiring.fake_api import FakeApi

pytestmark = pytest.mark.wiring

MONITOR = ("PodMonitor", NAMESPACE, "chat")


@pytest.fixture
def bare(api: FakeApi) -> FakeApi:
    """An API server that has none of them, and one service."""
    api.served.clear()
    api.add(builders.service())
    return api


def watches_of(api: FakeApi, kind: kinds.Kind) -> int:
    """Return how often a watch of a kind was asked for."""
    return sum(request.is_watch and request.path == kind.path() for request in api.requests)


def is_watched_by_kopf(kind: kinds.Kind) -> bool:
    """Return whether kopf runs a watch of a kind; also one that waits for an answer."""
    return any(task.get_name().startswith(f"watcher for {kind.plural}.") for task in asyncio.all_tasks())


async def test_without_them_everything_else_comes_up(bare: FakeApi, run: Run) -> None:
    async with run():
        await eventually(lambda: bare.get_body("NetworkPolicy", "chat"))
    assert MONITOR not in bare.objects
    assert not any(watches_of(bare, kind) for kind in kinds.OPTIONAL)


async def test_one_that_comes_later_is_used_and_watched(bare: FakeApi, run: Run) -> None:
    async with run():
        await eventually(lambda: bare.get_body("NetworkPolicy", "chat"))
        await bare.install(kinds.POD_MONITOR)
        await eventually(lambda: MONITOR in bare.objects)
        await eventually(lambda: watches_of(bare, kinds.POD_MONITOR))
        uid = bare.objects[MONITOR]["metadata"]["uid"]
        bare.remove("PodMonitor", "chat")
        await bare.tell()
        await eventually(lambda: MONITOR in bare.objects and bare.objects[MONITOR]["metadata"]["uid"] != uid)
        bare.edit("PodMonitor", "chat")["spec"] = {"selector": {}}
        await bare.tell()
        await eventually(lambda: "podMetricsEndpoints" in bare.objects[MONITOR]["spec"])


@pytest.mark.parametrize("cut_first", [False, True], ids=["the CRD's end is told first", "the watch ends first"])
async def test_one_that_goes_is_not_missed(api: FakeApi, run: Run, cut_first: bool) -> None:
    api.add(builders.service())
    async with run(resync_seconds=0.5) as operator:
        await eventually(lambda: MONITOR in api.objects)
        await eventually(lambda: watches_of(api, kinds.POD_MONITOR))
        assert is_watched_by_kopf(kinds.POD_MONITOR)
        api.drop(kinds.POD_MONITOR)
        if cut_first:
            watches_before = watches_of(api, kinds.POD_MONITOR)
            await api.cut_watches()
            await eventually(lambda: watches_of(api, kinds.POD_MONITOR) > watches_before)
        await api.tell_of_crd("DELETED", kinds.POD_MONITOR)
        await eventually(lambda: kinds.POD_MONITOR not in operator.app.discovery.served)
        await eventually(lambda: operator.app.store.count(kinds.POD_MONITOR) == 0)
        body = api.edit("GPTService", "chat")
        body["spec"]["replicas"] = 2
        body["metadata"]["generation"] += 1
        await api.tell()
        await eventually(lambda: api.get_body("PodDisruptionBudget", "chat"))
        # With the end of this watch kopf could end all of them, and the process.
        await eventually(lambda: not is_watched_by_kopf(kinds.POD_MONITOR))
        watches_before = watches_of(api, kinds.POD)
        await api.cut_watches()
        await eventually(lambda: watches_of(api, kinds.POD) > watches_before or not is_watched_by_kopf(kinds.POD))
        assert is_watched_by_kopf(kinds.POD)
        assert not operator.task.done()
