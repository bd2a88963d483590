"""The real registry and settings under kopf: what its watches bring, and what it asks the API server for."""

import pytest

from gptservice_operator import names
from gptservice_operator.api import kinds
from tests.operator import builders
from tests.operator.builders import NAMESPACE, Body
from tests.operator.conftest import TOKEN, Kubeconfig
from tests.operator.wiring.conftest import Run, eventually
from tests.operator.wiring.fake_api import BY_PATH, FakeApi, Request

pytestmark = pytest.mark.wiring

NAMESPACED = [kind for kind in kinds.WATCHED if kind.namespaced]
KOPF_FINALIZER = "kopf.zalando.org/KopfFinalizerMarker"


def object_of(kind: kinds.Kind) -> Body:
    """Return an object of a kind that no pass would change."""
    if kind is kinds.GPT_SERVICE:
        return builders.service("seen", deletionTimestamp="2026-01-05T12:00:00Z")
    if kind is kinds.GPT_MODEL:
        return builders.gpt_model("seen")
    if kind is kinds.POD:
        return builders.pod("seen", of="nobody")
    metadata = {"name": "seen", "namespace": NAMESPACE, "uid": f"{kind.name}-seen", "labels": names.labels("nobody")}
    return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata}


def by_kopf(api: FakeApi) -> list[Request]:
    return [request for request in api.requests if request.is_kopf_s]


async def test_objects_of_every_kind_enter_the_store_change_and_leave_it(api: FakeApi, run: Run) -> None:
    async with run() as operator:
        store = operator.app.store
        for kind in kinds.WATCHED:
            api.add(object_of(kind))
        await api.tell()
        await eventually(lambda: all(store.count(kind) == 1 for kind in kinds.WATCHED))
        deployment = api.edit("Deployment", "seen")
        deployment["spec"] = {"replicas": 7}
        await api.tell()
        key = ("Deployment", NAMESPACE, "seen")
        await eventually(lambda: (entry := store.get(key)) is not None and "spec" in entry.body())
        for kind in NAMESPACED:
            api.remove(kind.name, "seen")
        await api.tell()
        await eventually(lambda: not any(store.count(kind) for kind in NAMESPACED))


async def test_what_is_there_before_the_start_is_in_the_store_when_passes_begin(api: FakeApi, run: Run) -> None:
    for number in range(5):
        api.add(builders.service(f"s{number}", deletionTimestamp="2026-01-05T12:00:00Z"))
        api.add(builders.pod(f"p{number}"))
    async with run() as operator:
        assert operator.app.store.count(kinds.GPT_SERVICE) == 5
        assert operator.app.store.count(kinds.POD) == 5


class TestRequests:
    @pytest.mark.parametrize("who", ["kopf/", "gptservice-operator/"])
    async def test_children_and_pods_are_asked_for_by_our_label_only(self, api: FakeApi, run: Run, who: str) -> None:
        async with run():
            await eventually(lambda: len(watches(api)) == len(kinds.WATCHED))
            asked = [request for request in api.requests if request.path in BY_PATH and request.agent.startswith(who)]
        assert {BY_PATH[request.path] for request in asked} == set(kinds.WATCHED)
        for request in asked:
            expected = None if BY_PATH[request.path] in kinds.OWN else names.WATCH_SELECTOR
            assert request.query.get("labelSelector") == expected, request

    async def test_every_kind_is_watched_once(self, api: FakeApi, run: Run) -> None:
        async with run():
            await eventually(lambda: len(watches(api)) == len(kinds.WATCHED))
        assert sorted(watches(api)) == sorted(kind.name for kind in kinds.WATCHED)

    async def test_every_request_is_logged_in(self, api: FakeApi, run: Run) -> None:
        api.add(builders.service())
        async with run():
            await eventually(lambda: api.written().count("GPTService/status"))
        assert {request.authorization for request in api.requests} == {"Bearer a-token"}

    async def test_kopf_writes_nothing(self, api: FakeApi, run: Run) -> None:
        api.add(builders.service("plain"))
        api.add(builders.service("foreign-finalizer", finalizers=[KOPF_FINALIZER]))
        api.add(builders.service("going", finalizers=[KOPF_FINALIZER], deletionTimestamp="2026-01-05T12:00:00Z"))
        pod = api.add(builders.pod(finalizers=[KOPF_FINALIZER]))
        async with run():
            await eventually(lambda: {write.name for write in api.writes} >= {"plain", "foreign-finalizer"})
            api.edit("GPTService", "plain")["metadata"]["annotations"] = {"a": "b"}
            api.edit("Pod", pod["metadata"]["name"])["metadata"]["annotations"] = {"a": "b"}
            await api.tell()
            await api.cut_watches(expired=True)
            relists = len(watches(api)) + len(kinds.WATCHED)
            await eventually(lambda: len(watches(api)) >= relists)
        assert {request.method for request in by_kopf(api)} == {"GET"}
        for name in ("foreign-finalizer", "going"):
            assert api.objects["GPTService", NAMESPACE, name]["metadata"]["finalizers"] == [KOPF_FINALIZER]

    async def test_we_write_by_server_side_apply_and_make_one_secret(self, api: FakeApi, run: Run) -> None:
        api.add(builders.service())
        async with run():
            await eventually(lambda: api.get_body("Service", "chat"))
        ours = [request for request in api.requests if not request.is_kopf_s]
        assert {request.method for request in ours} == {"GET", "PATCH", "POST"}
        # What a pass has to tell as an Event may already have been sent, or not yet.
        made = {request.path for request in ours if request.method == "POST"}
        assert made - {kinds.EVENT.path("team-a")} == {kinds.SECRET.path("team-a")}
        assert {request.agent.partition("/")[0] for request in ours} == {"gptservice-operator"}


