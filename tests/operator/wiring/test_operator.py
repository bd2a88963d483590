"""What a user sees of a running operator: services come up, are mended and stay as they are."""

import asyncio
import json
import threading
from typing import Any

import aiohttp
import pytest
from aiohttp.test_utils import unused_port

from gptservice_operator import app as app_module
from gptservice_operator import errors, names, render, revisions
from gptservice_operator.actions import child_key
from gptservice_operator.api import kinds
from gptservice_operator.queue import Queue
from tests.operator import builders
from tests.operator.builders import NAMESPACE, Body
from tests.operator.wiring.conftest import Run, eventually
from tests.operator.wiring.fake_api import FakeApi

pytestmark = pytest.mark.wiring

PROBE_SECONDS = 10.0
"""A kubelet waits for less."""
REVISION = names.controller_revision("chat", revisions.key(builders.service()))
CHILDREN = {child_key(manifest) for manifest in render.render(builders.resolved(seen=builders.EVERYTHING_SERVED))}


def children(api: FakeApi) -> set[tuple[str, str]]:
    return {(kind, name) for kind, _, name in api.objects if kind in {child.name for child in kinds.CHILDREN}}


def status(api: FakeApi, name: str = "chat") -> Body:
    body = api.get_body("GPTService", name)
    assert body is not None
    found: Body = body.get("status", {})
    return found


def settled(api: FakeApi) -> bool:
    """Whether the service's last edit was looked at."""
    body = api.get_body("GPTService", "chat")
    return body is not None and status(api).get("observedGeneration") == body["metadata"]["generation"]


def edit_spec(api: FakeApi, **fields: Any) -> None:
    body = api.edit("GPTService", "chat")
    body["spec"] |= fields
    body["metadata"]["generation"] += 1


