"""Whether an engine that has served still does: from probes, metrics and processes to one answer. Pure.

vLLM's own health check answers while its engine core hangs, and a core that reads a long prompt answers nothing else
meanwhile: only several signs together tell the two apart.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from gptservice_runtime.processes import Process

PROBE_PERIOD_SECONDS: Final = 3.0
PROBE_TIMEOUT_SECONDS: Final = 3.0
SILENCE_SECONDS: Final = PROBE_PERIOD_SECONDS + PROBE_TIMEOUT_SECONDS + 1.0
"""Without any result for so long, the API server itself hangs: a failure, and another for every period after that."""
IN_A_ROW: Final = 5
"""Failures that make an engine unresponsive, and answers that make it well again."""
STEPS_IN_WINDOW: Final = 3
"""While requests run, an engine that fails may still be at a long step: it gets so many times the longest one seen."""
LEAST_WINDOW_SECONDS: Final = 15.0
LEAST_WINDOW_ON_CPU_SECONDS: Final = 60.0
"""There, the first long prompt may take a step of that order before any other was seen."""
MOST_WINDOW_SECONDS: Final = 300.0
"""Whatever was seen: a hang is told in bounded time."""

_CORE: Final = re.compile(r"VLLM::(EngineCor|Worker)")
"""Names, cut by the kernel, of the processes without which vLLM cannot go on; others come and go (compilers)."""
_STOPPED: Final = "T"
_DEAD: Final = frozenset("ZXx")


@dataclass(frozen=True, kw_only=True)
class Look:
    """What is to be seen at one moment; the numbers count from the engine's start."""

    now: float
    """Seconds of a monotonic clock."""
    answered: int
    """Probes that the engine core answered in time."""
    failed: int
    """Probes that it did not."""
    movements: int
    """Times that a metric of the engine had changed since it was last read; it is only read while requests run."""
    in_flight: int
    processes: tuple[Process, ...]
    """Those of the engine."""


@dataclass(frozen=True, kw_only=True)
class Health:
    """What has been concluded; begin with `Health.at` and go on with `after`."""

    last: Look
    problem: str = ""
    """Why the engine must get no requests; empty while it may."""
    dead_since: float | None = None
    """When a process was first missed without which the engine cannot recover."""
    answers_in_row: int = 0
    failures_in_row: int = 0
    heard: float
    """Time of the last probe result."""
    moved: float
    """When a metric last moved, or no request was running."""
    longest_step: float = 0.0
    least_window: float
    cores: frozenset[int]
    stopped: bool = False
    """Whether a process was, since a metric last moved."""

    @classmethod
    def at(cls, look: Look, *, on_cpu: bool = False) -> "Health":
        """A healthy engine, as it is after its warm-up."""
        least = LEAST_WINDOW_ON_CPU_SECONDS if on_cpu else LEAST_WINDOW_SECONDS
        cores = _cores(look.processes)
        return cls(last=look, heard=look.now, moved=look.now, least_window=least, cores=cores)

    def after(self, look: Look) -> "Health":
        """What the next look changes."""
        seen = self._with_probes(look)._with_movements(look)
        broken, dead = _broken(look.processes, self.cores)
        if broken:
            seen = replace(seen, problem=broken, answers_in_row=0, stopped=True)
        elif seen.failures_in_row >= IN_A_ROW and not seen._may_be_at_a_step(look):
            seen = replace(seen, problem=seen._unanswered(look))
        elif seen.answers_in_row >= IN_A_ROW:
            seen = replace(seen, problem="")
        since = None if not dead else look.now if self.dead_since is None else self.dead_since
        return replace(seen, last=look, dead_since=since, cores=self.cores | _cores(look.processes))

    def _with_probes(self, look: Look) -> "Health":
        answered, failed = look.answered - self.last.answered, look.failed - self.last.failed
        if answered and failed:
            # In which order is not known: neither row goes on.
            return replace(self, answers_in_row=0, failures_in_row=0, heard=look.now)
        if answered:
            return replace(self, answers_in_row=self.answers_in_row + answered, failures_in_row=0, heard=look.now)
        if failed:
            return replace(self, answers_in_row=0, failures_in_row=self.failures_in_row + failed, heard=look.now)
        # Where no result ever came, nobody asks: an image with another engine is judged by its processes alone.
        if look.now - self.heard >= SILENCE_SECONDS and (look.answered or look.failed):
            heard = self.heard + PROBE_PERIOD_SECONDS
            return replace(self, answers_in_row=0, failures_in_row=self.failures_in_row + 1, heard=heard)
        return self

    def _with_movements(self, look: Look) -> "Health":
        if look.in_flight == 0:
            return replace(self, moved=look.now, stopped=False)
        if look.movements == self.last.movements:
            return self
        # A pause that ended by itself was a step, even if it was taken for a hang: the next one will not be.
        step = 0.0 if self.stopped else look.now - self.moved
        return replace(self, moved=look.now, longest_step=max(self.longest_step, step), stopped=False)

    @property
    def window(self) -> float:
        """Seconds that may pass without a movement while requests run."""
        return min(MOST_WINDOW_SECONDS, max(self.least_window, STEPS_IN_WINDOW * self.longest_step))

    def _may_be_at_a_step(self, look: Look) -> bool:
        return look.in_flight > 0 and look.now - self.moved < self.window

    def _unanswered(self, look: Look) -> str:
        told = f"the engine has not answered {self.failures_in_row} probes in a row"
        if look.in_flight == 0:
            return f"{told}, though no request is running"
        return f"{told}, and none of its metrics has moved for {look.now - self.moved:.0f} s with requests running"


def _cores(processes: Iterable[Process]) -> frozenset[int]:
    return frozenset(one.pid for one in processes if _CORE.match(one.name) and one.state not in _DEAD)


def _broken(processes: tuple[Process, ...], cores: frozenset[int]) -> tuple[str, bool]:
    """What is wrong with the engine's processes, and whether it is past recovery."""
    lost = cores - {one.pid for one in processes if one.state not in _DEAD}
    if lost:
        return f"process {min(lost)} of the engine has ended, and it cannot go on without it", True
    for one in processes:
        if one.state == _STOPPED:
            return f"process {one.pid} of the engine ({one.name}) is stopped (SIGSTOP): let it go on by SIGCONT", False
    return "", False
