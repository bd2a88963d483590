"""Steady load on a GPTService through its Service, and what became of each request."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from e2e import client
from e2e.kubectl import Kubectl
from e2e.node import talking
from e2e.reach import Reach

_QUESTION = "Tell me a story."


@dataclass(frozen=True)
class Plan:
    """What is asked: `per_second` short requests, and streams, each begun again as soon as it has ended.

    `short` and each of `streams` are options of the OpenAI API. `ignore_eos` and `max_tokens` must be among them: the
    length of an answer is how one that was cut is told from a whole one.
    """

    streams: tuple[Mapping[str, Any], ...]
    per_second: float = 0.0
    short: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass
class Outcome:
    """One request. An empty `error` means that it was answered whole."""

    kind: str
    begun: float
    seconds: float = 0.0
    error: str = ""

    def __str__(self) -> str:
        return f"{self.kind} at {self.begun:.1f} s for {self.seconds:.1f} s: {self.error or 'answered'}"


@dataclass
class Load:
    """Requests in a thread of its own for as long as the block lasts, which then waits for those under way.

    Short requests alternate between a client that keeps its connections and one that makes a new one for each.
    Nothing is ever tried again.
    """

    kubectl: Kubectl
    reach: Reach
    namespace: str
    name: str
    plan: Plan
    outcomes: list[Outcome] = field(default_factory=list[Outcome])

    def __post_init__(self) -> None:
        self._ending = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="load")
        self._began = time.monotonic()
        self._broken: BaseException | None = None

    def __enter__(self) -> Load:
        self._began = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()
        if self._broken:
            raise self._broken

    @property
    def seconds(self) -> float:
        """Since the load began."""
        return time.monotonic() - self._began

    def failed(self) -> list[Outcome]:
        """The requests that were refused, cut, or answered too short."""
        return [outcome for outcome in self.outcomes if outcome.error]

    def answered(self, kind: str) -> list[Outcome]:
        """The requests of a kind that were answered whole."""
        return [outcome for outcome in self.outcomes if outcome.kind == kind and not outcome.error]

    def running_at(self, kind: str, seconds: float) -> list[Outcome]:
        """The requests of a kind that were under way at a time since the load began."""
        return [o for o in self.outcomes if o.kind == kind and o.begun < seconds < o.begun + o.seconds]

    def summary(self) -> str:
        """Counts by kind and outcome, then every failure."""
        counts = Counter(f"{o.kind} {'failed' if o.error else 'answered'}" for o in self.outcomes)
        lines = [", ".join(f"{count} {what}" for what, count in sorted(counts.items()))]
        return "\n".join([*lines, *map(str, self.failed())])

    async def _run(self) -> None:
        try:
            async with (
                self._client(keep_alive=True) as kept,
                self._client(keep_alive=False) as fresh,
                asyncio.TaskGroup() as tasks,
            ):
                for options in self.plan.streams:
                    tasks.create_task(self._streams(kept, options))
                if self.plan.per_second:
                    tasks.create_task(self._short_ones(tasks, (kept, fresh)))
        except BaseException as error:  # it is raised where the block ends
            self._broken = error

    def _client(self, *, keep_alive: bool) -> AbstractAsyncContextManager[client.GPTClient]:
        return talking.connect(self.kubectl, self.reach, self.name, namespace=self.namespace, keep_alive=keep_alive)

    async def _short_ones(self, tasks: asyncio.TaskGroup, clients: Sequence[client.GPTClient]) -> None:
        number = 0
        while not self._ending.is_set():
            kept = number % 2 == 0
            tasks.create_task(self._short(clients[number % 2], kept))
            number += 1
            await asyncio.to_thread(self._ending.wait, 1 / self.plan.per_second)

    async def _streams(self, chat: client.GPTClient, options: Mapping[str, Any]) -> None:
        while not self._ending.is_set():
            outcome = await self._stream(chat, options)
            if outcome.error:  # a service that refuses everything is not to be asked without a pause
                await asyncio.sleep(0.2)

    async def _short(self, chat: client.GPTClient, kept: bool) -> None:
        outcome = Outcome("short, kept connection" if kept else "short, new connection", self.seconds)
        self.outcomes.append(outcome)
        try:
            answer = await chat.chat(_QUESTION, **self.plan.short)
            outcome.error = _shortfall(answer.usage.get("completion_tokens", 0), self.plan.short)
        except _FAILURES as error:
            outcome.error = repr(error)
        outcome.seconds = self.seconds - outcome.begun

    async def _stream(self, chat: client.GPTClient, options: Mapping[str, Any]) -> Outcome:
        outcome, answer = Outcome("stream", self.seconds), client.Answer()
        self.outcomes.append(outcome)
        usage = {"stream_options": {"include_usage": True}}
        try:
            async for _ in chat.stream(_QUESTION, into=answer, **usage, **options):
                pass
            outcome.error = _shortfall(answer.usage.get("completion_tokens", 0), options)
        except _FAILURES as error:
            outcome.error = f"{error!r} after {answer.pieces} pieces"
        outcome.seconds = self.seconds - outcome.begun
        return outcome


_FAILURES = (aiohttp.ClientError, client.RefusedError, OSError, TimeoutError)


def _shortfall(tokens: int, options: Mapping[str, Any]) -> str:
    wanted = options["max_tokens"]
    return "" if tokens == wanted else f"{tokens} of {wanted} tokens"
