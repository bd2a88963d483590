"""Where the time went: the stages of a run, as they begin and as a table at the end."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console
from rich.markup import escape
from rich.table import Table


@dataclass
class Stage:
    """One stage; `note` says in a few words what was done or found."""

    title: str
    seconds: float = 0.0
    note: str = ""


@dataclass
class Timeline:
    """The stages of one run, in order."""

    console: Console
    clock: Callable[[], float] = time.monotonic
    stages: list[Stage] = field(default_factory=list[Stage])

    @contextmanager
    def stage(self, title: str) -> Iterator[Stage]:
        """Announces a stage, and says how long it took when it ends well. The block may set its note."""
        stage = Stage(title)
        self.stages.append(stage)
        self.console.print(f"[bold]▸ {title}[/bold]")
        started = self.clock()
        try:
            yield stage
        finally:
            stage.seconds = self.clock() - started
        self.console.print(
            f"  [green]✓[/green] {escape(stage.note or 'done')} [dim]({spell(stage.seconds)})[/dim]",
            highlight=False,
        )

    def table(self) -> Table:
        """All stages with their time and the total."""
        table = Table(title="Where the time went", title_justify="left", show_footer=True)
        table.add_column("Stage", footer="total")
        table.add_column("Time", justify="right", footer=spell(sum(stage.seconds for stage in self.stages)))
        table.add_column("")
        for stage in self.stages:
            table.add_row(stage.title, spell(stage.seconds), stage.note)
        return table


def spell(seconds: float) -> str:
    """A duration for people: 0.4 s, 38 s, 12 min 05 s."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    whole = round(seconds)
    return f"{whole // 60} min {whole % 60:02} s"
