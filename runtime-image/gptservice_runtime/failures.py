"""Why the engine ended, as far as its exit status, its last lines and the cgroup's counter can tell. Pure."""

import difflib
import re
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from gptservice_runtime import contract

_LAST_LINES: Final = 12
_LINE_CHARACTERS: Final = 400
"""vLLM lists every supported architecture on one line."""
_ARGPARSE_ERROR = re.compile(r"^\S.*?: error: (?P<error>.+)$")
_UNRECOGNIZED = re.compile(r"^unrecognized arguments: (?P<name>-[^\s=.]+)")
_VALIDATION_ERROR = re.compile(r"validation errors? for \w+$")
_VALIDATION_DETAIL = re.compile(r"^\s*(?:Value error, )?(?P<error>.+?)(?: \[type=.*)?$")
_FIELD = re.compile(r"^[\w.]+$")
_DOCUMENTATION = re.compile(r"^\s+For further information visit ")
_PYTHON_ERROR = re.compile(r"^(?:\(\w+ pid=\d+\) ERROR .*?\] )?(?P<error>[A-Za-z_][\w.]*(?:Error|Exception): .+)$")
_REFERRAL = "root cause"
"""vLLM's outer processes end with an error that only refers to an earlier one."""
_GPU_OUT_OF_MEMORY = re.compile(r"torch\.(?:cuda\.)?OutOfMemoryError|CUDA out of memory")
_NO_DEVICE = re.compile(r"Failed to infer device type")
"""vLLM looks for a device that it was built for before it reads anything else."""
_STARTING: Final = frozenset({contract.PHASE_CHECKING, contract.PHASE_LOADING, contract.PHASE_WARMING_UP})

_Cause = tuple[contract.TerminationReason, str]


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


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """All that is known when the engine has ended."""

    ended: EngineExit
    phase: contract.Phase
    arguments: Sequence[str]
    """Those of the engine's arguments that came from the user's spec."""
    flags: Sequence[str]
    """Names that the engine takes, as far as the image says."""
    last_output: str
    oom_kills: int
    """Processes of this container that the kernel killed for memory since the engine started."""

    @property
    def lines(self) -> list[str]:
        """The output's lines, without empty ones."""
        return [line.rstrip() for line in self.last_output.splitlines() if line.strip()]


def classify(evidence: Evidence) -> contract.FailureMessage:
    """The failure to report."""
    reason, what = _killed(evidence) or _refused(evidence) or _failed(evidence)
    message = f"{what} ({evidence.ended})"
    if reason != contract.REASON_INVALID_ENGINE_ARGUMENT:
        message += _quote(evidence.lines)
    return {"reason": reason, "message": message, "phase": evidence.phase}


class FailedError(Exception):
    """The container has to end, and this is what to report."""

    def __init__(self, failure: contract.FailureMessage) -> None:
        super().__init__(failure["message"])
        self.failure = failure


def start_up_budget_used_up(
    phase: contract.Phase, budget: int, last_output: str, too_slow: str = ""
) -> contract.FailureMessage:
    """The failure of an engine that was still not serving after `budget` seconds.

    `too_slow` says what an engine that answers took for it last, where it had to be faster.
    """
    if too_slow:
        message = f"not fast enough within the start-up budget of {budget} s (startupTimeoutSeconds): {too_slow}"
        return {"reason": contract.REASON_MODEL_LOAD_FAILED, "message": message, "phase": phase}
    lines = [line.rstrip() for line in last_output.splitlines() if line.strip()]
    message = f"not serving after the start-up budget of {budget} s (startupTimeoutSeconds)" + _quote(lines)
    return {"reason": contract.REASON_MODEL_LOAD_FAILED, "message": message, "phase": phase}


def _quote(lines: list[str]) -> str:
    if not lines:
        return ""
    return "; last lines: " + "\n".join(_shorten(line) for line in lines[-_LAST_LINES:])


