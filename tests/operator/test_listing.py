"""Whole kinds are read when that is asked for, and what a list shows or lacks wakes whom it concerns."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from gptservice_operator import errors, extract, names
from gptservice_operator.access import Access
from gptservice_operator.api import kinds
from gptservice_operator.api.kinds import Kind
from gptservice_operator.cluster import Page
from gptservice_operator.listing import AGAIN_SECONDS, RETRY_SECONDS, WARN_AFTER_SECONDS, Listing
from gptservice_operator.scope import Collection, Scope
from gptservice_operator.store import Store
from tests.operator import builders, virtual_time
from tests.operator.builders import Body
from tests.operator.fake_cluster import FakeCluster


@dataclass
class Lists(FakeCluster):
    """A cluster whose lists take a while and are counted."""

    seconds: float = 0.0
    asked: list[tuple[str, str | None]] = field(default_factory=list[tuple[str, str | None]])
    between_pages: Callable[[], None] = lambda: None
    closed: set[str] = field(default_factory=set[str])
    """Namespaces in which nothing may be listed."""

    async def list(
        self, kind: Kind, label_selector: str | None = None, namespace: str | None = None
    ) -> AsyncIterator[Page]:
        self.asked.append((kind.name, label_selector))
        if namespace in self.closed:
            raise errors.Forbidden(f'list {kind.name}: forbidden: User "u" cannot list in the namespace "{namespace}"')
        async for page in super().list(kind, label_selector, namespace):
            await asyncio.sleep(self.seconds)
            yield page
            self.between_pages()

    def count(self, kind: Kind) -> int:
        return sum(name == kind.name for name, _ in self.asked)


@dataclass
class World:
    cluster: Lists = field(default_factory=Lists)
    store: Store = field(default_factory=Store)
    changes: list[extract.EntryKey] = field(default_factory=list[extract.EntryKey])
    access: Access = field(default_factory=Access)
    opened: list[str] = field(default_factory=list[str])

    def listing(self) -> Listing:
        cluster = self.cluster.as_cluster()
        return Listing(self.store, cluster, lambda _, entry: self.changes.append(entry.key), self.access)

    def read(self, script: Callable[[Listing], Awaitable[Any]]) -> None:
        """Run the listing in virtual time beside a script."""

        async def main() -> None:
            listing = self.listing()
            runner = asyncio.create_task(listing.run())
            try:
                await script(listing)
            finally:
                runner.cancel()
                await asyncio.gather(runner, return_exceptions=True)

        virtual_time.run(main())


def child(name: str) -> Body:
    metadata = {"name": name, "namespace": builders.NAMESPACE, "uid": name, "labels": names.labels("chat")}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {}}


def key(name: str) -> extract.EntryKey:
    return ("ConfigMap", builders.NAMESPACE, name)


async def soon() -> None:
    await asyncio.sleep(1)


async def never_filled(listing: Listing) -> None:
    """Ask for everything, and see that no pass may begin however long it takes."""
    request_all(listing)
    filled = asyncio.create_task(listing.filled())
    await asyncio.sleep(10 * AGAIN_SECONDS)
    assert not filled.done()
    filled.cancel()


def request_all(listing: Listing) -> None:
    for kind in kinds.WATCHED:
        listing.request(kind)


class TestReading:
    def test_nothing_is_read_before_it_is_asked_for(self) -> None:
        world = World()

        async def script(_: Listing) -> None:
            await asyncio.sleep(1000)

        world.read(script)
        assert world.cluster.asked == []

    def test_children_and_pods_are_listed_by_our_label_and_our_own_kinds_in_full(self) -> None:
        world = World()

        async def script(listing: Listing) -> None:
            for kind in kinds.WATCHED:
                listing.request(kind)
            await listing.filled()

        world.read(script)
        assert sorted(world.cluster.asked, key=str) == sorted(
            [
                ("GPTService", None),
                ("GPTModel", None),
                *((kind.name, names.WATCH_SELECTOR) for kind in (*kinds.CHILDREN, kinds.POD)),
            ],
            key=str,
        )

    def test_what_is_new_enters_and_is_told(self) -> None:
        world = World()
        for name in ("a", "b", "c"):
            world.cluster.add(child(name))

        async def script(listing: Listing) -> None:
            listing.request(kinds.CONFIG_MAP)
            await soon()

        world.read(script)
        assert world.changes == [key("a"), key("b"), key("c")]
        assert world.store.count(kinds.CONFIG_MAP) == 3

    def test_what_is_known_is_not_told_again(self) -> None:
        world = World()
        world.cluster.add(child("a"))
        world.cluster.fill(world.store)

        async def script(listing: Listing) -> None:
            listing.request(kinds.CONFIG_MAP)
            await soon()

        world.read(script)
        assert world.changes == []

    def test_what_is_gone_leaves_and_is_told(self) -> None:
        world = World()
        world.store.put(builders.entry(world.cluster.add(child("gone"))))
        world.cluster.remove("ConfigMap", "gone")

        async def script(listing: Listing) -> None:
            listing.request(kinds.CONFIG_MAP)
            await soon()

        world.read(script)
        assert world.changes == [key("gone")]
        assert world.store.count(kinds.CONFIG_MAP) == 0

    def test_what_a_watch_brings_while_the_list_is_read_stays(self) -> None:
        world = World()
        world.cluster.add(child("a"))
        new = child("new")
        new["metadata"]["resourceVersion"] = "500"

        def tell() -> None:
            world.store.put(builders.entry(new))

        world.cluster.between_pages = tell

        async def script(listing: Listing) -> None:
            listing.request(kinds.CONFIG_MAP)
            await soon()

        world.read(script)
        assert world.store.count(kinds.CONFIG_MAP) == 2

    def test_one_kind_does_not_wait_for_another(self) -> None:
        world = World()
        world.cluster.failures["list", "Pod"] = errors.Transient("no answer")

        async def script(listing: Listing) -> None:
            listing.request(kinds.POD)
            listing.request(kinds.CONFIG_MAP)
            await soon()
            assert world.cluster.count(kinds.CONFIG_MAP) == 1

        world.read(script)


class TestRequests:
    def test_those_before_the_reading_begins_are_one(self) -> None:
        world = World()

        async def script(listing: Listing) -> None:
            for _ in range(5):
                listing.request(kinds.POD)
            await soon()

        world.read(script)
        assert world.cluster.count(kinds.POD) == 1

    def test_those_while_it_is_read_are_one_more(self) -> None:
        """The list may have been taken before what the request is about."""
        world = World(Lists(seconds=10))

        async def script(listing: Listing) -> None:
            listing.request(kinds.POD)
            for _ in range(5):
                await asyncio.sleep(1)
                listing.request(kinds.POD)
            await asyncio.sleep(1000)

        world.read(script)
        assert world.cluster.count(kinds.POD) == 2

    def test_one_before_the_listing_runs_is_kept(self) -> None:
        world = World()

        async def main() -> None:
            listing = world.listing()
            listing.request(kinds.POD)
            runner = asyncio.create_task(listing.run())
            await soon()
            runner.cancel()
            await asyncio.gather(runner, return_exceptions=True)

        virtual_time.run(main())
        assert world.cluster.count(kinds.POD) == 1


class TestFailures:
    @pytest.mark.parametrize(
        "error",
        [
            pytest.param(errors.Transient("410: the view expired"), id="an expired view"),
            pytest.param(errors.Absent("404: no such kind"), id="a kind whose CRD is not there yet"),
            pytest.param(errors.Waiting("403: forbidden"), id="a missing grant"),
        ],
    )
    def test_a_list_that_fails_is_begun_again(
        self, error: errors.OperatorError, caplog: pytest.LogCaptureFixture
    ) -> None:
        world = World()
        world.cluster.add(child("a"))
        world.cluster.failures["list", "ConfigMap"] = error

        async def script(listing: Listing) -> None:
            listing.request(kinds.CONFIG_MAP)
            await asyncio.sleep(2.5 * RETRY_SECONDS)
            assert world.cluster.count(kinds.CONFIG_MAP) == 3
            world.cluster.failures.clear()
            await asyncio.sleep(RETRY_SECONDS)

        world.read(script)
        assert world.cluster.count(kinds.CONFIG_MAP) == 4
        assert world.store.count(kinds.CONFIG_MAP) == 1
        assert f"listing ConfigMap: {error}" in caplog.text

    def test_a_list_that_fails_half_way_drops_nothing(self) -> None:
        world = World()
        for name in ("a", "b"):
            world.cluster.add(child(name))
        world.cluster.fill(world.store)
        pages = 0

        def fail_after_the_first_page() -> None:
            nonlocal pages
            pages += 1
            if pages == 1:
                raise errors.Transient("410: the view expired")

        world.cluster.between_pages = fail_after_the_first_page

        async def script(listing: Listing) -> None:
            listing.request(kinds.CONFIG_MAP)
            await asyncio.sleep(RETRY_SECONDS / 2)
            assert world.store.count(kinds.CONFIG_MAP) == 2
            await asyncio.sleep(RETRY_SECONDS)

        world.read(script)
        assert world.changes == []


class TestOptionalKinds:
    """The cluster may lack them: then a list is answered 404."""

    def test_one_that_is_not_there_has_no_object_and_is_not_waited_for(self, caplog: pytest.LogCaptureFixture) -> None:
        world = World()

        async def script(listing: Listing) -> None:
            for kind in kinds.WATCHED:
                listing.request(kind)
            await listing.filled()
            await asyncio.sleep(10 * RETRY_SECONDS)

        world.read(script)
        assert [world.cluster.count(kind) for kind in kinds.OPTIONAL] == [1, 1], "not asked for again and again"
        assert "trying again" not in caplog.text

    def test_one_that_went_takes_its_objects_along(self) -> None:
        world = World()
        world.cluster.served = set(kinds.OPTIONAL)
        body = {**child("chat"), "apiVersion": kinds.CERTIFICATE.api_version, "kind": "Certificate"}
        world.cluster.add(body)
        world.cluster.fill(world.store)
        world.cluster.served = set()

        async def script(listing: Listing) -> None:
            listing.request(kinds.CERTIFICATE)
            await soon()

        world.read(script)
        assert world.store.count(kinds.CERTIFICATE) == 0
        assert world.changes == [("Certificate", builders.NAMESPACE, "chat")]

    def test_one_that_may_not_be_listed_is_another_matter(self, caplog: pytest.LogCaptureFixture) -> None:
        world = World()
        world.cluster.served = set(kinds.OPTIONAL)
        world.cluster.failures["list", "Certificate"] = errors.Waiting("forbidden")

        async def script(listing: Listing) -> None:
            listing.request(kinds.CERTIFICATE)
            await asyncio.sleep(1.5 * RETRY_SECONDS)

        world.read(script)
        assert world.cluster.count(kinds.CERTIFICATE) == 2
        assert "listing Certificate: forbidden" in caplog.text

    def test_every_other_kind_is_waited_for(self) -> None:
        world = World()
        world.cluster.failures["list", "GPTService"] = errors.Absent("list GPTService: not found")

        async def script(listing: Listing) -> None:
            filled = asyncio.create_task(listing.filled())
            for kind in kinds.WATCHED:
                listing.request(kind)
            await asyncio.sleep(10 * RETRY_SECONDS)
            assert not filled.done()
            world.cluster.failures.clear()
            await filled

        world.read(script)


class TestFilled:
    def test_it_waits_for_every_kind(self) -> None:
        world = World(Lists(seconds=1))

        async def script(listing: Listing) -> None:
            filled = asyncio.create_task(listing.filled())
            for kind in kinds.WATCHED[:-1]:
                listing.request(kind)
            await asyncio.sleep(5)
            assert not filled.done()
            listing.request(kinds.WATCHED[-1])
            await filled

        world.read(script)

    def test_while_that_takes_long_it_says_what_is_missing(self, caplog: pytest.LogCaptureFixture) -> None:
        world = World()

        async def script(listing: Listing) -> None:
            filled = asyncio.create_task(listing.filled())
            for kind in kinds.WATCHED:
                if kind is not kinds.GPT_MODEL:
                    listing.request(kind)
            await asyncio.sleep(2.5 * WARN_AFTER_SECONDS)
            listing.request(kinds.GPT_MODEL)
            await filled

        world.read(script)
        said = [record.getMessage() for record in caplog.records if "still waiting" in record.getMessage()]
        assert len(said) == 2
        assert "gptmodels" in said[0]
        assert "kubectl apply -f crds/" in said[0]


def test_in_some_namespaces_alone_nothing_else_is_listed() -> None:
    world = World(access=Access(Scope(("team-a", "team-c"), catalogue=False)))
    for namespace in ("team-a", "team-b", "team-c"):
        world.cluster.add(builders.service(namespace=namespace))
    world.cluster.add(builders.gpt_model("gpt-4"))

    async def script(listing: Listing) -> None:
        request_all(listing)
        await listing.filled()

    world.read(script)
    assert sorted(namespace for namespace, _ in world.store.services()) == ["team-a", "team-c"]
    assert world.cluster.count(kinds.GPT_MODEL) == 0


def test_a_catalogue_lies_in_no_namespace() -> None:
    paths = Scope(("team-a", "team-b")).paths()
    assert paths["/apis/ai.example.com/v1/gptmodels"] == Collection(kinds.GPT_MODEL)
    pods = [path for path, one in paths.items() if one.kind is kinds.POD]
    assert pods == ["/api/v1/namespaces/team-a/pods", "/api/v1/namespaces/team-b/pods"]


class TestARefusedNamespace:
    """Somebody took the Role away, or the namespace with it: the others go on."""

    @staticmethod
    def world(*closed: str, namespaces: tuple[str, ...] = ("team-a", "team-b")) -> World:
        opened: list[str] = []
        world = World(Lists(closed=set(closed)), access=Access(Scope(namespaces), opened.append))
        world.opened = opened
        for namespace in namespaces:
            world.cluster.add(builders.service(namespace=namespace))
        return world

    def test_the_others_are_filled_and_it_is_left_out(self, caplog: pytest.LogCaptureFixture) -> None:
        world = self.world("team-b")

        async def script(listing: Listing) -> None:
            request_all(listing)
            await listing.filled()
            await soon()

        world.read(script)
        assert (world.access.may_look("team-a"), world.access.may_look("team-b")) == (True, False)
        assert world.store.services() == [("team-a", "chat")]
        assert 'User "u" cannot list' in world.access.refused()["team-b"][0]
        said = [record.getMessage() for record in caplog.records if "left out" in record.getMessage()]
        assert len(said) == 1, "once, and not for each of its lists"
        assert said[0].startswith("namespace team-b is left out")
        assert "helm upgrade" in said[0]

    def test_one_list_that_is_refused_is_enough(self) -> None:
        """Without its pods, everything in a namespace would look as if nothing served."""
        world = self.world("team-b")

        async def script(listing: Listing) -> None:
            request_all(listing)
            await listing.filled()
            await soon()
            world.cluster.closed.clear()
            for kind in kinds.WATCHED:
                if kind is not kinds.POD:
                    listing.request_one(Collection(kind, "team-b"))
            await soon()
            assert not world.access.may_look("team-b")
            listing.request_one(Collection(kinds.POD, "team-b"))
            await soon()
            assert world.access.may_look("team-b")

        world.read(script)
        assert world.opened == ["team-a", "team-b"]

    def test_it_is_tried_again_by_itself_and_comes_back(self) -> None:
        world = self.world("team-b")

        async def script(listing: Listing) -> None:
            request_all(listing)
            await listing.filled()
            world.cluster.closed.clear()
            await asyncio.sleep(AGAIN_SECONDS + 1)

        world.read(script)
        assert world.access.refused() == {}
        assert sorted(world.store.services()) == [("team-a", "chat"), ("team-b", "chat")]

    def test_one_that_is_refused_later_is_forgotten_and_comes_back(self) -> None:
        world = self.world()

        async def script(listing: Listing) -> None:
            request_all(listing)
            await listing.filled()
            world.cluster.closed.add("team-b")
            request_all(listing)
            await soon()
            assert not world.access.may_look("team-b")
            assert world.store.services() == [("team-a", "chat")]
            world.cluster.closed.clear()
            await asyncio.sleep(AGAIN_SECONDS + 1)

        world.read(script)
        assert world.opened == ["team-a", "team-b", "team-b"]
        assert sorted(world.store.services()) == [("team-a", "chat"), ("team-b", "chat")]

    @pytest.mark.parametrize("namespaces", [("team-a",), ("team-a", "team-b")], ids=["the only one", "all of them"])
    def test_where_nothing_may_be_read_it_is_never_filled(
        self, namespaces: tuple[str, ...], caplog: pytest.LogCaptureFixture
    ) -> None:
        world = self.world(*namespaces, namespaces=namespaces)

        world.read(never_filled)
        assert "cannot list" in world.access.missing()

    def test_an_operator_of_all_namespaces_waits_for_its_rights(self) -> None:
        world = World(Lists())
        world.cluster.failures["list", "Pod"] = errors.Forbidden("list Pod: forbidden")

        world.read(never_filled)
        assert world.access.missing() == "the first list of pods"
        assert world.access.refused() == {}

    def test_no_answer_is_no_refusal(self) -> None:
        world = self.world()
        world.cluster.failures["list", "Pod"] = errors.Transient("no answer")

        world.read(never_filled)
        assert world.access.refused() == {}

    def test_one_that_may_be_listed_but_not_watched_is_left_out_until_it_is_watched(self) -> None:
        """What its watch would tell is not known. It is not listed again and again meanwhile."""
        world = self.world()
        pods = Collection(kinds.POD, "team-b")

        async def script(listing: Listing) -> None:
            request_all(listing)
            await listing.filled()
            await soon()
            listing.refuse_watch(pods)
            before = world.cluster.count(kinds.POD)
            await asyncio.sleep(10 * AGAIN_SECONDS)
            assert world.cluster.count(kinds.POD) == before
            listing.request_one(pods)
            await soon()
            assert not world.access.may_look("team-b")
            assert world.access.note_watched(pods)
            listing.request_one(pods)
            await soon()
            assert world.access.may_look("team-b")
            assert not world.access.note_watched(pods)

        world.read(script)

    def test_an_operator_of_all_namespaces_goes_on_without_a_watch(self) -> None:
        """Its probe tells."""
        world = World()

        async def script(listing: Listing) -> None:
            request_all(listing)
            await listing.filled()
            listing.refuse_watch(Collection(kinds.POD))

        world.read(script)
        assert world.access.refused() == {}


class TestVersions:
    """A list is as new as whatever was told before it began, unless etcd was restored."""

    def test_one_that_is_newer_than_what_was_told_has_the_last_word(self) -> None:
        """etcd was restored with a revision that no client has seen."""
        world = World()
        world.cluster.version = 1_000_000
        world.cluster.objects[key("a")] = {
            **child("a"),
            "metadata": {**child("a")["metadata"], "resourceVersion": "60"},
        }
        told = child("a")
        told["metadata"]["resourceVersion"] = "100"
        world.store.put(builders.entry({**told, "data": {"of": "a time that never was"}}))

        async def script(listing: Listing) -> None:
            listing.request(kinds.CONFIG_MAP)
            await soon()
            assert listing.behind() == 0

        world.read(script)
        assert world.changes == [key("a")]
        stored = world.store.get(key("a"))
        assert stored is not None
        assert stored.resource_version == 60

    def test_one_that_is_older_changes_nothing_and_is_listed_again_until_it_is_not(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        world = World()
        world.cluster.add(child("a"))
        known = child("a")
        known["metadata"]["resourceVersion"] = "5000"
        world.store.put(builders.entry(known))

        async def script(listing: Listing) -> None:
            listing.request(kinds.CONFIG_MAP)
            await asyncio.sleep(4.5 * AGAIN_SECONDS)
            assert world.cluster.count(kinds.CONFIG_MAP) == 5
            assert listing.behind() == pytest.approx(4.5 * AGAIN_SECONDS, abs=1)
            world.cluster.version = 5000
            await asyncio.sleep(AGAIN_SECONDS)
            assert listing.behind() == 0

        world.read(script)
        said = [record.getMessage() for record in caplog.records if "5000 was told before" in record.getMessage()]
        assert len(said) == 1
