"""Shows a GPTService while one waits for it: a table redrawn on a terminal, else a line for each change."""

import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from e2e.demo.timeline import spell
from e2e.kubectl import Object

MESSAGE_WIDTH = 300
CONDITIONS = ("Accepted", "Progressing", "Available", "Degraded", "Ready")
# Degraded is the one that is good when False.
_GOOD = {"Degraded": "False"}
_PHASE_STYLES = {"Ready": "bold green", "Degraded": "bold red", "Stopped": "dim"}


@dataclass(frozen=True)
class Condition:
    """One condition of a status; all fields are empty where the status has none of that type."""

    type: str
    status: str = ""
    reason: str = ""
    message: str = ""

    @property
    def style(self) -> str:
        """Green for good, red for a Degraded service, else yellow; dim while unknown."""
        if self.status not in ("True", "False"):
            return "dim"
        if self.status == _GOOD.get(self.type, "True"):
            return "green"
        return "red" if self.type == "Degraded" else "yellow"


def conditions(service: Object) -> list[Condition]:
    """All five conditions of a service, in the order in which they usually become true."""
    given = cast(list[dict[str, Any]], _status(service).get("conditions") or [])
    by_type = {one["type"]: one for one in given}
    return [_condition(type_, by_type.get(type_, {})) for type_ in CONDITIONS]


def phase(service: Object) -> str:
    """The phase, `Pending` before the operator has said anything."""
    return str(_status(service).get("phase") or "Pending")


def is_ready(service: Object) -> bool:
    """Whether Ready is True and speaks of the present spec."""
    generation = service["metadata"].get("generation")
    given = cast(list[dict[str, Any]], _status(service).get("conditions") or [])
    return any(
        one["type"] == "Ready" and one["status"] == "True" and one.get("observedGeneration", generation) == generation
        for one in given
    )


def is_degraded(service: Object) -> bool:
    """Whether the operator says that something is wrong that waiting will not mend."""
    return any(one.type == "Degraded" and one.status == "True" for one in conditions(service))


def line(service: Object) -> str:
    """A state in one line: the phase, and what Ready says of it."""
    ready = conditions(service)[-1]
    said = f"{ready.reason}: {ready.message}" if ready.message else ready.reason
    return f"{phase(service):12}Ready={ready.status or 'Unknown'} {said}".rstrip()


@dataclass
class View:
    """Draws the newest state. `show` may be called as often as one likes; only changes make output."""

    console: Console
    clock: Callable[[], float] = time.monotonic
    service: Object = field(default_factory=dict[str, Any])
    started: float = 0.0
    _last_line: str = ""

    @contextmanager
    def running(self) -> Iterator["View"]:
        """Draws until the block ends."""
        self.started = self.clock()
        if not self.console.is_terminal:
            yield self
            return
        with Live(self, console=self.console, refresh_per_second=4):
            yield self

    def show(self, service: Object) -> None:
        """Takes a new state."""
        self.service = service
        if not self.console.is_terminal and (text := line(service)) != self._last_line:
            self._last_line = text
            self.console.print(f"  {spell(self.clock() - self.started):>8}  {text}", markup=False, highlight=False)

    def __rich__(self) -> Group:
        """The table, with the time that has passed until now."""
        if not self.service:
            return Group(Text("  waiting for the API server", style="dim"))
        now = phase(self.service)
        name = f"{self.service['metadata']['namespace']}/{self.service['metadata']['name']}"
        head = Text.assemble(
            "  GPTService ", (name, "bold"), "  ", (now, _PHASE_STYLES.get(now, "bold yellow")),
            (f"  {spell(self.clock() - self.started)}", "dim"),
        )  # fmt: skip
        table = Table(box=None, padding=(0, 2, 0, 2), show_header=False)
        for one in conditions(self.service):
            table.add_row(
                one.type, Text(one.status or "-", style=one.style), one.reason, Text(one.message, style="dim")
            )
        return Group(head, table)


def _status(service: Object) -> dict[str, Any]:
    return cast(dict[str, Any], service.get("status") or {})


def _condition(type_: str, given: dict[str, Any]) -> Condition:
    # The engine's last words can be many lines; the full text is in `kubectl describe`.
    message = textwrap.shorten(given.get("message", ""), MESSAGE_WIDTH, placeholder=" ...")
    return Condition(type_, given.get("status", ""), given.get("reason", ""), message)
