"""When the pod may take traffic: a pure state machine, and the warm-up over HTTP that drives it."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import aiohttp

from gptservice_runtime import contract
from gptservice_runtime.reach import NotDemandedError, Reach

_POLL_SECONDS = 0.25
_LIST_TIMEOUT_SECONDS = 5
_WARM_UP_TIMEOUT_SECONDS = 600
"""The first request of a compiled model can take minutes; a shorter start-up budget ends it before that."""
_REFUSALS = 5
"""Refusals (4xx) of the warm-up request after which no later try will do better."""
_WARM_UP_PROMPT = "Hello"


@dataclass(frozen=True, kw_only=True)
class Readiness:
    """What `/readyz` says. Phases go forward only: Checking, Loading, WarmingUp, Serving, Draining."""

    phase: contract.Phase = contract.PHASE_CHECKING
    engine_alive: bool = False
    detail: str = "the engine has not been started yet"
    keys_problem: str = ""
    """Why no request of our own can show an API key, where one is demanded."""
    certificate_problem: str = ""
    """Why the engine cannot be started yet, where TLS is asked for."""
    unresponsive: str = ""
    """Why the engine, once it has served, must get no requests; empty while it may."""
    started_up: bool = False
    """Whether it has ever been ready."""

    def started(self) -> "Readiness":
        """The engine's process runs; after SIGTERM that changes nothing for clients."""
        if self.phase != contract.PHASE_CHECKING:
            return replace(self, engine_alive=True)
        return replace(self, phase=contract.PHASE_LOADING, engine_alive=True, detail="the engine is loading the model")

    def listed(self) -> "Readiness":
        """The engine's API lists every served name."""
        if self.phase != contract.PHASE_LOADING:
            return self
        return replace(self, phase=contract.PHASE_WARMING_UP, detail="the model is loaded; the warm-up is running")

    def warmed_up(self) -> "Readiness":
        """The warm-up request was answered; one that comes after SIGTERM changes nothing."""
        if self.phase != contract.PHASE_WARMING_UP:
            return self
        return replace(self, phase=contract.PHASE_SERVING, detail="serving", started_up=True)

    def with_keys_problem(self, problem: str) -> "Readiness":
        """What is wrong with the API keys; empty when nothing is (any more)."""
        return replace(self, keys_problem=problem)

    def with_certificate_problem(self, problem: str) -> "Readiness":
        """What is wrong with the certificate; empty when nothing is (any more)."""
        return replace(self, certificate_problem=problem)

    def with_health(self, unresponsive: str) -> "Readiness":
        """Why the engine must get no requests; empty when it may (again)."""
        return replace(self, unresponsive=unresponsive)

    def draining(self) -> "Readiness":
        """SIGTERM was received."""
        detail = "SIGTERM was received: running requests are being finished"
        return replace(self, phase=contract.PHASE_DRAINING, detail=detail)

    def engine_died(self) -> "Readiness":
        """The engine's process has ended; the phase stays, since it says when that was."""
        return replace(self, engine_alive=False, detail="the engine's process has ended")

    @property
    def ready(self) -> bool:
        """Whether the pod may take traffic."""
        return self.phase == contract.PHASE_SERVING and self.engine_alive and not self.unresponsive

    def not_ready(self) -> contract.NotReady:
        """Body of the 503."""
        if self.phase == contract.PHASE_DRAINING:
            reason = contract.REASON_DRAINING
        elif self.phase == contract.PHASE_SERVING and self.engine_alive:
            unresponsive = contract.REASON_ENGINE_UNRESPONSIVE
            return {"reason": unresponsive, "message": self.unresponsive, "phase": self.phase}
        elif self.phase == contract.PHASE_SERVING:
            reason = contract.REASON_CRASH_LOOP
        elif self.certificate_problem:
            unusable = contract.REASON_CERTIFICATE_UNUSABLE
            return {"reason": unusable, "message": self.certificate_problem, "phase": self.phase}
        elif self.keys_problem:
            return {"reason": contract.REASON_API_KEYS_UNUSABLE, "message": self.keys_problem, "phase": self.phase}
        else:
            reason = contract.REASON_MODEL_LOADING
        return {"reason": reason, "message": self.detail, "phase": self.phase}


class WarmUpRefusedError(Exception):
    """The engine answers, but refuses the warm-up request for good; the text quotes its answer."""


Key = Callable[[], str | None]
"""An API key that counts at the moment; None when there is none."""


async def warm_up(
    reach: Reach, served_names: tuple[str, ...], on_listed: Callable[[], None], key: Key | None = None
) -> None:
    """Return once every name is listed and a completion was answered, and where keys are demanded, none was refused.

    Retries for ever while the engine cannot be reached or is busy: the caller owns the start-up budget.

    Args:
        reach: the engine's API.
        served_names: what it must list; the first is asked.
        on_listed: called when it lists them.
        key: asked for each request; None where no key is demanded.

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
        while (refusal := await _complete(session, served_names[0], key)) is not None:
            refusals += refusal.final
            if refusals >= _REFUSALS:
                raise WarmUpRefusedError(f"the engine refuses the warm-up request: {refusal.text}")
            await asyncio.sleep(_POLL_SECONDS)


@dataclass(frozen=True, kw_only=True)
class _Refusal:
    text: str
    final: bool


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


async def _complete(session: aiohttp.ClientSession, name: str, key: Key | None) -> _Refusal | None:
    request = {"model": name, "prompt": _WARM_UP_PROMPT, "max_tokens": 1, "temperature": 0}
    timeout = aiohttp.ClientTimeout(total=_WARM_UP_TIMEOUT_SECONDS)
    try:
        async with session.post("/v1/completions", json=request, timeout=timeout, headers=_headers(key)) as response:
            if response.status == 200:
                await response.read()
                return None
            text = f"HTTP {response.status} {(await response.text())[:300]}"
            return _Refusal(text=text, final=_is_final(response.status, key))
    except (aiohttp.ClientError, TimeoutError, _NoKeyError) as error:
        return _Refusal(text=repr(error), final=False)


def _is_final(status: int, key: Key | None) -> bool:
    """A key may have been changed since the engine read it: then it reads it soon."""
    passing = (429,) if key is None else (401, 429)
    return 400 <= status < 500 and status not in passing
