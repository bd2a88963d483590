"""`make demo` as a user runs it, interrupted at every stage, and again to the end."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from e2e.cluster import paths, records

pytestmark = [pytest.mark.node, pytest.mark.vllm, pytest.mark.long, pytest.mark.timeout(3600)]

# The first words of the lines that announce the stages in which something changes.
STAGES = ["Images", "Test model", "Cluster", "helm install", "kubectl apply", "Question"]
ENDS_WITHIN_SECONDS = 120


class Demo:
    """Runs the demo's commands against a cluster of the test's own."""

    def __init__(self, name: str) -> None:
        self.name = name

    def start(self, *command: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-u", "-m", "e2e.demo", "--name", self.name, *command],
            cwd=paths.REPOSITORY,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # so that the signal reaches it and its children, as from a terminal
        )

    def run(self, *command: str) -> tuple[int, str]:
        with self.start(*command) as process:
            output, _ = process.communicate()
        return process.returncode, output

    def interrupt_in(self, stage: str) -> tuple[int, str]:
        """Sends what Ctrl-C sends as soon as the stage is announced."""
        with self.start("up") as process:
            assert process.stdout
            seen: list[str] = []
            for line in process.stdout:
                seen.append(line)
                if line.startswith(f"▸ {stage}"):
                    os.killpg(process.pid, signal.SIGINT)
                    break
            rest, _ = process.communicate(timeout=ENDS_WITHIN_SECONDS)
        return process.returncode, "".join([*seen, rest])


@pytest.fixture(scope="module")
def demo() -> Iterator[Demo]:
    made = Demo(f"test-demo-{os.getpid()}")
    yield made
    made.run("down")


@pytest.mark.parametrize("stage", STAGES)
def test_ctrl_c_ends_it_at_once_and_says_how_to_go_on(demo: Demo, stage: str) -> None:
    status, output = demo.interrupt_in(stage)
    assert status == 130, output
    assert "`make demo` goes on from here" in output
    assert "Traceback" not in output


def test_after_all_that_it_runs_to_the_end_and_a_second_run_reuses_everything(demo: Demo) -> None:
    output = ""
    for _ in range(2):
        status, output = demo.run("up")
        assert status == 0, output
        assert "Paris" in output
    assert "built" not in output
    assert f"cluster {demo.name} is already running" in output


@pytest.mark.parametrize("stage", ["Cluster", "helm install"])
def test_down_works_after_an_interruption(demo: Demo, stage: str) -> None:
    demo.run("down")
    status, output = demo.interrupt_in(stage)
    assert status == 130, output
    status, output = demo.run("down")
    assert status == 0, output
    assert records.load(demo.name) is None
