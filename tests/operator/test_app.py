"""The wiring without its watches: events in, wakes and lists out; filling, resync and the probe."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client import REGISTRY

from gptservice_operator import app as app_module
from gptservice_operator import errors, health, metrics, names, passes, render
from gptservice_operator.api import kinds
from gptservice_operator.api.kinds import Kind
from gptservice_operator.app import App, build_app
from gptservice_operator.cluster import Page
from gptservice_operator.journal import Journal
from gptservice_operator.listing import AGAIN_SECONDS
from gptservice_operator.queue import Queue
from gptservice_operator.scope import Collection
from gptservice_operator.store import Store
from gptservice_operator.watches import build_settings
from tests.operator import builders, virtual_time
from tests.operator.builders import NAMESPACE, Body
from tests.operator.fake_cluster import FakeCluster

CHAT = (NAMESPACE, "chat")
OTHER = (NAMESPACE, "other")


@dataclass
class Wake:
    key: tuple[str, str]
    urgent: bool


class Wakes(list[Wake]):
    """Stands for the queue's entry: records who was woken."""

    def wake(self, key: tuple[str, str], *, urgent: bool = False, after: float = 0.0) -> None:
        self.append(Wake(key, urgent))


@dataclass
class Started:
    """An app that is filled and whose queue only records."""

    app: App
    wakes: Wakes

    def event(self, body: Body, kind: str | None = "MODIFIED") -> list[Wake]:
        """Give the app a watch event and return whom it wakes."""
        self.wakes.clear()
        self.app.on_event(builders.KINDS[body["kind"]], {"type": kind, "object": body})
        return list(self.wakes)


@pytest.fixture
def started() -> Started:
    app = build_app(builders.config(), FakeCluster().as_cluster())
    app.working = True
    wakes = Wakes()
    app.queue = wakes  # type: ignore[assignment]
    return Started(app, wakes)


def service(name: str = "chat", *, version: int, generation: int = 1, observed: int | None = None, **spec: Any) -> Body:
    body = builders.service(name, {"model": "pvc://m/x", **spec}, resourceVersion=str(version), generation=generation)
    return body if observed is None else {**body, "status": {"observedGeneration": observed}}


def child(owner: str = "chat", *, version: int) -> Body:
    reference = names.owner_reference(owner, builders.uid_of("GPTService", owner))
    metadata = {
        "name": "web",
        "namespace": NAMESPACE,
        "uid": "u",
        "resourceVersion": str(version),
        "labels": names.labels(owner),
        "ownerReferences": [reference],
    }
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata}


class TestEvents:
    @pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", None])
    def test_a_new_service_is_urgent(self, started: Started, kind: str | None) -> None:
        assert started.event(service(version=1), kind) == [Wake(CHAT, urgent=True)]

    def test_an_edit_is_urgent(self, started: Started) -> None:
        started.event(service(version=1, generation=1, observed=1))
        assert started.event(service(version=2, generation=2, observed=1)) == [Wake(CHAT, urgent=True)]

    def test_our_own_status_write_is_not(self, started: Started) -> None:
        started.event(service(version=1))
        assert started.event(service(version=2, observed=1)) == [Wake(CHAT, urgent=False)]

    def test_what_is_no_news_wakes_nobody(self, started: Started) -> None:
        started.event(service(version=5))
        assert started.event(service(version=5)) == []
        assert started.event(service(version=4)) == []

    def test_a_child_wakes_its_service_without_hurry(self, started: Started) -> None:
        assert started.event(child(version=1), "ADDED") == [Wake(CHAT, urgent=False)]
        assert started.event(child(version=2), "DELETED") == [Wake(CHAT, urgent=False)]
        assert started.app.store.count(kinds.DEPLOYMENT) == 0

    def test_a_pod_wakes_its_service(self, started: Started) -> None:
        assert started.event(builders.pod()) == [Wake(CHAT, urgent=False)]

    def test_a_child_that_changes_hands_wakes_both(self, started: Started) -> None:
        started.event(child("chat", version=1))
        woken = started.event(child("other", version=2))
        assert sorted(wake.key for wake in woken) == [CHAT, OTHER]

    def test_a_catalogue_entry_wakes_those_that_name_it(self, started: Started) -> None:
        started.event(service("chat", version=1, model="gpt-4"))
        started.event(service("other", version=2, model="gpt-5"))
        started.event(service("third", version=3, model=None, modelRef="gpt-4"))
        woken = started.event(builders.gpt_model("gpt-4"), "ADDED")
        assert sorted(wake.key for wake in woken) == [CHAT, (NAMESPACE, "third")]
        assert not any(wake.urgent for wake in woken)

    def test_a_deleted_service_wakes_its_last_pass(self, started: Started) -> None:
        started.event(service(version=1))
        assert [wake.key for wake in started.event(service(version=2), "DELETED")] == [CHAT]
        assert started.app.store.service(CHAT) is None

    def test_nobody_is_woken_before_the_store_is_filled(self, started: Started) -> None:
        started.app.working = False
        assert started.event(service(version=1)) == []
        assert started.app.store.service(CHAT) is not None

    def test_an_object_that_concerns_nobody_is_no_error(self, started: Started) -> None:
        body = child(version=1)
        body["metadata"] |= {"labels": {}, "ownerReferences": []}
        assert started.event(body) == []


