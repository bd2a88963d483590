"""The store: entries arrive in any order from watches, lists and replies, and the newest word counts."""

import dataclasses
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gptservice_operator.api import kinds
from gptservice_operator.extract import Entry
from gptservice_operator.store import Store
from tests.operator import builders

CHAT = (builders.NAMESPACE, "chat")
OTHER = (builders.NAMESPACE, "other")


def service(name: str = "chat", version: int = 1, **spec: Any) -> Entry:
    body = builders.service(name, {"model": "pvc://models/m", **spec}, resourceVersion=str(version))
    return builders.entry(body)


def child(version: int = 1, *, owner: str = "chat", name: str = "web", data: str = "x") -> Entry:
    """Return a ConfigMap that a service controls."""
    reference = {"kind": "GPTService", "name": owner, "uid": builders.uid_of("GPTService", owner), "controller": True}
    metadata = {
        "name": name,
        "namespace": builders.NAMESPACE,
        "uid": f"uid-{name}",
        "resourceVersion": str(version),
        "ownerReferences": [reference],
    }
    return builders.entry({"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "data": {"key": data}})


def pod(name: str, *, of: str = "chat", created: str = builders.CREATED, version: int = 1) -> Entry:
    return builders.entry(builders.pod(name, of=of, created=created, resourceVersion=str(version)))


def unplaced(name: str, *, of: str = "chat", **metadata: Any) -> Entry:
    told = builders.condition("PodScheduled", "False", reason="Unschedulable")
    return builders.entry(builders.pod(name, of=of, conditions=[told], resourceVersion="1", **metadata))


def waiting(store: Store) -> set[str]:
    """Return the pods of others in the snapshot of `chat`."""
    snapshot = store.snapshot(CHAT)
    assert snapshot is not None
    return {one.key[2] for pods in snapshot.waiting for one in pods}


def store_with(*entries: Entry) -> Store:
    store = Store()
    for entry in entries:
        store.put(entry)
    return store


def data_of(store: Store, name: str = "web") -> str | None:
    """Return what the snapshot of `chat` says of the child, or None if it has none of that name."""
    snapshot = store.snapshot(CHAT)
    assert snapshot is not None
    child = snapshot.children.get(("ConfigMap", name))
    return None if child is None else child.body["data"]["key"]


def test_of_the_same_version_only_what_differs_is_news() -> None:
    """A watch that began under an older CRD shows less of the very same object than a list does."""
    store = store_with(service())
    assert store.put(child(5, data="without a field"))
    assert not store.put(child(5, data="without a field"))
    assert store.put(child(5, data="with it"))


def test_a_newer_version_is_news_an_older_or_equal_one_is_not() -> None:
    store = store_with(service())
    assert store.put(child(5, data="five"))
    assert not store.put(child(5, data="five"))
    assert not store.put(child(4, data="four"))
    assert data_of(store) == "five"
    assert store.put(child(6, data="six"))
    assert data_of(store) == "six"


def test_versions_are_compared_as_numbers() -> None:
    store = store_with(service(), child(9, data="nine"))
    assert store.put(child(10, data="ten"))
    assert data_of(store) == "ten"


def test_a_deleted_entry_leaves() -> None:
    store = store_with(service(), child(5))
    assert store.remove(child(6))
    assert data_of(store) is None
    assert not store.remove(child(7)), "it had left before"


def test_a_late_word_of_a_deleted_object_does_not_bring_it_back() -> None:
    store = store_with(service(), child(5))
    store.remove(child(8))
    assert not store.put(child(7))
    assert data_of(store) is None


def test_an_object_made_again_under_the_same_name_enters() -> None:
    store = store_with(service(), child(5))
    store.remove(child(8))
    assert store.put(child(9, data="new"))
    assert data_of(store) == "new"


def test_a_late_deletion_does_not_take_out_its_successor() -> None:
    store = store_with(service(), child(9, data="new"))
    assert not store.remove(child(8))
    assert data_of(store) == "new"


def test_an_older_deletion_after_a_newer_one_changes_nothing() -> None:
    store = store_with(service(), child(5))
    store.remove(child(10))
    store.remove(child(5))
    assert not store.put(child(7))
    assert data_of(store) is None


@given(st.lists(st.booleans(), min_size=1, max_size=6), st.data())
def test_in_whatever_order_the_words_arrive_the_newest_counts(history: list[bool], data: st.DataObject) -> None:
    """``history[i]`` says whether the object existed after version i+1; words are repeated and mixed up."""
    words = list(enumerate(history, start=1))
    order = data.draw(st.permutations(words + words[:2]))
    store = store_with(service())
    for version, exists in order:
        entry = child(version, data=f"v{version}")
        store.put(entry) if exists else store.remove(entry)
    newest, exists = words[-1]
    assert data_of(store) == (f"v{newest}" if exists else None)


class TestSweep:
    def test_what_a_complete_list_lacks_leaves_and_is_returned(self) -> None:
        gone, kept = child(name="gone"), child(name="kept")
        store = store_with(service(), gone, kept)
        assert store.sweep(kinds.CONFIG_MAP, [kept.key], store.mark()) == [gone]
        assert data_of(store, "gone") is None
        assert data_of(store, "kept") == "x"

    def test_an_entry_put_while_the_list_was_read_stays(self) -> None:
        store = store_with(service())
        since = store.mark()
        store.put(child(5))
        assert store.sweep(kinds.CONFIG_MAP, [], since) == []
        assert data_of(store) == "x"

    def test_an_entry_put_before_the_list_began_does_not(self) -> None:
        store = store_with(service(), child(5))
        assert store.sweep(kinds.CONFIG_MAP, [], store.mark()) == [child(5)]

    def test_a_repeated_word_while_the_list_was_read_keeps_an_entry(self) -> None:
        store = store_with(service(), child(5))
        since = store.mark()
        assert not store.put(child(5))
        assert store.sweep(kinds.CONFIG_MAP, [], since) == []

    def test_other_kinds_stay(self) -> None:
        store = store_with(service(), child(5), pod("p"))
        store.sweep(kinds.POD, [], store.mark())
        assert data_of(store) == "x"
        assert store.count(kinds.POD) == 0

    def test_an_object_deleted_while_the_list_was_read_is_not_brought_back_by_it(self) -> None:
        store = store_with(service(), child(5))
        since = store.mark()
        store.remove(child(6))
        assert not store.put(child(5)), "a page that was read before the deletion"
        assert store.sweep(kinds.CONFIG_MAP, [child(5).key], since) == []
        assert not store.put(child(5)), "the deletion must be remembered beyond this sweep"

    def test_an_object_deleted_while_the_list_was_read_stays_deleted_after_it(self) -> None:
        store = store_with(service(), child(5))
        since = store.mark()
        store.remove(child(6))
        store.sweep(kinds.CONFIG_MAP, [], since)
        assert not store.put(child(5)), "a word of a watch that lags behind the list"

    def test_deletions_of_other_kinds_are_remembered(self) -> None:
        store = store_with(service(), pod("p", version=5))
        store.remove(pod("p", version=8))
        store.sweep(kinds.CONFIG_MAP, [], store.mark())
        assert not store.put(pod("p", version=7))

    def test_what_is_long_gone_is_forgotten_in_the_end(self) -> None:
        store = store_with(service(), child(name="kept"))
        before = len(pickle.dumps(store))
        for number in range(200):
            store.put(child(5, name=f"c{number}"))
            store.remove(child(6, name=f"c{number}"))
        assert len(pickle.dumps(store)) > before + 2000
        store.sweep(kinds.CONFIG_MAP, [child(name="kept").key], store.mark())
        assert len(pickle.dumps(store)) < before + 200

    def test_a_swept_object_may_come_again(self) -> None:
        store = store_with(service(), child(5))
        store.sweep(kinds.CONFIG_MAP, [], store.mark())
        assert store.put(child(6))

    def test_two_lists_that_overlap(self) -> None:
        store = store_with(service(), child(5))
        first, second = store.mark(), store.mark()
        store.put(child(6))
        assert store.sweep(kinds.CONFIG_MAP, [], second) == []
        assert store.sweep(kinds.CONFIG_MAP, [], first) == []


class TestAfterARestore:
    """etcd was restored from a backup: what was told since never was, and versions may be older than those known.

    With `--bump-revision`, as etcd and Kubernetes ask for, a list is of a newer version than anything that was told.
    """

    def test_what_a_newer_list_shows_replaces_what_is_newer_than_the_object(self) -> None:
        store = store_with(service(), child(100, data="of a time that never was"))
        assert not store.put(child(60, data="restored"))
        assert store.put(child(60, data="restored"), as_of=1_000_000_060)
        assert data_of(store) == "restored"

    def test_an_object_made_again_since_the_backup_has_its_former_uid(self) -> None:
        former = service(version=60)
        store = store_with(dataclasses.replace(service(version=100), uid="another"))
        assert store.put(former, as_of=1_000_000_060)
        assert store.get(former.key) == former

    def test_an_object_deleted_since_the_backup_is_there(self) -> None:
        store = store_with(service(), child(60))
        store.remove(child(100))
        assert store.put(child(60, data="restored"), as_of=1_000_000_060)
        assert data_of(store) == "restored"

    def test_what_happens_next_is_news(self) -> None:
        store = store_with(service(), child(100))
        store.put(child(60), as_of=1_000_000_060)
        assert store.put(child(1_000_000_061, data="new"))
        assert data_of(store) == "new"

    @pytest.mark.parametrize("as_of", [-1, 60, 99], ids=["no list", "a list of that time", "one that lags behind"])
    def test_an_older_list_changes_nothing(self, as_of: int) -> None:
        """Of an API server that lags behind, or a page that was read before the watch told."""
        store = store_with(service(), child(100, data="newer"), child(100, name="gone"))
        store.remove(child(100, name="gone"))
        assert not store.put(child(60, data="older"), as_of)
        assert not store.put(child(60, name="gone"), as_of)
        assert (data_of(store), data_of(store, "gone")) == ("newer", None)

    def test_the_newest_version_is_told_by_kind_and_namespace(self) -> None:
        store = store_with(service(), child(7), pod("p", version=90))
        store.remove(child(9, name="gone"))
        assert store.newest(kinds.CONFIG_MAP) == 9
        assert store.newest(kinds.CONFIG_MAP, builders.NAMESPACE) == 9
        assert store.newest(kinds.CONFIG_MAP, "team-b") == store.newest(kinds.HPA) == -1


@given(st.lists(st.booleans(), min_size=1, max_size=6), st.data())
def test_lists_of_one_history_never_hide_what_is_newer(history: list[bool], data: st.DataObject) -> None:
    """Words and lists of the same history in any order: the newest word counts, as if there were no lists."""
    words = list(enumerate(history, start=1))
    lists = data.draw(st.lists(st.integers(min_value=1, max_value=len(words)), max_size=4))
    store, told = store_with(service()), 0
    for version in data.draw(st.permutations([*(number for number, _ in words), *(-as_of for as_of in lists)])):
        as_of = abs(version)
        shown = child(as_of, data=f"v{as_of}")
        if version > 0:
            store.put(shown) if history[as_of - 1] else store.remove(shown)
        elif history[as_of - 1]:
            store.put(shown, as_of)
        told = max(told, as_of if version > 0 or history[as_of - 1] else 0)
    assert data_of(store) == (f"v{told}" if history[told - 1] else None)


class TestOwners:
    def test_a_child_that_changes_hands_is_in_one_snapshot_only(self) -> None:
        store = store_with(service("chat"), service("other"), child(5, owner="chat"))
        store.put(child(6, owner="other"))
        chat, other = store.snapshot(CHAT), store.snapshot(OTHER)
        assert chat is not None
        assert other is not None
        assert not chat.children
        assert set(other.children) == {("ConfigMap", "web")}

    def test_a_child_may_arrive_before_its_service(self) -> None:
        store = store_with(child(5))
        assert store.snapshot(CHAT) is None
        store.put(service())
        assert data_of(store) == "x"

    def test_children_outlive_their_service(self) -> None:
        store = store_with(service(version=1), child(5))
        store.remove(service(version=2))
        assert store.snapshot(CHAT) is None
        store.put(service(version=3))
        assert data_of(store) == "x"

    def test_the_same_name_in_another_namespace_is_another_service(self) -> None:
        store = store_with(service(), child(5))
        assert store.snapshot(("team-b", "chat")) is None


class TestSnapshot:
    def test_pods_are_listed_oldest_first_and_apart_from_children(self) -> None:
        store = store_with(
            service(),
            child(),
            pod("b", created="2026-01-05T10:00:02Z"),
            pod("c", created="2026-01-05T10:00:01Z"),
            pod("a", created="2026-01-05T10:00:02Z"),
        )
        snapshot = store.snapshot(CHAT)
        assert snapshot is not None
        assert [pod["metadata"]["name"] for pod in snapshot.pods] == ["c", "a", "b"]
        assert set(snapshot.children) == {("ConfigMap", "web")}

    def test_later_changes_do_not_reach_it(self) -> None:
        store = store_with(service(), child(5, data="before"))
        snapshot = store.snapshot(CHAT)
        assert snapshot is not None
        store.put(child(6, data="after"))
        snapshot.service["spec"]["replicas"] = 99
        assert snapshot.children["ConfigMap", "web"].body["data"]["key"] == "before"
        assert data_of(store) == "after"
        latest = store.service(CHAT)
        assert latest is not None
        assert "replicas" not in latest["spec"]

    def test_one_whose_pod_has_no_node_has_the_pods_of_others_that_wait_too(self) -> None:
        store = store_with(service(), service("other"), unplaced("ours"), unplaced("theirs", of="other"))
        store.put(pod("placed", of="other"))
        assert waiting(store) == {"theirs", "placed"}
        store.put(pod("theirs", of="other", version=2))
        assert waiting(store) == set()
        store.put(unplaced("again", of="other"))
        store.put(pod("ours", version=2))
        assert waiting(store) == set(), "of no use to it"

    def test_who_is_leaving_waits_no_more(self) -> None:
        store = store_with(service(), unplaced("ours"), unplaced("theirs", of="other", deletionTimestamp="x"))
        assert waiting(store) == set()

    @pytest.mark.parametrize(
        "spec",
        [
            pytest.param({"modelRef": "gpt-4-turbo"}, id="modelRef"),
            pytest.param({"model": "gpt-4-turbo"}, id="a bare name in model"),
        ],
    )
    def test_it_has_the_catalogue_entry_that_the_service_names(self, spec: dict[str, str]) -> None:
        body = builders.service(spec=spec)
        store = store_with(builders.entry(body), builders.entry(builders.gpt_model("other")))
        snapshot = store.snapshot(CHAT)
        assert snapshot is not None
        assert snapshot.models == {}
        store.put(builders.entry(builders.gpt_model("gpt-4-turbo")))
        snapshot = store.snapshot(CHAT)
        assert snapshot is not None
        assert set(snapshot.models) == {"gpt-4-turbo"}
        assert store.users_of("gpt-4-turbo") == [CHAT]
        assert store.users_of("other") == []

    def test_a_discarded_entry_is_gone_until_something_newer_or_equal_arrives(self) -> None:
        store = store_with(service(), child(5))
        store.discard(child(5).key, child(5).uid)
        assert data_of(store) is None
        assert store.put(child(5))
        store.discard(("ConfigMap", builders.NAMESPACE, "unheard of"), "nobody's")

    def test_discarding_an_object_leaves_the_one_that_was_made_again_under_its_name(self) -> None:
        store = store_with(service(), child(5))
        store.discard(child(5).key, "the former one's uid")
        assert data_of(store) is not None


def test_services_and_counts() -> None:
    store = store_with(service("chat"), service("other"), child(), pod("p"))
    assert sorted(store.services()) == [CHAT, OTHER]
    assert store.count(kinds.GPT_SERVICE) == 2
    assert store.count(kinds.CONFIG_MAP) == 1
    assert store.count(kinds.DEPLOYMENT) == 0
