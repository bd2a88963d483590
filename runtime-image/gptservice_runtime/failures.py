"""Why the engine ended, as far as its exit status, its last lines and the cgroup's counter can tell. Pure."""

import re
import signal
from dataclasses import dataclass
from typing import Final

from gptservice_runtime import contract

_LAST_LINES: Final = 12
_ARGPARSE_ERROR = re.compile(r"^\S.*?: error: (?P<error>.+)$")
_VALIDATION_ERROR = re.compile(r"validation errors? for \w*(?:Config|Args)\b")
_GPU_OUT_OF_MEMORY = re.compile(r"torch\.(?:cuda\.)?OutOfMemoryError|CUDA out of memory")
_STARTING: Final = frozenset({contract.PHASE_CHECKING, contract.PHASE_LOADING, contract.PHASE_WARMING_UP})


@dataclass(frozen=True, kw_only=True)
class EngineExit:
    """How the engine's process ended; exactly one of code and signal number is not None."""

    code: int | None
    signal_number: int | None

    @classmethod
    def from_wait_status(cls, status: int) -> "EngineExit":
        """From what waitpid returned."""
        if status & 0x7F:
            return cls(code=None, signal_number=status & 0x7F)
        return cls(code=status >> 8, signal_number=None)

    def __str__(self) -> str:
        if self.signal_number is None:
            return f"exit code {self.code}"
        try:
            return f"signal {self.signal_number} ({signal.Signals(self.signal_number).name})"
        except ValueError:
            return f"signal {self.signal_number}"


def classify(*, ended: EngineExit, phase: contract.Phase, last_output: str, oom_kills: int) -> contract.FailureMessage:
    """The failure to report; `oom_kills` counts the processes killed for memory since the engine started."""
    lines = [line.rstrip() for line in last_output.splitlines() if line.strip()]
    reason, what = _cause(ended, phase, lines, oom_kills)
    message = f"{what}; the engine ended with {ended}"
    if reason != contract.REASON_INVALID_ENGINE_ARGUMENT and lines:
        message += "; its last lines: " + "\n".join(lines[-_LAST_LINES:])
    return {"reason": reason, "message": message, "phase": phase}


def _cause(
    ended: EngineExit, phase: contract.Phase, lines: list[str], oom_kills: int
) -> tuple[contract.TerminationReason, str]:
    if oom_kills > 0:
        return contract.REASON_OUT_OF_MEMORY, (
            f"the kernel killed {oom_kills} process(es) here at the memory limit: raise resources"
        )
    if ended.signal_number is not None:
        return contract.REASON_CRASH_LOOP, "the engine was killed"
    if ended.code == 2 and (error := _argparse_error(lines)) is not None:
        return contract.REASON_INVALID_ENGINE_ARGUMENT, f"vllm refused its arguments: {error}"
    if any(_GPU_OUT_OF_MEMORY.search(line) for line in lines):
        return (
            contract.REASON_GPU_OUT_OF_MEMORY,
            "the GPU's memory is too small for this model and these arguments",
        )
    if phase not in _STARTING:
        return contract.REASON_CRASH_LOOP, "the engine ended without being asked"
    if (error := _validation_error(lines)) is not None:
        return contract.REASON_INVALID_ENGINE_ARGUMENT, f"vllm refused its arguments: {error}"
    return contract.REASON_MODEL_LOAD_FAILED, "the engine ended before the model was served"


def _argparse_error(lines: list[str]) -> str | None:
    for line in reversed(lines):
        if (match := _ARGPARSE_ERROR.match(line)) is not None:
            return match["error"]
    return None


def _validation_error(lines: list[str]) -> str | None:
    """What pydantic says below the line that names one of vLLM's configuration classes."""
    for number, line in enumerate(lines):
        if _VALIDATION_ERROR.search(line) is not None:
            return " ".join(part.strip() for part in lines[number : number + 3])
    return None


def start_up_budget_used_up(phase: contract.Phase, budget: int, last_output: str) -> contract.FailureMessage:
    """The failure of an engine that was still not serving after `budget` seconds."""
    lines = [line.rstrip() for line in last_output.splitlines() if line.strip()]
    message = f"not serving after the start-up budget of {budget} s (startupTimeoutSeconds)"
    if lines:
        message += "; the engine's last lines: " + "\n".join(lines[-_LAST_LINES:])
    return {"reason": contract.REASON_MODEL_LOAD_FAILED, "message": message, "phase": phase}
