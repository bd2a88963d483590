"""The faults that are tried, at a write or at a watch event, and which of all trials a run takes."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from e2e.proxy import (
    EventAction,
    EventRule,
    Match,
    Rule,
    Switchboard,
    answer,
    drop_reply,
    duplicate,
    hang,
    kill,
    refuse_connection,
)
from e2e.proxy.faults import Countdown, Fault

SEED = os.environ.get("E2E_SEED", "1")
"""What chooses the sample; another value tries others."""

AT_A_WRITE: tuple[Fault, ...] = (
    refuse_connection(),
    drop_reply(),
    answer(409),
    answer(422),
    answer(429),
    answer(429, retry_after=1),
    answer(429, retry_after="Wed, 21 Oct 2026 07:28:00 GMT"),
    answer(500),
    answer(503, retry_after=1),
    hang(),
    hang("after"),
    duplicate(),
)
KILLS: tuple[Fault, ...] = (kill("before"), kill("after"))
# Whoever misses an event finds out by a resync: `lost` is apart.
AT_AN_EVENT = (EventAction.DUPLICATE, EventAction.DELAY, EventAction.CUT, EventAction.GONE)
LOST = EventAction.DROP
_DELAY_SECONDS = 1.0
_AT_EACH_WRITE = 3


@dataclass(frozen=True)
class Trial:
    """One fault, at the nth write or watch event of a service's namespace."""

    at: Literal["write", "event"]
    number: int
    fault: Fault | EventAction

    def __str__(self) -> str:
        return f"{self.fault} at {self.at} {self.number}"

    @property
    def kills(self) -> bool:
        return self.fault in KILLS

    def install(self, board: Switchboard, namespace: str) -> Countdown:
        """Have it happen in this namespace; returns what tells whether it has."""
        if isinstance(self.fault, Fault):
            return board.add(Rule(fault=self.fault, match=Match(namespace=namespace), nth=self.number))
        return board.add_event_rule(
            EventRule(action=self.fault, namespace=namespace, nth=self.number, seconds=_DELAY_SECONDS)
        )


def every(writes: int, events: int) -> list[Trial]:
    """Each fault at each write, and at each event one of theirs, in turn, and its loss."""
    trials = [Trial("write", n, fault) for n in range(1, writes + 1) for fault in (*AT_A_WRITE, *KILLS)]
    trials += [Trial("event", n, AT_AN_EVENT[n % len(AT_AN_EVENT)]) for n in range(1, events + 1)]
    return trials + [Trial("event", n, LOST) for n in range(1, events + 1)]


def in_turn(writes: int, events: int, name: str) -> list[Trial]:
    """Both kills and some other faults at each write, and one fault at each event.

    The others are taken in turn, so that four writes have seen all of them; where the turn begins depends on the
    scenario's name and SEED. So what is tried at all writes of all scenarios stays within half an hour.
    """
    begin = random.Random(f"{SEED} {name}").randrange(len(AT_A_WRITE))
    at_events = (*AT_AN_EVENT, LOST)
    trials = [Trial("write", n, fault) for n in range(1, writes + 1) for fault in KILLS]
    for n in range(1, writes + 1):
        turn = range(begin + n * _AT_EACH_WRITE, begin + (n + 1) * _AT_EACH_WRITE)
        trials += [Trial("write", n, AT_A_WRITE[at % len(AT_A_WRITE)]) for at in turn]
    return trials + [Trial("event", n, at_events[(begin + n) % len(at_events)]) for n in range(1, events + 1)]


def sample(trials: Sequence[Trial], name: str) -> list[Trial]:
    """Return a few of each sort, always the same ones for the same name and SEED."""
    chooser = random.Random(f"{SEED} {name}")
    kills = [trial for trial in trials if trial.kills]
    at_writes = [trial for trial in trials if trial.at == "write" and not trial.kills]
    at_events = [trial for trial in trials if trial.at == "event" and trial.fault is not LOST]
    sorts = ((kills, 1), (at_writes, 2), (at_events, 1 if at_writes else 4))
    return [trial for sort, count in sorts for trial in chooser.sample(sort, min(count, len(sort)))]
