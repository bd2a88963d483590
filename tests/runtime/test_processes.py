"""Which processes are the engine's, by the kernel's own words."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gptservice_runtime import processes
from gptservice_runtime.processes import Process
from tests.runtime.harness import state


@pytest.mark.parametrize(
    ("stat", "expected"),
    [
        pytest.param("11 (VLLM::Engine) S 10 10 1 0 -1", Process(pid=11, name="VLLM::Engine", state="S"), id="core"),
        pytest.param("11 (a) Z (b) T 10 10 1 0", Process(pid=11, name="a) Z (b", state="T"), id="a name to deceive"),
        pytest.param("12 (other) S 10 11 1 0 -1", None, id="another group"),
        pytest.param("", None, id="ended meanwhile"),
        pytest.param("13 (half", None, id="half a line"),
    ],
)  # fmt: skip
def test_a_line_of_the_kernels(tmp_path: Path, stat: str, expected: Process | None) -> None:
    (tmp_path / "11").mkdir()
    (tmp_path / "11" / "stat").write_text(stat)
    (tmp_path / "12").mkdir()
    (tmp_path / "self").mkdir()
    assert processes.of_group(10, tmp_path) == (() if expected is None else (expected,))


@pytest.fixture
def sleeper() -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], process_group=0) as child:
        yield child.pid
        child.kill()


def test_a_real_one_is_seen_as_it_is(sleeper: int) -> None:
    for number, letter in ((signal.SIGSTOP, "T"), (signal.SIGKILL, "Z")):
        os.kill(sleeper, number)
        while state(sleeper) != letter:
            time.sleep(0.001)
        (seen,) = processes.of_group(sleeper)
        assert (seen.pid, seen.state) == (sleeper, letter)
