"""What a user sees of a running operator: services come up, are mended and stay as they are."""

import asyncio
import json
from typing import Any

import aiohttp
import pytest
from aiohttp.test_utils import unused_port

from gptservice_operator import errors, health, names, render, revisions
from gptservice_operator.actions import child_key
from gptservice_operator.api import kinds
from gptservice_operator.scope import Collection
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


async def asked(port: int, path: str) -> tuple[int, str]:
    """Return what a page answers, once something listens."""
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=PROBE_SECONDS)) as session:
        while True:
            try:
                async with session.get(f"http://127.0.0.1:{port}{path}") as response:
                    return response.status, await response.text()
            except aiohttp.ClientConnectionError:
                await asyncio.sleep(0.05)


async def test_a_living_operator_is_healthy_and_ready(run: Run) -> None:
    port = unused_port()
    async with run(health_port=port):
        assert await asked(port, "/healthz") == (200, '{"problems": []}')
        assert (await asked(port, "/readyz"))[0] == 200


async def test_it_is_not_ready_before_its_store_is_filled(api: FakeApi, run: Run) -> None:
    port = unused_port()
    async with run(health_port=port) as operator:
        operator.app.filled = False
        code, said = await asked(port, "/readyz")
        assert code == 503
        assert "the first lists" in said
        assert (await asked(port, "/healthz"))[0] == 200


async def test_a_watch_that_is_not_asked_for_any_more_makes_it_unhealthy(run: Run) -> None:
    port = unused_port()
    async with run(health_port=port) as operator:
        await eventually(lambda: operator.app.asked[Collection(kinds.POD)] > operator.started)
        operator.app.asked[Collection(kinds.POD)] -= 2 * health.DEAF_SECONDS
        code, said = await asked(port, "/healthz")
    assert code == 500
    assert "watch of /api/v1/pods" in said


async def test_the_watches_tell_that_they_live(run: Run) -> None:
    async with run() as operator:
        await eventually(lambda: min(operator.app.asked.values()) > operator.started)
    assert set(operator.app.asked) == {Collection(kind) for kind in kinds.WATCHED}


async def test_the_debug_page_tells_of_one_service_why_it_is_as_it_is(api: FakeApi, run: Run) -> None:
    api.add(builders.service(spec={"model": "pvc://m/x", "engine": {"env": [{"name": "A", "value": "hidden-value"}]}}))
    port = unused_port()
    async with run(debug_port=port) as operator:
        await eventually(lambda: status(api))
        await eventually(lambda: operator.app.debug.overview()["passes"])
        _, overview = await asked(port, "/debug")
        _, one = await asked(port, "/debug/team-a/chat")
        missing, _ = await asked(port, "/debug/team-a/nobody")
    assert json.loads(overview)["services"] == 1
    assert json.loads(overview)["passes"][-1]["object"] == "team-a/chat"
    assert {"Accepted", "Ready"} <= {condition["type"] for condition in json.loads(one)["conditions"]}
    assert "Deployment" in {child["kind"] for child in json.loads(one)["children"]}
    assert json.loads(one)["passes"][0]["outcome"] == "ok"
    assert "hidden-value" not in overview + one
    assert missing == 404


async def test_metrics_count_services_by_condition_and_name_none(api: FakeApi, run: Run) -> None:
    api.add(builders.service())
    port = unused_port()
    async with run(metrics_port=port):
        await eventually(lambda: status(api))
        _, said = await asked(port, "/metrics")
    assert 'gptservice_operator_conditions{reason="Accepted",status="True",type="Accepted"}' in said
    unlabelled = ("queue_oldest_seconds", "ready_seconds_count", "rollout_seconds_count", "services_down", "leader")
    for metric in ("build_info", *unlabelled):
        assert f"gptservice_operator_{metric}" in said
    assert "chat" not in said