def _shorten(line: str) -> str:
    return line if len(line) <= _LINE_CHARACTERS else f"{line[:_LINE_CHARACTERS]} ..."


def _killed(evidence: Evidence) -> _Cause | None:
    if evidence.oom_kills > 0:
        return contract.REASON_OUT_OF_MEMORY, (
            f"the kernel killed {evidence.oom_kills} process(es) here at the memory limit: raise resources"
        )
    if evidence.ended.signal_number is not None:
        return contract.REASON_CRASH_LOOP, "the engine was killed"
    return None


def _refused(evidence: Evidence) -> _Cause | None:
    if evidence.ended.code != 2:
        return None
    for line in reversed(evidence.lines):
        if (match := _ARGPARSE_ERROR.match(line)) is not None:
            what = f"vllm refused its arguments: {match['error']}{_nearest(match['error'], evidence.flags)}"
            return contract.REASON_INVALID_ENGINE_ARGUMENT, what
    return None


def _nearest(error: str, flags: Sequence[str]) -> str:
    if (match := _UNRECOGNIZED.match(error)) is None:
        return ""
    near = difflib.get_close_matches(match["name"], flags, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _failed(evidence: Evidence) -> _Cause:
    if any(_GPU_OUT_OF_MEMORY.search(line) for line in evidence.lines):
        return contract.REASON_GPU_OUT_OF_MEMORY, "the GPU's memory is too small for this model and these arguments"
    if evidence.phase not in _STARTING:
        return contract.REASON_CRASH_LOOP, f"the engine ended without being asked{_root_cause(evidence.lines)}"
    if any(_NO_DEVICE.search(line) for line in evidence.lines):
        return contract.REASON_INVALID_IMAGE, (
            "the image's vllm has no backend for the device that the pod has: set gpu.count to what the image is built "
            "for, or name another image in engine.image, or for all replicas without a GPU in the chart's "
            "runtime.cpuImage; where the pod has GPUs, look at the node's driver, which may not show them"
        )
    error = _validation_error(evidence.lines)
    if error is None:
        what = f"the engine ended before the model was served{_root_cause(evidence.lines)}"
        return contract.REASON_MODEL_LOAD_FAILED, what
    if _names_an_argument(error, evidence.arguments):
        return contract.REASON_INVALID_ENGINE_ARGUMENT, f"vllm refused its arguments: {error}"
    return contract.REASON_MODEL_LOAD_FAILED, f"vllm refused the model: {error}"


def _root_cause(lines: list[str]) -> str:
    for line in reversed(lines):
        if (match := _PYTHON_ERROR.match(line)) is not None and _REFERRAL not in match["error"]:
            return f": {_shorten(match['error'])}"
    return ""


def _validation_error(lines: list[str]) -> str | None:
    """What pydantic says below the last line that names one of vLLM's configuration classes, field by field."""
    for number in range(len(lines) - 1, -1, -1):
        if _VALIDATION_ERROR.search(lines[number]) is not None:
            return "; ".join(_validation_details(lines[number + 1 :])) or None
    return None


def _validation_details(lines: list[str]) -> Iterator[str]:
    """An error is a line with the field's name, where one field is at fault, a detail below it, and a web address."""
    field = ""
    for line in lines:
        if _DOCUMENTATION.match(line) is not None:
            field = ""
        elif line.startswith(" ") and (match := _VALIDATION_DETAIL.match(line)) is not None:
            yield _shorten(f"{field}{match['error']}")
        elif _FIELD.match(line) is not None:
            field = f"{line}: "
        else:
            return


def _names_an_argument(error: str, arguments: Sequence[str]) -> bool:
    """Whether an option that was given is the subject: pydantic also reports models that vLLM does not know."""
    words = re.sub(r"[ -]", "_", error)
    options = [word.partition("=")[0][2:].replace("-", "_") for word in arguments if word.startswith("--")]
    return any(re.search(rf"(?<![A-Za-z]){re.escape(option)}(?![A-Za-z])", words) for option in options)
