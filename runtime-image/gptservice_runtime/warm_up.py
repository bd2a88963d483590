"""The warm-up over HTTP: what the engine must have shown before the pod takes traffic."""

import asyncio
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import aiohttp

from gptservice_runtime.questions import QUESTIONS, Question
from gptservice_runtime.reach import NotDemandedError, Reach

_POLL_SECONDS = 0.1
_MEASURE_SECONDS = 2.0
"""Between two measurements of the latency."""
_LIST_TIMEOUT_SECONDS = 5
_WARM_UP_TIMEOUT_SECONDS = 600
"""The first request of a compiled model can take minutes; a shorter start-up budget ends it before that."""
_REFUSALS = 5
"""Refusals (4xx) of the warm-up request after which no later try will do better."""


class WarmUpRefusedError(Exception):
    """The engine answers, but refuses the warm-up request for good; the text quotes its answer."""


Key = Callable[[], str | None]
"""An API key that counts at the moment; None when there is none."""


@dataclass(frozen=True, kw_only=True)
class Latency:
    """How fast a small request has to be answered before the pod takes traffic."""

    milliseconds: int
    on_late: Callable[[str], None]
    """Called with what is to be said of an answer that took longer."""


async def warm_up(
    reach: Reach,
    served_names: tuple[str, ...],
    on_listed: Callable[[], None],
    key: Key | None = None,
    latency: Latency | None = None,
) -> None:
    """Return once every name is listed and a question was answered, and where keys are demanded, none was refused.

    With `latency`, another question has to be answered within it, of however many.

    Retries for ever while the engine cannot be reached or is busy: the caller owns the start-up budget.

    Args:
        reach: the engine's API.
        served_names: what it must list; the first is asked.
        on_listed: called when it lists them.
        key: asked for each request; None where no key is demanded.
        latency: what is asked of a new pod; None for nothing.

    Raises:
        WarmUpRefusedError: the engine will never answer the warm-up.
        NotDemandedError: a request without the key or the client certificate that it needs was answered.
    """
    async with reach.session() as session:
        while not await _lists(session, set(served_names), key):  # noqa: ASYNC110 - the event is in another process
            await asyncio.sleep(_POLL_SECONDS)
        on_listed()
        while not await reach.turns_strangers_away():  # noqa: ASYNC110 - likewise
            await asyncio.sleep(_POLL_SECONDS)
        while key is not None and not await _refuses_without_key(session):  # noqa: ASYNC110 - likewise
            await asyncio.sleep(_POLL_SECONDS)
        refusals = 0
        while (refusal := await _ask_any(session, served_names[0], key)) is not None:
            refusals += refusal.final
            if refusals >= _REFUSALS:
                raise WarmUpRefusedError(f"the engine refuses the warm-up request: {refusal.text}")
            await asyncio.sleep(_POLL_SECONDS)
        if latency is not None:
            await _until_within(latency, session, served_names[0], key)


@dataclass(frozen=True, kw_only=True)
class _Refusal:
    text: str
    final: bool
    no_route: bool = False


class _NoKeyError(Exception):
    """There is no key at the moment."""


def _headers(key: Key | None) -> dict[str, str]:
    if key is None:
        return {}
    if (shown := key()) is None:
        raise _NoKeyError
    return {"Authorization": f"Bearer {shown}"}


async def _lists(session: aiohttp.ClientSession, names: set[str], key: Key | None) -> bool:
    timeout = aiohttp.ClientTimeout(total=_LIST_TIMEOUT_SECONDS)
    try:
        async with session.get("/v1/models", timeout=timeout, headers=_headers(key)) as response:
            if response.status != 200:
                return False
            answer: dict[str, Any] = await response.json()
            return names <= {entry["id"] for entry in answer["data"]}
    except (aiohttp.ClientError, TimeoutError, json.JSONDecodeError, KeyError, TypeError, _NoKeyError):
        return False


async def _refuses_without_key(session: aiohttp.ClientSession) -> bool:
    """Whether the key check was seen at work; False when the engine's answer says nothing about it."""
    timeout = aiohttp.ClientTimeout(total=_LIST_TIMEOUT_SECONDS)
    try:
        async with session.get("/v1/models", timeout=timeout) as response:
            if response.status == 401 or response.status >= 500:
                return response.status == 401
            raise NotDemandedError(f"the engine answered a request without an API key (HTTP {response.status})")
    except (aiohttp.ClientError, TimeoutError):
        return False


async def _until_within(latency: Latency, session: aiohttp.ClientSession, name: str, key: Key | None) -> None:
    while not await _is_within(latency, session, name, key):  # noqa: ASYNC110 - the event is in another process
        await asyncio.sleep(_MEASURE_SECONDS)


async def _is_within(latency: Latency, session: aiohttp.ClientSession, name: str, key: Key | None) -> bool:
    """Whether one request was answered in time; one that was not answered at all says nothing about that."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    if await _ask_any(session, name, key) is not None:
        return False
    took = math.ceil((loop.time() - began) * 1000)
    asked = latency.milliseconds
    if took > asked:
        latency.on_late(f"a small request took {took} ms, asked: {asked} ms (rollout.readyLatencyMilliseconds)")
    return took <= asked


async def _ask_any(session: aiohttp.ClientSession, name: str, key: Key | None) -> _Refusal | None:
    """Ask what the model can answer; None when it has. If there is no route at all, the first refusal is told."""
    refusals: list[_Refusal] = []
    for question in QUESTIONS:
        refusal = await _ask(session, question, name, key)
        if refusal is None or not refusal.no_route:
            return refusal
        refusals.append(refusal)
    return refusals[0]


async def _ask(session: aiohttp.ClientSession, question: Question, name: str, key: Key | None) -> _Refusal | None:
    timeout = aiohttp.ClientTimeout(total=_WARM_UP_TIMEOUT_SECONDS)
    arguments = question.arguments(name)
    try:
        async with session.post(question.path, timeout=timeout, headers=_headers(key), **arguments) as response:
            if response.status == 200:
                await response.read()
                return None
            text = f"{question.path}: HTTP {response.status} {(await response.text())[:300]}"
            return _Refusal(text=text, final=_is_final(response.status, key), no_route=response.status == 404)
    except (aiohttp.ClientError, TimeoutError, _NoKeyError) as error:
        return _Refusal(text=repr(error), final=False)


def _is_final(status: int, key: Key | None) -> bool:
    """A key may have been changed since the engine read it: then it reads it soon."""
    passing = (429,) if key is None else (401, 429)
    return 400 <= status < 500 and status not in passing