class Lists(FakeCluster):
    """A cluster that counts lists."""

    def __init__(self) -> None:
        super().__init__()
        self.listed: list[tuple[float, str]] = []
        self.closed: set[str] = set()

    async def list(
        self, kind: Kind, label_selector: str | None = None, namespace: str | None = None
    ) -> AsyncIterator[Page]:
        self.listed.append((round(virtual_time.now(), 3), kind.name))
        if namespace in self.closed:
            raise errors.Forbidden(f"list {kind.name}: forbidden in {namespace}")
        async for page in super().list(kind, label_selector, namespace):
            yield page


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Lists:
    """A cluster with one service; the app's clock is the virtual one."""
    for module in (app_module, passes):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=virtual_time.now))
    cluster = Lists()
    cluster.add(builders.service())
    return cluster


def run_for(cluster: Lists, seconds: float, **settings: Any) -> App:
    """Run an operator whose watches have just begun, and then for a while."""

    async def main() -> App:
        app = build_app(builders.config(**settings), cluster.as_cluster())
        for kind in kinds.WATCHED:
            app.listing.request(kind)
        runner = asyncio.create_task(app.run(0.0))
        await asyncio.sleep(seconds)
        assert not runner.done()
        runner.cancel()
        await asyncio.gather(runner, return_exceptions=True)
        return app

    return virtual_time.run(main())


