"""maxInflightRequests: what is above it is refused in a way that clients understand, and it changes live."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from e2e.api.state import Observer
from e2e.client import GPTClient, RefusedError
from e2e.kube import Kube
from e2e.node import containers
from e2e.node.conftest import Talk
from e2e.node.release import VLLM, Release
from e2e.node.services import SOON, standin

NAME = "limited"
LIMIT = 2
ENDLESS: dict[str, Any] = {"max_tokens": 10000, "ignore_eos": True, "standin": {"token_milliseconds": 100}}


@pytest.fixture(scope="module")
def limited(release: Release, kube: Kube, namespace: str, observer: Observer) -> None:
    release.use(VLLM)
    kube.apply(standin(NAME, maxInflightRequests=LIMIT), namespace)
    observer.wait_ready(NAME, timeout=SOON)


@asynccontextmanager
async def occupied(chat: GPTClient, count: int) -> AsyncIterator[None]:
    """So many streams run while the block does; one that fails, or ends, ends the block with an ExceptionGroup."""
    first_pieces = [asyncio.Event() for _ in range(count)]

    async def run(first: asyncio.Event) -> None:
        async for _ in chat.stream("go on", **ENDLESS):
            first.set()
        raise AssertionError("an endless stream has ended")

    async with asyncio.TaskGroup() as group:
        streams = [group.create_task(run(first)) for first in first_pieces]
        for first in first_pieces:
            await first.wait()
        yield
        for stream in streams:
            stream.cancel()


async def until_answered(chat: GPTClient, seconds: float) -> None:
    """Asks again and again until it is no longer told that there are too many requests; TimeoutError if that lasts."""
    async with asyncio.timeout(seconds):
        while refusal := await refused(chat):  # noqa: ASYNC110 - clients have no other way
            await asyncio.sleep(int(refusal.headers["Retry-After"]))


async def refused(chat: GPTClient) -> RefusedError | None:
    """Asks once; the answer if it was that there are too many requests. Raises RefusedError for any other."""
    try:
        await chat.chat("hello")
    except RefusedError as error:
        if error.status == 429:
            return error
        raise
    return None


@pytest.mark.usefixtures("limited")
async def test_a_request_above_the_limit_is_told_to_come_back(talk: Talk) -> None:
    async with talk(NAME) as chat:
        async with occupied(chat, LIMIT):
            refusal = await refused(chat)
            assert await chat.models(), "only generation counts"
        assert refusal is not None
        assert int(refusal.headers["Retry-After"]) > 0
        assert json.loads(refusal.body)["error"]["type"] == "rate_limit_error"
        await until_answered(chat, SOON)


@pytest.mark.usefixtures("limited")
async def test_the_limit_is_raised_without_a_restart(
    talk: Talk, kube: Kube, namespace: str, observer: Observer
) -> None:
    before = list(map(containers.identity, observer.pods(NAME)))
    async with talk(NAME) as chat:
        await until_answered(chat, SOON)
        async with occupied(chat, LIMIT):
            assert await refused(chat)
            kube.merge("GPTService", NAME, namespace, {"spec": {"maxInflightRequests": LIMIT + 1}})
            # The kubelet brings a changed ConfigMap into a running pod when it looks at the pod next.
            await until_answered(chat, 120)
    observer.wait_ready(NAME)
    assert list(map(containers.identity, observer.pods(NAME))) == before