def watches(api: FakeApi) -> list[str]:
    """Return the kinds of the watches that were begun."""
    return [BY_PATH[request.path].name for request in api.requests if request.is_watch and request.path in BY_PATH]


def listed_after_kopf(api: FakeApi) -> set[str]:
    """Return the kinds that the operator itself has listed after kopf had; a list may be left from the start."""
    lists = [(BY_PATH[request.path].name, request.is_kopf_s) for request in api.requests if request.is_list]
    return {name for at, (name, by_kopf) in enumerate(lists) if not by_kopf and (name, True) in lists[:at]}


class TestCutWatches:
    async def test_what_happened_in_between_is_told_afterwards(self, api: FakeApi, run: Run) -> None:
        async with run() as operator:
            await api.cut_watches()
            api.add(builders.pod())
            await eventually(lambda: operator.app.store.count(kinds.POD) == 1)

    async def test_a_watch_goes_on_from_the_last_event(self, api: FakeApi, run: Run) -> None:
        async with run() as operator:
            await eventually(lambda: len(watches(api)) == len(kinds.WATCHED))
            version = api.add(builders.pod())["metadata"]["resourceVersion"]
            await api.tell()
            await eventually(lambda: operator.app.store.count(kinds.POD) == 1)
            api.requests.clear()
            await api.cut_watches()
            await eventually(lambda: "Pod" in watches(api))
        paths = {kinds.POD.path()}
        assert [one.query["resourceVersion"] for one in api.requests if one.is_watch and one.path in paths] == [version]

    async def test_of_a_list_kopf_reads_the_first_page(self, api: FakeApi, run: Run) -> None:
        for number in range(5):
            api.add(builders.pod(f"p{number}"))
        async with run():
            await eventually(lambda: len(watches(api)) == len(kinds.WATCHED))
        assert not [one for one in by_kopf(api) if one.is_list and "continue" in one.query]
        assert [one for one in api.requests if one.is_list and "continue" in one.query]

    async def test_a_watch_that_cannot_be_continued_has_the_kind_listed_again(self, api: FakeApi, run: Run) -> None:
        async with run():
            await eventually(lambda: len(watches(api)) == len(kinds.WATCHED))
            api.requests.clear()
            await api.cut_watches(expired=True)
            await eventually(lambda: listed_after_kopf(api) == {kind.name for kind in kinds.WATCHED})

    @pytest.mark.parametrize("others", [0, 1], ids=["the last one of its kind", "one of several"])
    async def test_an_object_deleted_without_a_word_leaves_the_store(self, api: FakeApi, run: Run, others: int) -> None:
        for number in range(1 + others):
            api.add(builders.pod(f"p{number}"))
        async with run() as operator:
            await eventually(lambda: len(watches(api)) == len(kinds.WATCHED))
            api.silent = True
            api.remove("Pod", "p0")
            api.silent = False
            await api.cut_watches(expired=True)
            await eventually(lambda: operator.app.store.count(kinds.POD) == others)


async def test_a_token_that_expired_is_read_anew(api: FakeApi, run: Run, kubeconfig: Kubeconfig) -> None:
    async with run() as operator:
        await eventually(lambda: len(watches(api)) == len(kinds.WATCHED))
        path = kubeconfig(api.url)
        path.write_text(path.read_text().replace(TOKEN, "another-token"))
        api.expired = {TOKEN}
        await api.cut_watches(expired=True)
        api.add(builders.pod())
        await eventually(lambda: operator.app.store.count(kinds.POD) == 1)
    assert "Bearer another-token" in {request.authorization for request in by_kopf(api)}