async def test_a_service_comes_up_and_follows_its_pods(api: FakeApi, run: Run) -> None:
    async with run():
        api.add(builders.service())
        await api.tell()
        await eventually(lambda: children(api) == CHILDREN and settled(api))
        assert status(api)["phase"] == "Progressing"
        deployment = api.edit("Deployment", "chat")
        deployment["status"] |= {"replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1}
        api.add(builders.pod(ready=True))
        await api.tell()
        await eventually(lambda: status(api)["phase"] == "Ready")


async def test_a_model_that_is_added_later_starts_its_service(api: FakeApi, run: Run) -> None:
    api.add(builders.service(spec={"modelRef": "gpt-4-turbo"}))
    async with run():
        await eventually(lambda: settled(api))
        assert status(api)["conditions"][0]["reason"] == "UnknownModel"
        assert children(api) == set()
        api.add(builders.gpt_model("gpt-4-turbo"))
        await api.tell()
        await eventually(lambda: {kind for kind, _ in children(api)} == {kind for kind, _ in CHILDREN})


async def test_an_annotation_that_asks_for_a_new_rendering_arrives(api: FakeApi, run: Run) -> None:
    """It is no edit of the spec, so that the generation stays."""
    api.add(builders.service())
    async with run():
        await eventually(lambda: children(api) == CHILDREN)
        body = api.edit("GPTService", "chat")
        body["metadata"]["annotations"] = {names.RERENDER: "1"}
        rendered = ("ControllerRevision", names.controller_revision("chat", revisions.key(body)))
        await api.tell()
        await eventually(lambda: children(api) == {*CHILDREN, rendered})


async def test_an_edit_arrives_at_the_deployment(api: FakeApi, run: Run) -> None:
    api.add(builders.service())
    async with run():
        await eventually(lambda: settled(api))
        edit_spec(api, replicas=3)
        await api.tell()
        await eventually(lambda: api.objects["Deployment", NAMESPACE, "chat"]["spec"]["replicas"] == 3)


@pytest.mark.parametrize(("kind", "name"), sorted(CHILDREN))
async def test_a_child_that_is_deleted_by_hand_is_made_again(api: FakeApi, run: Run, kind: str, name: str) -> None:
    api.add(builders.service())
    async with run():
        await eventually(lambda: settled(api))
        uid = api.objects[kind, NAMESPACE, name]["metadata"]["uid"]
        api.remove(kind, name)
        await api.tell()
        await eventually(lambda: (body := api.get_body(kind, name)) and body["metadata"]["uid"] != uid)


async def test_a_child_deleted_while_the_watch_is_cut_is_made_again(api: FakeApi, run: Run) -> None:
    api.add(builders.service())
    async with run():
        await eventually(lambda: settled(api))
        api.silent = True
        api.remove("Deployment", "chat")
        api.silent = False
        await api.cut_watches(expired=True)
        await eventually(lambda: api.get_body("Deployment", "chat"))


async def test_a_label_that_is_taken_off_is_put_back(api: FakeApi, run: Run) -> None:
    api.add(builders.service())
    async with run():
        await eventually(lambda: settled(api))
        del api.edit("Deployment", "chat")["metadata"]["labels"]
        await api.tell()
        await eventually(
            lambda: api.objects["Deployment", NAMESPACE, "chat"]["metadata"].get("labels") == names.labels("chat")
        )


async def test_three_resyncs_and_a_restart_write_nothing(api: FakeApi, run: Run) -> None:
    api.add(builders.service())
    async with run():
        await eventually(lambda: settled(api))
    api.written()
    async with run(resync_seconds=0.05):
        await eventually(lambda: resyncs(api) >= 4)
    assert api.written() == []


def resyncs(api: FakeApi) -> int:
    """Return how often an operator has read all pods."""
    return sum(request.path == "/api/v1/pods" and request.is_list for request in api.requests if by_us(request.agent))


def by_us(agent: str) -> bool:
    return agent.startswith("gptservice-operator/")


async def test_a_service_that_fails_delays_no_other(api: FakeApi, run: Run) -> None:
    foreign: Body = {"apiVersion": "v1", "kind": "Service", "spec": {}}
    api.add({**foreign, "metadata": {"name": "chat", "namespace": NAMESPACE, "uid": "theirs"}})
    api.add(builders.service())
    async with run(workers=1):
        await eventually(lambda: status(api).get("phase") == "Pending")
        api.add(builders.service("other"))
        await api.tell()
        await eventually(lambda: status(api, "other").get("endpoint"))
        assert status(api)["conditions"][0]["reason"] == "NameConflict"
        assert api.objects["Service", NAMESPACE, "chat"]["spec"] == {}


async def test_a_child_s_retry_needs_no_event(api: FakeApi, run: Run) -> None:
    api.add(builders.service())
    api.failures["apply", "Service"] = errors.Conflict("not now")
    async with run():
        await eventually(lambda: status(api))
        assert api.get_body("Service", "chat") is None
        api.failures.clear()
        await eventually(lambda: api.get_body("Service", "chat"))


async def probed(port: int) -> tuple[int, str]:
    """Return what /healthz answers, once something listens."""
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=PROBE_SECONDS)) as session:
        while True:
            try:
                async with session.get(f"http://127.0.0.1:{port}/healthz") as response:
                    return response.status, await response.text()
            except aiohttp.ClientConnectionError:
                await asyncio.sleep(0.05)


async def test_the_probe_tells_how_long_a_pass_is_overdue(run: Run) -> None:
    port = unused_port()
    async with run(health_port=port):
        code, text = await probed(port)
    assert code == 200
    assert json.loads(text) == {"overdue_seconds": 0.0}


async def test_the_probe_fails_at_once_when_a_pass_is_overdue_for_minutes(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = unused_port()
    monkeypatch.setattr(app_module, "STUCK_SECONDS", -1.0)
    async with run(health_port=port):
        code, _ = await probed(port)
    assert code == 500


async def test_the_probe_looks_at_the_queue_from_its_own_thread(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """From another one it would meet dictionaries that change while it walks through them."""
    threads: list[threading.Thread] = []

    def overdue(_: Queue) -> float:
        threads.append(threading.current_thread())
        return 0.0

    monkeypatch.setattr(Queue, "overdue", overdue)
    port = unused_port()
    async with run(health_port=port):
        await probed(port)
    assert threads == [threading.current_thread()]
