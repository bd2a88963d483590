"""Which optional kinds the cluster has: asked for, remembered, and asked again when there may be news."""

import asyncio
import logging

import pytest

from gptservice_operator import errors
from gptservice_operator.api import kinds
from gptservice_operator.discovery import SETTLE_SECONDS, Discovery
from tests.operator import virtual_time
from tests.operator.fake_cluster import FakeCluster

BOTH = frozenset(kinds.OPTIONAL)


def cluster_with(*served: kinds.Kind) -> FakeCluster:
    return FakeCluster(served=set(served))


@pytest.mark.parametrize(
    "served", [(), (kinds.CERTIFICATE,), (kinds.POD_MONITOR,), kinds.OPTIONAL], ids=lambda kinds: str(len(kinds))
)
async def test_what_is_served_is_known_after_a_look(served: tuple[kinds.Kind, ...]) -> None:
    discovery = Discovery()
    assert await discovery.refresh(cluster_with(*served).as_cluster()) is bool(served)
    assert discovery.served == set(served)


async def test_the_same_answer_is_no_news() -> None:
    discovery, cluster = Discovery(), cluster_with(kinds.CERTIFICATE)
    assert await discovery.refresh(cluster.as_cluster())
    assert not await discovery.refresh(cluster.as_cluster())


async def test_what_came_and_went_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    discovery, cluster = Discovery(), cluster_with(kinds.CERTIFICATE)
    await discovery.refresh(cluster.as_cluster())
    cluster.served = {kinds.POD_MONITOR}
    assert await discovery.refresh(cluster.as_cluster())
    await discovery.refresh(cluster.as_cluster())
    told = [record.getMessage() for record in caplog.records]
    assert told == [
        "Certificate (cert-manager.io/v1) is served",
        "Certificate (cert-manager.io/v1) is gone",
        "PodMonitor (monitoring.coreos.com/v1) is served",
    ]


@pytest.mark.parametrize("error", [errors.Transient("no answer"), errors.Waiting("forbidden")])
async def test_no_answer_is_no_news(error: errors.OperatorError, caplog: pytest.LogCaptureFixture) -> None:
    """A child that is there must not be taken for one that cannot be."""
    discovery, cluster = Discovery(served=BOTH), cluster_with()
    cluster.failures["discover", "Certificate"] = error
    await discovery.refresh(cluster.as_cluster())
    assert discovery.served == {kinds.CERTIFICATE}
    assert str(error) in caplog.text


def test_it_asks_when_that_is_requested_and_tells_what_changed() -> None:
    async def main() -> None:
        discovery, cluster, told = Discovery(), cluster_with(), list[frozenset[kinds.Kind]]()
        runner = asyncio.create_task(discovery.run(cluster.as_cluster(), lambda: told.append(discovery.served)))
        await asyncio.sleep(5)
        discovery.request()
        await asyncio.sleep(5)
        assert told == [], "asked, and nothing new"
        cluster.served = set(BOTH)
        await asyncio.sleep(5)
        assert told == [], "nobody asked"
        discovery.request()
        discovery.request()
        await asyncio.sleep(5)
        assert told == [BOTH]
        runner.cancel()
        await asyncio.gather(runner, return_exceptions=True)

    virtual_time.run(main())


class TestScans:
    """kopf looks which kinds there are when a CRD changes, and never again: too early a look would be its last."""

    def test_the_first_waits_for_nothing(self) -> None:
        async def main() -> None:
            await Discovery().on_scan()
            assert virtual_time.now() < SETTLE_SECONDS / 2

        virtual_time.run(main())

    def test_later_ones_wait_until_the_change_is_everywhere_and_are_news(self) -> None:
        async def main() -> None:
            discovery, cluster, told = Discovery(), cluster_with(), list[float]()
            await discovery.on_scan()
            runner = asyncio.create_task(
                discovery.run(cluster.as_cluster(), lambda: told.append(round(virtual_time.now(), 3)))
            )
            cluster.served = set(BOTH)
            await discovery.on_scan()
            await asyncio.sleep(10)
            assert told == [SETTLE_SECONDS]
            runner.cancel()
            await asyncio.gather(runner, return_exceptions=True)

        virtual_time.run(main())
