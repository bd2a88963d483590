"""Metrics of real pods: whoever may scrape gets the engine's and the runtime's, clients get none."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from e2e.api.state import Observer
from e2e.client import GPTClient
from e2e.installation import NAMESPACE, RELEASE
from e2e.kube import Kube, Object
from e2e.kubectl import Kubectl
from e2e.node.conftest import Talk
from e2e.node.release import VLLM, Release
from e2e.node.services import SOON, standin
from gptservice_runtime import contract

NAME = "measured"
LIMIT = 2
RUNNING, WAITING = "vllm:num_requests_running", "vllm:num_requests_waiting"
IN_FLIGHT, REFUSED = "gptservice_requests_in_flight", "gptservice_requests_refused_total"
# Without a key, as Prometheus would.
_SCRIPT = "import sys, urllib.request as r; print(r.urlopen(sys.argv[1], timeout=20).read().decode(), end='')"

Samples = dict[tuple[str, str], float]


@pytest.fixture(scope="module")
def measured(release: Release, kube: Kube, namespace: str, observer: Observer) -> Object:
    release.use(VLLM)
    kube.apply(standin(NAME, maxInflightRequests=LIMIT), namespace)
    return observer.wait_ready(NAME, timeout=SOON)


def scrape(kubectl: Kubectl, observer: Observer) -> Samples:
    """From the operator's own namespace: by metric and reason."""
    (pod,) = observer.pods(NAME)
    url = f"http://{pod['status']['podIP']}:{contract.PROBE_PORT}{contract.METRICS_PATH}"
    place = ("--namespace", NAMESPACE, f"deployment/{RELEASE}", "--container", "operator")
    text = kubectl.run("exec", *place, "--", "python3", "-c", _SCRIPT, url)
    families = text_string_to_metric_families(text)
    return {
        (sample.name, sample.labels.get("reason", "")): sample.value for family in families for sample in family.samples
    }


async def scraped(kubectl: Kubectl, observer: Observer, wanted: Samples, seconds: float = 60) -> Samples:
    """The first scrape that has these values; TimeoutError shows none of them."""
    async with asyncio.timeout(seconds):
        while True:
            found = await asyncio.to_thread(scrape, kubectl, observer)
            if found.items() >= wanted.items():
                return found
            await asyncio.sleep(0.5)


@pytest.mark.usefixtures("measured")
def test_the_operators_namespace_may_scrape(kubectl: Kubectl, observer: Observer) -> None:
    found = scrape(kubectl, observer)
    assert found["gptservice_ready", ""] == 1
    assert found["gptservice_engine_up", ""] == 1
    assert found["gptservice_start_seconds", ""] > 0
    assert found[RUNNING, ""] == found[WAITING, ""] == found[IN_FLIGHT, ""] == 0


async def held(chat: GPTClient, first: asyncio.Event) -> None:
    """A stream that goes on until it is cancelled."""
    options: dict[str, Any] = {"max_tokens": 10000, "ignore_eos": True, "standin": {"token_milliseconds": 100}}
    async for _ in chat.stream("go on", **options):
        first.set()


@pytest.mark.usefixtures("measured")
async def test_what_a_pod_does_is_to_be_seen(talk: Talk, kubectl: Kubectl, observer: Observer) -> None:
    before = await asyncio.to_thread(scrape, kubectl, observer)
    async with talk(NAME) as chat:
        first = [asyncio.Event() for _ in range(LIMIT)]
        streams = [asyncio.create_task(held(chat, event)) for event in first]
        try:
            await asyncio.wait_for(asyncio.gather(*(event.wait() for event in first)), SOON)
            await scraped(kubectl, observer, {(RUNNING, ""): LIMIT, (IN_FLIGHT, ""): LIMIT})
            body = {"model": chat.model, "prompt": "hello"}
            async with chat.session.post("/v1/completions", json=body) as response:
                assert response.status == 429
        finally:
            for stream in streams:
                stream.cancel()
            await asyncio.gather(*streams, return_exceptions=True)
    after = await scraped(kubectl, observer, {(RUNNING, ""): 0, (IN_FLIGHT, ""): 0})
    assert after[REFUSED, "limit"] - before[REFUSED, "limit"] == 1


@pytest.mark.usefixtures("measured")
async def test_a_request_without_a_key_is_counted(talk: Talk, kubectl: Kubectl, observer: Observer) -> None:
    async with talk(NAME) as chat:
        before = await asyncio.to_thread(scrape, kubectl, observer)
        async with chat.session.get("/v1/models", headers={"Authorization": "Bearer wrong"}) as response:
            assert response.status == 401
    after = await asyncio.to_thread(scrape, kubectl, observer)
    assert after[REFUSED, "key"] - before[REFUSED, "key"] == 1


@pytest.mark.usefixtures("measured")
@pytest.mark.parametrize("path", ["/metrics", "/metrics/", "/metricsx"])
async def test_clients_get_none(talk: Talk, path: str) -> None:
    async with talk(NAME) as chat, chat.session.get(path) as response:
        assert response.status == 404
        assert set((await response.json())["error"]) == {"message", "type", "param", "code"}
