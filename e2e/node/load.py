"""Steady load on a GPTService through its Service, and what became of each request."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

import aiohttp

from e2e import client
from e2e.kubectl import Kubectl
from e2e.node import talking
from e2e.node.plans import QUESTION, Plan
from e2e.reach import Reach

SHORT, STREAM = "short", "stream"
# A service that refuses everything is not to be asked for streams without a pause.
_PAUSE_SECONDS = 0.2
_SHOWN = 20
# Of a service that is Ready; hang detection, not a statement about speed.
_FIRST_ANSWER_SECONDS = 120.0

Result = Literal["under way", "whole", "failed", "cut"]
"""Failed: nothing of an answer came. Cut: an answer had begun, and did not come to its own end."""


@dataclass
class Outcome:
    """One request; `error` says why it was not answered whole."""

    kind: str
    begun: float
    seconds: float = 0.0
    result: Result = "under way"
    error: str = ""

    @property
    def ended(self) -> float:
        """In seconds since the load began."""
        return self.begun + self.seconds

    def __str__(self) -> str:
        return f"{self.kind} at {self.begun:.1f} s for {self.seconds:.1f} s: {self.result} {self.error}".rstrip()


@dataclass
class Load:
    """Requests in a thread of its own for as long as the block lasts, which then waits for those under way.

    Short requests alternate between a client that keeps its connections and one that makes a new one for each.
    Nothing is ever tried again, and every request that is sent is an outcome.
    """

    kubectl: Kubectl
    reach: Reach
    namespace: str
    name: str
    plan: Plan
    outcomes: list[Outcome] = field(default_factory=list[Outcome])

    def __post_init__(self) -> None:
        self._answering, self._ending = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="load")
        self._began = time.monotonic()
        self._asked_until = 0.0
        self._broken: BaseException | None = None

    def __enter__(self) -> Load:
        """Returns when the first answer has come; streams have begun then."""
        self._began = time.monotonic()
        self._thread.start()
        if not self._answering.wait(_FIRST_ANSWER_SECONDS):
            self._ending.set()
            self._thread.join()
            raise AssertionError(f"{self.name} answered nothing for {_FIRST_ANSWER_SECONDS:.0f} s: {self.summary()}")
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._asked_until = self.seconds
        self._thread.join()
        if self._broken:
            raise self._broken

    @property
    def seconds(self) -> float:
        """Since the load began."""
        return time.monotonic() - self._began

    def lost(self) -> list[Outcome]:
        """The requests that were not answered whole."""
        return [outcome for outcome in self.outcomes if outcome.result != "whole"]

    def running_at(self, kind: str, seconds: float) -> list[Outcome]:
        """The requests of a kind that were under way at a time since the load began."""
        return [one for one in self.outcomes if one.kind.startswith(kind) and one.begun < seconds < one.ended]

    def gap(self) -> float:
        """The longest time, in seconds, in which no request came to a whole answer, while requests were sent."""
        ends = sorted(outcome.ended for outcome in self.outcomes if outcome.result == "whole")
        within = [*(seconds for seconds in ends if seconds < self._asked_until), self._asked_until]
        return max((after - before for before, after in pairwise(within)), default=0.0)

    def counts(self) -> str:
        """How many requests were sent and what became of them, in all and for each kind."""
        kinds = sorted({outcome.kind for outcome in self.outcomes})
        return "; ".join([_counted("all", self.outcomes), *(_counted(kind, self._of(kind)) for kind in kinds)])

    def summary(self) -> str:
        """The counts, then the first requests that were not answered whole."""
        return "\n".join([self.counts(), *map(str, self.lost()[:_SHOWN])])

    def _of(self, kind: str) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.kind == kind]

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
            self._answering.set()

    def _client(self, *, keep_alive: bool) -> AbstractAsyncContextManager[client.GPTClient]:
        return talking.connect(self.kubectl, self.reach, self.name, namespace=self.namespace, keep_alive=keep_alive)

    async def _short_ones(self, tasks: asyncio.TaskGroup, clients: Sequence[client.GPTClient]) -> None:
        """However long an answer takes, the next request is sent when its time has come."""
        first, number = time.monotonic(), 0
        while not self._ending.is_set():
            tasks.create_task(self._short(clients[number % 2], kept=number % 2 == 0))
            number += 1
            due = first + number / self.plan.per_second
            await asyncio.to_thread(self._ending.wait, max(0.0, due - time.monotonic()))

    async def _streams(self, chat: client.GPTClient, options: Mapping[str, Any]) -> None:
        while not self._ending.is_set():
            outcome = await self._stream(chat, options)
            if outcome.result != "whole":
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _short(self, chat: client.GPTClient, *, kept: bool) -> None:
        outcome = Outcome(f"{SHORT}, {'kept' if kept else 'new'} connection", self.seconds)
        self.outcomes.append(outcome)
        try:
            answer = await chat.chat(QUESTION, **self.plan.short)
            outcome.error = self._shortfall(answer, self.plan.short)
            outcome.result = "cut" if outcome.error else "whole"
        except _FAILURES as error:
            outcome.error = repr(error)
            outcome.result = "cut" if isinstance(error, aiohttp.ClientPayloadError) else "failed"
        self._end(outcome)

    async def _stream(self, chat: client.GPTClient, options: Mapping[str, Any]) -> Outcome:
        outcome, answer = Outcome(STREAM, self.seconds), client.Answer()
        self.outcomes.append(outcome)
        usage = {"stream_options": {"include_usage": True}}
        try:
            # It returns at the stream's own end, [DONE], and raises at any other.
            async for _ in chat.stream(QUESTION, into=answer, **usage, **options):
                pass
            outcome.error = self._shortfall(answer, options)
            outcome.result = "cut" if outcome.error else "whole"
        except _FAILURES as error:
            outcome.error = f"{error!r} after {answer.pieces} pieces"
            outcome.result = "cut" if answer.pieces else "failed"
        self._end(outcome)
        return outcome

    def _end(self, outcome: Outcome) -> None:
        outcome.seconds = self.seconds - outcome.begun
        if outcome.result == "whole":
            self._answering.set()

    def _shortfall(self, answer: client.Answer, options: Mapping[str, Any]) -> str:
        """What an answer lacks that came to an end; empty for a whole one."""
        wanted, said = options["max_tokens"], answer.usage.get("completion_tokens", 0)
        if said != wanted:
            return f"{said} of {wanted} tokens"
        if self.plan.tokens_in is not None and (came := self.plan.tokens_in(answer.text)) != wanted:
            return f"{came} of {wanted} tokens came, though the engine says that it has sent them all"
        return "" if answer.finish_reason == "length" else f"it ended as {answer.finish_reason!r}, not at its length"


_FAILURES = (aiohttp.ClientError, client.RefusedError, OSError, TimeoutError)


def _counted(what: str, outcomes: Sequence[Outcome]) -> str:
    results = Counter(outcome.result for outcome in outcomes)
    told = [f"{results[result]} {result}" for result in ("whole", "failed", "cut")]
    odd = [f"{results['under way']} under way"] if results["under way"] else []
    return f"{what}: {len(outcomes)} sent, {', '.join([*told, *odd])}"
