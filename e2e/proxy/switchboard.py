"""The proxy's state and the controls that a test turns."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Concatenate, Literal, ParamSpec, TypeVar

from multidict import CIMultiDict

from e2e.proxy.faults import Action, EventAction, EventRule, Fault, Match, Rule
from e2e.proxy.log import Entry, RequestLog
from e2e.proxy.target import Target

P = ParamSpec("P")
R = TypeVar("R")
_CALL_SECONDS = 10.0


@dataclass(eq=False)
class Watch:
    """One open watch connection; `cut` holds how it shall end as soon as it shall end."""

    resource: str
    entry: Entry
    cut: asyncio.Future[Literal["abort", "end"]]
    mute: bool = False
    """Nothing is passed on any more, and nobody is told."""


@dataclass(frozen=True)
class KeptList:
    """The answer to a list, for a `replay`."""

    headers: CIMultiDict[str]
    body: bytes


@dataclass(kw_only=True)
class Gone:
    """The next watch of `resource` (None: of any) is told 410, as HTTP status or as an ERROR event."""

    resource: str | None
    how: Literal["http", "event"]


def on_loop(
    method: Callable[Concatenate[Switchboard, P], R],
) -> Callable[Concatenate[Switchboard, P], R]:
    """Let a control be called from any thread: it runs on the proxy's event loop and is waited for."""

    @functools.wraps(method)
    def control(self: Switchboard, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if self.loop is None or _running_loop() is self.loop:
            return method(self, *args, **kwargs)

        async def call() -> R:
            return method(self, *args, **kwargs)

        return asyncio.run_coroutine_threadsafe(call(), self.loop).result(_CALL_SECONDS)

    return control


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


@dataclass(eq=False)
class Switchboard:
    """Rules, gates and open watches of one proxy. The public methods may be called from any thread.

    A `resource` argument is a plural name such as `deployments`; None means every one.
    """

    log: RequestLog = field(default_factory=RequestLog)
    victim_pid: int | None = None
    """The process that KILL faults end with SIGKILL."""
    loop: asyncio.AbstractEventLoop | None = None
    """The proxy's event loop, set when it starts."""
    _rules: list[Rule] = field(default_factory=list[Rule])
    _event_rules: list[EventRule] = field(default_factory=list[EventRule])
    _gone: list[Gone] = field(default_factory=list[Gone])
    _held: set[str | None] = field(default_factory=set[str | None])
    _paused: set[str | None] = field(default_factory=set[str | None])
    _delays: dict[str | None, float] = field(default_factory=dict[str | None, float])
    _watches: set[Watch] = field(default_factory=set[Watch])
    _lists: dict[str, KeptList] = field(default_factory=dict[str, KeptList])
    """The recorded answers by path and query."""
    _recording: bool = False
    _hung: int = 0
    _released: int = 0
    _change: asyncio.Event = field(default_factory=asyncio.Event)

    # Controls

    @on_loop
    def add(self, rule: Rule) -> Rule:
        """Install a rule and return it; its `seen` and `fired` count as requests come."""
        if rule.fault.action is Action.KILL and self.victim_pid is None:
            raise ValueError("a kill rule needs a victim: set victim_pid to the operator's process id first")
        self._rules.append(rule)
        return rule

    def fail(self, fault: Fault, *, match: Match | None = None, nth: int = 1, times: int | None = 1) -> Rule:
        """Shorthand for `add`: `fault` happens to the nth write that matches, counted from now."""
        return self.add(Rule(fault=fault, match=match or Match(), nth=nth, times=times))

    @on_loop
    def add_event_rule(self, rule: EventRule) -> EventRule:
        self._event_rules.append(rule)
        return rule

    def count_events(self, namespace: str) -> EventRule:
        """A rule that does nothing but count (`seen`) the watch events of a namespace from now on."""
        return self.add_event_rule(EventRule(action=EventAction.DELAY, namespace=namespace, times=0))

    @on_loop
    def cut_watches(self, resource: str | None = None, *, how: Literal["abort", "end"] = "abort") -> int:
        """Close open watches now, by dropping the connection or by ending the answer; returns how many."""
        hit = [w for w in self._watches if resource in (None, w.resource) and not w.cut.done()]
        for watch in hit:
            watch.cut.set_result(how)
        return len(hit)

    @on_loop
    def mute_watches(self, resource: str | None = None) -> int:
        """Let the watches that are open now fall silent for good; later ones are as usual. Returns how many."""
        hit = [watch for watch in self._watches if resource in (None, watch.resource)]
        for watch in hit:
            watch.mute = True
        return len(hit)

    @on_loop
    def hold_watches(self, resource: str | None = None) -> None:
        """Stop passing events; they are kept in order until `release_watches`."""
        self._held.add(resource)

    @on_loop
    def release_watches(self, resource: str | None = None) -> None:
        self._held.discard(resource)
        self._changed()

    @on_loop
    def pause_connections(self, resource: str | None = None) -> None:
        """Let new watches wait, unanswered, until `resume_connections`."""
        self._paused.add(resource)

    @on_loop
    def resume_connections(self, resource: str | None = None) -> None:
        self._paused.discard(resource)
        self._changed()

    @on_loop
    def delay_connections(self, seconds: float, resource: str | None = None) -> None:
        """Let every new watch wait `seconds` before it is forwarded."""
        self._delays[resource] = seconds

    @on_loop
    def answer_gone(
        self, resource: str | None = None, *, how: Literal["http", "event"] = "event", times: int = 1
    ) -> None:
        """Answer the next `times` new watches with 410 Gone."""
        self._gone += [Gone(resource=resource, how=how) for _ in range(times)]

    @on_loop
    def record_lists(self, on: bool = True) -> None:
        """Keep the last answer to each list, or stop to; `replay` faults give what was kept."""
        self._recording = on

    @on_loop
    def clear(self) -> None:
        """Take every fault back and let go what hangs or is held; open watches and the log stay."""
        for rules in (self._rules, self._event_rules, self._gone, self._held, self._paused, self._delays):
            rules.clear()
        self._lists.clear()
        self._recording = False
        self._released = self._hung
        self._changed()

    @on_loop
    def open_watches(self) -> list[str]:
        """The resources of the watches that are open now, sorted, once per connection."""
        return sorted(watch.resource for watch in self._watches)

    @on_loop
    def pending_gone(self) -> int:
        """How many 410 answers are still to be given."""
        return len(self._gone)

    # What the proxy asks, always on its loop

    def pick_fault(self, target: Target, user_agent: str) -> Fault | None:
        """The fault of the first rule that picks this request; every rule counts it."""
        picked = [r.fault for r in self._rules if r.match(target, user_agent) and r.picks()]
        return picked[0] if picked else None

    def pick_event_rule(self, resource: str, event: dict[str, object]) -> EventRule | None:
        picked = [rule for rule in self._event_rules if rule.accepts(resource, event) and rule.picks()]
        return picked[0] if picked else None

    @property
    def reads_events(self) -> bool:
        """Whether watch events must be parsed at all."""
        return bool(self._event_rules)

    def take_gone(self, resource: str) -> Gone | None:
        found = next((gone for gone in self._gone if gone.resource in (None, resource)), None)
        if found is not None:
            self._gone.remove(found)
        return found

    def keep_list(self, path: str, answer: KeptList) -> None:
        if self._recording:
            self._lists[path] = answer

    def kept_list(self, path: str) -> KeptList | None:
        return self._lists.get(path)

    async def admit_watch(self, resource: str) -> None:
        """Wait as long as new watches of this resource are delayed or paused."""
        await asyncio.sleep(max(self._delays.get(resource, 0.0), self._delays.get(None, 0.0)))
        await self._until(lambda: not self._paused & {None, resource})

    async def pass_gate(self, resource: str) -> None:
        """Wait as long as events of this resource are held."""
        await self._until(lambda: not self._held & {None, resource})

    async def hang(self) -> None:
        """Wait until `clear`."""
        self._hung += 1
        ticket = self._hung
        await self._until(lambda: self._released >= ticket)

    def open_watch(self, resource: str, entry: Entry) -> Watch:
        watch = Watch(resource, entry, asyncio.get_running_loop().create_future())
        self._watches.add(watch)
        return watch

    def close_watch(self, watch: Watch) -> None:
        self._watches.discard(watch)

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await self._change.wait()

    def _changed(self) -> None:
        self._change.set()
        self._change = asyncio.Event()
