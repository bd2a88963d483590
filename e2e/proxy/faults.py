"""The rules that decide what goes wrong, and for which request or watch event."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, cast

from e2e.proxy.target import WRITE_VERBS, Target


class Action(StrEnum):
    """What is done to a request that a rule picked."""

    KILL = "kill"
    """The client process gets SIGKILL, before or after the request is forwarded; it sees no answer."""
    DROP = "drop"
    """The connection is closed without an answer: `after`, the write is done and only its reply is lost."""
    ANSWER = "answer"
    """The proxy answers `code` itself and forwards nothing."""
    HANG = "hang"
    """No answer until the rules are cleared or the client gives up."""
    DUPLICATE = "duplicate"
    """Delivered twice; the client gets the second answer."""
    DELAY = "delay"
    """Forwarded (`before`) or answered (`after`) `seconds` later."""
    REPLAY = "replay"
    """A list is answered as it was while lists were recorded, resourceVersion and all; forwarded if it was not."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What happens to one request, and on which side of its forwarding."""

    action: Action
    when: Literal["before", "after"] = "before"
    code: int = 500
    retry_after: int | str | None = None
    """The Retry-After header of an `answer`: seconds, or any text such as a date; None leaves it out."""
    seconds: float = 0.0

    def __str__(self) -> str:
        if self.action is Action.ANSWER:
            wait = "" if self.retry_after is None else f" Retry-After {self.retry_after}"
            return f"answer {self.code}{wait}"
        if self.action in (Action.DUPLICATE, Action.REPLAY):
            return str(self.action)
        return f"{self.action} {self.when}"


def kill(when: Literal["before", "after"]) -> Fault:
    return Fault(action=Action.KILL, when=when)


def drop_reply() -> Fault:
    return Fault(action=Action.DROP, when="after")


def refuse_connection() -> Fault:
    return Fault(action=Action.DROP, when="before")


def answer(code: int, *, retry_after: int | str | None = None) -> Fault:
    return Fault(action=Action.ANSWER, code=code, retry_after=retry_after)


def hang(when: Literal["before", "after"] = "before") -> Fault:
    return Fault(action=Action.HANG, when=when)


def duplicate() -> Fault:
    return Fault(action=Action.DUPLICATE)


def delay(seconds: float, when: Literal["before", "after"] = "before") -> Fault:
    return Fault(action=Action.DELAY, seconds=seconds, when=when)


def replay() -> Fault:
    return Fault(action=Action.REPLAY)


@dataclass(frozen=True, kw_only=True)
class Match:
    """Which requests a rule counts: writes by default, never Leases or Events unless `resource` names them.

    An absent condition matches everything.
    """

    verbs: frozenset[str] = WRITE_VERBS
    resource: str | None = None
    namespace: str | None = None
    name: str | None = None
    subresource: str | None = None
    user_agent: str = ""
    """A prefix."""
    not_resources: frozenset[str] = frozenset({"leases", "events"})

    def __call__(self, target: Target, user_agent: str) -> bool:
        wanted = (
            (self.resource, target.resource),
            (self.namespace, target.namespace),
            (self.name, target.name),
            (self.subresource, target.subresource),
        )
        return (
            target.verb in self.verbs
            and all(want is None or want == have for want, have in wanted)
            and (self.resource is not None or target.resource not in self.not_resources)
            and user_agent.startswith(self.user_agent)
        )


@dataclass(kw_only=True)
class Countdown:
    """Picks the `nth` thing that it is shown and the `times - 1` after it; `times` None means for ever.

    With a `rate` below 1 each of these is picked with that probability; the same `seed` gives the same picks.
    """

    nth: int = 1
    times: int | None = 1
    rate: float = 1.0
    seed: int = 0
    seen: int = field(default=0, init=False)
    fired: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if self.nth < 1:
            raise ValueError(f"nth must be at least 1, got {self.nth}")
        if not 0 < self.rate <= 1:
            raise ValueError(f"rate must be above 0 and at most 1, got {self.rate}")
        self._random = random.Random(self.seed)  # noqa: S311 (not for secrets)

    def picks(self) -> bool:
        self.seen += 1
        if self.seen < self.nth or (self.times is not None and self.fired >= self.times):
            return False
        if self.rate < 1 and self._random.random() >= self.rate:
            return False
        self.fired += 1
        return True


@dataclass(kw_only=True)
class Rule(Countdown):
    """`fault` happens to the nth request that `match` accepts, counted from when the rule was added."""

    fault: Fault
    match: Match = Match()


class EventAction(StrEnum):
    """What is done to a watch event that a rule picked."""

    DROP = "drop"
    DELAY = "delay"
    DUPLICATE = "duplicate"
    CUT = "cut"
    """The connection is closed in place of the event."""
    GONE = "gone"
    """The watch ends with an ERROR event 410 in place of the event."""


@dataclass(kw_only=True)
class EventRule(Countdown):
    """`action` happens to the nth watch event that fits; an absent condition matches everything."""

    action: EventAction
    seconds: float = 0.0
    """For `delay`; later events of the same watch wait too, as order is kept."""
    resource: str | None = None
    types: frozenset[str] = frozenset({"ADDED", "MODIFIED", "DELETED"})
    namespace: str | None = None
    name: str | None = None

    def accepts(self, resource: str, event: Mapping[str, Any]) -> bool:
        metadata = _metadata(event)
        wanted = (
            (self.resource, resource),
            (self.namespace, metadata.get("namespace")),
            (self.name, metadata.get("name")),
        )
        return event.get("type") in self.types and all(want is None or want == have for want, have in wanted)


def _metadata(event: Mapping[str, Any]) -> Mapping[str, Any]:
    found: object = event.get("object", {}).get("metadata", {})
    return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}


def rule_from_json(data: Mapping[str, Any]) -> Rule:
    """A Rule from the control port's JSON: `{"fault": {...}, "match": {...}, "nth": 1, "times": 1}`.

    Raises TypeError or ValueError for an unknown key or action.
    """
    fault: dict[str, Any] = {**data["fault"], "action": Action(data["fault"]["action"])}
    match: dict[str, Any] = dict(data.get("match", {}))
    for key in ("verbs", "not_resources"):
        if key in match:
            match[key] = frozenset(match[key])
    rest = {key: value for key, value in data.items() if key not in ("fault", "match")}
    return Rule(fault=Fault(**fault), match=Match(**match), **rest)


def event_rule_from_json(data: Mapping[str, Any]) -> EventRule:
    """An EventRule from the control port's JSON; errors as `rule_from_json`."""
    fields: dict[str, Any] = {**data, "action": EventAction(data["action"])}
    if "types" in fields:
        fields["types"] = frozenset(fields["types"])
    return EventRule(**fields)