class TestRunning:
    def test_it_fills_the_store_and_then_looks_at_every_service(self, cluster: Lists) -> None:
        cluster.add(builders.service("other"))
        run_for(cluster, 5)
        assert len(cluster.listed) == len(kinds.WATCHED)
        assert {write.name for write in cluster.writes if write.kind == "Deployment"} == {"chat", "other"}

    def test_no_pass_begins_before_every_kind_was_read(self, cluster: Lists) -> None:
        """A child that is not known yet would be looked up one by one, 6,000 times."""

        async def main() -> None:
            app = build_app(builders.config(), cluster.as_cluster())
            for kind in kinds.WATCHED[:-1]:
                app.listing.request(kind)
            runner = asyncio.create_task(app.run(0.0))
            await asyncio.sleep(5)
            app.on_event(kinds.GPT_SERVICE, {"type": "MODIFIED", "object": service(version=900, generation=2)})
            await asyncio.sleep(5)
            assert not app.filled
            assert cluster.writes == []
            app.listing.request(kinds.WATCHED[-1])
            await asyncio.sleep(5)
            assert cluster.writes
            runner.cancel()
            await asyncio.gather(runner, return_exceptions=True)

        virtual_time.run(main())

    def test_it_does_not_wait_for_watches_of_kinds_that_the_cluster_lacks(self, cluster: Lists) -> None:
        async def main() -> None:
            app = build_app(builders.config(), cluster.as_cluster())
            runner = asyncio.create_task(app.run(0.0))
            for kind in kinds.WATCHED:
                if kind not in kinds.OPTIONAL:
                    app.on_listed(Collection(kind))
            await asyncio.sleep(5)
            assert app.filled
            runner.cancel()
            await asyncio.gather(runner, return_exceptions=True)

        virtual_time.run(main())
        assert "Deployment" in cluster.written()

    def test_when_the_services_are_listed_anew_what_has_failed_is_tried_again(
        self, cluster: Lists, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def main() -> None:
            app = build_app(builders.config(), cluster.as_cluster())
            tried: list[Queue] = []

            def try_again(queue: Queue) -> None:
                tried.append(queue)

            monkeypatch.setattr(Queue, "try_again", try_again)
            app.on_listed(Collection(kinds.DEPLOYMENT))
            assert tried == []
            app.on_listed(Collection(kinds.GPT_SERVICE))
            assert tried == [app.queue]

        virtual_time.run(main())

    def test_a_kind_that_comes_later_is_noticed_when_its_watch_begins(self, cluster: Lists) -> None:
        async def main() -> None:
            app = build_app(builders.config(), cluster.as_cluster())
            runner = asyncio.create_task(app.run(0.0))
            for kind in kinds.WATCHED:
                app.listing.request(kind)
            await asyncio.sleep(5)
            assert "PodMonitor" not in cluster.written()
            cluster.served = {kinds.POD_MONITOR}
            await asyncio.sleep(5)
            app.on_listed(Collection(kinds.POD_MONITOR))
            await asyncio.sleep(5)
            assert cluster.written() == ["PodMonitor"]
            runner.cancel()
            await asyncio.gather(runner, return_exceptions=True)

        virtual_time.run(main())

    @pytest.mark.parametrize("comes", [True, False], ids=["comes", "goes"])
    def test_a_resync_asks_which_kinds_there_are(self, cluster: Lists, comes: bool) -> None:
        both = set(kinds.OPTIONAL)

        async def main() -> None:
            cluster.served = set() if comes else both
            app = build_app(builders.config(resync_seconds=600.0), cluster.as_cluster())
            runner = asyncio.create_task(app.run(0.0))
            for kind in kinds.WATCHED:
                app.listing.request(kind)
            await asyncio.sleep(5)
            cluster.served = both if comes else set()
            await asyncio.sleep(700)
            assert app.discovery.served == cluster.served
            runner.cancel()
            await asyncio.gather(runner, return_exceptions=True)

        virtual_time.run(main())
        assert "PodMonitor" in cluster.written()

    def test_everything_is_read_again_at_each_resync_with_jitter(self, cluster: Lists) -> None:
        run_for(cluster, 3500, resync_seconds=600.0)
        times = sorted({at for at, kind in cluster.listed if kind == "Pod"})
        assert 5 <= len(times) - 1 <= 6
        periods = [later - earlier for earlier, later in pairwise(times)]
        assert all(540 <= period <= 660 for period in periods)
        assert len({round(period) for period in periods}) > 1

    def test_a_resync_of_what_is_as_it_should_be_writes_nothing(self, cluster: Lists) -> None:
        manifests = render.render(builders.resolved())
        run_for(cluster, 10_000, resync_seconds=600.0)
        assert sorted(cluster.written()) == sorted([*(m["kind"] for m in manifests), "GPTService/status"])

    def test_a_resync_finds_what_no_watch_told(self, cluster: Lists) -> None:
        async def main() -> None:
            app = build_app(builders.config(resync_seconds=600.0), cluster.as_cluster())
            for kind in kinds.WATCHED:
                app.listing.request(kind)
            runner = asyncio.create_task(app.run(0.0))
            await asyncio.sleep(10)
            cluster.written()
            cluster.remove("Deployment", "chat")
            await asyncio.sleep(700)
            assert "Deployment" in cluster.written()
            runner.cancel()
            await asyncio.gather(runner, return_exceptions=True)

        virtual_time.run(main())

    def test_a_fault_in_a_pass_is_logged_with_its_traceback_and_backs_off(
        self, cluster: Lists, caplog: pytest.LogCaptureFixture
    ) -> None:
        cluster.failures["apply", "Deployment"] = ZeroDivisionError("a bug")  # type: ignore[assignment]
        run_for(cluster, 60)
        faults = [record for record in caplog.records if "a fault of the operator itself" in record.getMessage()]
        assert faults
        assert faults[0].exc_info is not None
        assert len(faults) < 20

    def test_a_service_that_is_gone_is_forgotten(self, cluster: Lists) -> None:
        """Made again under its name, it does not wait for what the former one did wrong."""
        cluster.failures["apply", "Deployment"] = RuntimeError("no luck")  # type: ignore[assignment]

        async def main() -> None:
            app = build_app(builders.config(), cluster.as_cluster())
            for kind in kinds.WATCHED:
                app.listing.request(kind)
            runner = asyncio.create_task(app.run(0.0))
            await asyncio.sleep(300)
            gone = cluster.objects["GPTService", NAMESPACE, "chat"]
            cluster.remove("GPTService", "chat")
            deleted = {**gone, "metadata": {**gone["metadata"], "resourceVersion": str(cluster.version)}}
            app.on_event(kinds.GPT_SERVICE, {"type": "DELETED", "object": deleted})
            await asyncio.sleep(300)
            cluster.failures.clear()
            cluster.written()
            again = cluster.add(builders.service(uid="another"))
            app.on_event(kinds.GPT_SERVICE, {"type": "ADDED", "object": again})
            await asyncio.sleep(0.1)
            assert "GPTService/status" in cluster.written()
            runner.cancel()
            await asyncio.gather(runner, return_exceptions=True)

        virtual_time.run(main())


class TestARefusedNamespace:
    """In some namespaces alone; team-b's Role is gone."""

    @staticmethod
    def run(cluster: Lists, script: Callable[[App], Awaitable[None]]) -> None:
        cluster.add(builders.service(namespace="team-b"))

        async def main() -> None:
            app = build_app(builders.config(namespaces=(NAMESPACE, "team-b")), cluster.as_cluster())
            for kind in kinds.WATCHED:
                app.listing.request(kind)
            runner = asyncio.create_task(app.run(0.0))
            await asyncio.sleep(5)
            await script(app)
            runner.cancel()
            await asyncio.gather(runner, return_exceptions=True)

        virtual_time.run(main())

    @staticmethod
    def looked_at(cluster: Lists) -> set[str]:
        """Return the namespaces of the Deployments that were applied since this was last asked."""
        bodies = [write.body for write in cluster.writes if write.kind == "Deployment"]
        cluster.writes.clear()
        return {body["metadata"]["namespace"] for body in bodies}

    def test_the_others_services_are_looked_at_and_its_own_once_it_is_back(self, cluster: Lists) -> None:
        cluster.closed.add("team-b")

        async def script(app: App) -> None:
            assert self.looked_at(cluster) == {NAMESPACE}
            assert app.not_ready() == ""
            assert set(app.debug.overview()["refused"]) == {"team-b"}
            assert REGISTRY.get_sample_value("gptservice_operator_refused_namespaces") == 1
            cluster.closed.clear()
            await asyncio.sleep(AGAIN_SECONDS + 1)
            assert self.looked_at(cluster) == {"team-b"}
            assert app.debug.overview()["refused"] == {}
            assert REGISTRY.get_sample_value("gptservice_operator_refused_namespaces") == 0

        self.run(cluster, script)

    def test_no_pass_runs_in_it_whoever_asks(self, cluster: Lists) -> None:
        cluster.closed.add("team-b")

        async def script(app: App) -> None:
            event = {"type": "ADDED", "object": cluster.add(builders.service(namespace="team-b"))}
            app.on_event(kinds.GPT_SERVICE, event)
            await asyncio.sleep(5)
            assert "team-b" not in self.looked_at(cluster)
            assert app.queue.length() == 0

        self.run(cluster, script)

    def test_that_its_watches_are_refused_starts_nothing_again(self, cluster: Lists) -> None:
        """It would be refused in the next process as well. Once it is back, its watches have their time to begin."""

        async def script(app: App) -> None:
            late = 2 * health.DEAF_SECONDS
            (here, there) = (Collection(kinds.POD, name) for name in (NAMESPACE, "team-b"))
            app.asked |= {there: app.asked[there] - late}
            assert len(app.problems()) == 1, "a watch that is not even refused"
            app.listing.refuse_watch(there)
            assert app.problems() == []
            app.on_asked(there)
            app.listing.allow_watch(there)
            app.asked |= {Collection(kinds.SERVICE, "team-b"): -late}
            await asyncio.sleep(1)
            assert app.access.refused() == {}
            assert app.problems() == []
            app.asked |= {here: app.asked[here] - late}
            assert len(app.problems()) == 1

        self.run(cluster, script)

    def test_that_it_is_asked_for_in_vain_ends_nobody_s_back_off(
        self, cluster: Lists, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        cluster.closed.add("team-b")

        async def script(app: App) -> None:
            tried: list[Queue] = []

            def try_again(queue: Queue) -> None:
                tried.append(queue)

            monkeypatch.setattr(Queue, "try_again", try_again)
            app.on_listed(Collection(kinds.GPT_SERVICE, "team-b"))
            assert tried == []
            app.on_listed(Collection(kinds.GPT_SERVICE, NAMESPACE))
            assert tried == [app.queue]

        self.run(cluster, script)

    def test_where_all_are_refused_it_is_not_ready(self, cluster: Lists) -> None:
        async def script(app: App) -> None:
            assert app.not_ready() == ""
            cluster.closed |= {NAMESPACE, "team-b"}
            for kind in kinds.WATCHED:
                app.listing.request(kind)
            await asyncio.sleep(1)
            assert "may be read" in app.not_ready()

        self.run(cluster, script)


class TestCounting:
    @staticmethod
    def passes(outcome: str) -> float:
        return REGISTRY.get_sample_value("gptservice_operator_passes_total", {"outcome": outcome}) or 0.0

    @pytest.mark.parametrize(
        ("failure", "outcome"),
        [
            pytest.param(None, "ok", id="a good pass"),
            pytest.param(errors.Transient("no answer"), "transient", id="a transient failure"),
            pytest.param(errors.Waiting("quota"), "waiting", id="something is missing"),
            pytest.param(errors.Invalid("refused"), "invalid", id="something is refused"),
            pytest.param(ZeroDivisionError("a bug"), "error", id="a fault of our own"),
        ],
    )
    def test_passes_are_counted_by_what_they_came_to(
        self, cluster: Lists, failure: errors.OperatorError | None, outcome: str
    ) -> None:
        if failure is not None:
            cluster.failures["apply", "Deployment"] = failure
        before = self.passes(outcome)
        run_for(cluster, 0.1)
        assert self.passes(outcome) == before + 1

    def test_what_is_stored_is_counted_by_kind(self, cluster: Lists) -> None:
        cluster.add(builders.service("other"))
        run_for(cluster, 5)
        counted = REGISTRY.get_sample_value("gptservice_operator_store_objects", {"kind": "GPTService"})
        assert counted == 2

    def test_one_that_needs_no_lease_counts_as_the_one_that_writes(self, cluster: Lists) -> None:
        """Else the alert that nobody leads would never end where replicas do not elect."""
        metrics.LEADER.set(0)
        app = run_for(cluster, 0.1)
        assert app.election is None
        assert REGISTRY.get_sample_value("gptservice_operator_leader") == 1


class TestSettings:
    def test_kopf_posts_nothing_and_strips_no_finalizer_of_others(self) -> None:
        settings = build_settings(builders.config())
        assert settings.posting.enabled is False
        assert settings.persistence.finalizer == names.FINALIZER != "kopf.zalando.org/KopfFinalizerMarker"

    def test_an_outage_of_any_length_ends_no_watch(self) -> None:
        """kopf gives up after a minute, for good, and the process would have to be started again."""
        backoffs = build_settings(builders.config()).networking.error_backoffs
        for _ in range(2):  # each request begins anew
            waits = list(itertools.islice(cast("Iterable[float]", backoffs), 1000))
            assert len(waits) == 1000
            assert waits[0] <= 1
            assert max(waits) == waits[-1] == 5

    def test_requests_end_in_time(self) -> None:
        settings = build_settings(builders.config(request_timeout_seconds=5.0))
        assert settings.networking.request_timeout == 5
        assert settings.networking.connect_timeout == 5


@pytest.mark.parametrize("may_look", [True, False])
async def test_a_service_that_is_gone_or_out_of_reach_is_forgotten(may_look: bool) -> None:
    """It would be counted as down for ever: its pass may be the only one to see that it is gone."""
    forgotten: list[tuple[str, str]] = []

    async def reconcile(_: tuple[str, str]) -> None:
        return None

    reconciler = cast(Any, SimpleNamespace(reconcile=reconcile, forget=forgotten.append))
    queue = passes.build_queue(builders.config(), reconciler, Store(), Journal(), lambda _: may_look)
    await queue.run_pass(CHAT)
    assert forgotten == [CHAT]
