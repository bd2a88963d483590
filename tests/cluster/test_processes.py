import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from e2e.cluster import processes


@pytest.fixture
def around(tmp_path: Path) -> Iterator[processes.Surroundings]:
    yield processes.Surroundings(tmp_path)
    processes.kill(processes.marked(tmp_path))


def test_a_started_component_is_recorded_logged_and_no_child_of_ours(around: processes.Surroundings) -> None:
    process = processes.start(around, "talker", ["sh", "-c", "echo hello; exec sleep 60"])
    assert processes.alive(process)
    assert processes.recorded(around.folder) == [process]
    assert processes.parent(process.pid) != os.getpid()
    _eventually(lambda: processes.log_path(around.folder, "talker").read_text() == "hello\n")
    # Nothing is resident in the moment of `exec`, and a small program's first pages are counted late.
    _eventually(lambda: (usage := processes.usage(process)) is not None and usage.resident_bytes > 0)


def test_only_our_own_environment_reaches_it(around: processes.Surroundings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example.com")
    process = processes.start(around, "sleeper", ["sleep", "60"], environment={"EXTRA": "1"})
    environment = Path(f"/proc/{process.pid}/environ").read_text()
    assert "EXTRA=1" in environment
    assert "PROXY" not in environment


def test_a_ctrl_c_in_the_terminal_does_not_reach_it(around: processes.Surroundings) -> None:
    process = processes.start(around, "sleeper", ["sleep", "60"])
    assert os.getsid(process.pid) != os.getsid(0)


def test_a_program_that_is_not_there_has_ended_and_said_why(around: processes.Surroundings) -> None:
    # The shell may still be about to fail, or be gone already.
    with contextlib.suppress(processes.StartError):
        ghost = processes.start(around, "ghost", ["/does/not/exist"])
        _eventually(lambda: _gone(ghost))
    assert "/does/not/exist" in processes.log_tail(processes.log_path(around.folder, "ghost"))


def _eventually(probe: Callable[[], object]) -> None:
    deadline = time.monotonic() + 10
    while not probe():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _gone(process: processes.Process) -> bool:
    return not processes.alive(process)


def test_a_group_that_cannot_be_joined_starts_nothing(around: processes.Surroundings, tmp_path: Path) -> None:
    outside = replace(around, cgroup_files=(tmp_path / "missing" / "cgroup.procs",))
    with pytest.raises(processes.StartError, match="could not be started"):
        processes.start(outside, "sleeper", ["sleep", "60"])
    assert processes.marked(tmp_path) == []


def test_an_id_used_again_is_not_taken_for_ours(around: processes.Surroundings) -> None:
    process = processes.start(around, "sleeper", ["sleep", "60"])
    stranger = replace(process, started=process.started - 1)
    assert not processes.alive(stranger)
    processes.kill([stranger])
    assert processes.alive(process)


def test_a_zombie_does_not_count_as_alive() -> None:
    child = subprocess.Popen(["sleep", "60"])
    process = next(p for p in _own_processes() if p.pid == child.pid)
    child.kill()
    try:
        _eventually(lambda: _gone(process))
        assert processes.usage(process) is None
    finally:
        child.wait()


def _own_processes() -> list[processes.Process]:
    found = []
    for pid in processes.children(os.getpid()):
        text = Path(f"/proc/{pid}/stat").read_text()
        found.append(processes.Process("", pid, int(text[text.rindex(")") + 2 :].split()[19])))
    return found


def test_stop_is_patient_then_firm(around: processes.Surroundings) -> None:
    polite = processes.start(around, "polite", ["sleep", "60"])
    stubborn = processes.start(around, "stubborn", ["sh", "-c", "trap '' TERM; while :; do sleep 0.05; done"])
    time.sleep(0.2)
    processes.stop(polite, grace_seconds=20)
    processes.stop(stubborn, grace_seconds=0.3)
    assert [processes.alive(process) for process in (polite, stubborn)] == [False, False]


def test_what_was_never_recorded_is_found_by_its_mark(around: processes.Surroundings, tmp_path: Path) -> None:
    process = processes.start(around, "sleeper", ["sleep", "60"])
    (tmp_path / "processes" / "sleeper.json").unlink()
    assert [found.pid for found in processes.marked(tmp_path)] == [process.pid]
    assert processes.marked(tmp_path / "other") == []
    assert processes.marked(tmp_path.parent) == []


def test_a_wrapper_is_seen_through_to_what_it_started(around: processes.Surroundings) -> None:
    wrapped = replace(around, prefix=("sh", "-c", '"$@" & wait', "wrapper"))
    process = processes.start(wrapped, "inner", ["sleep", "60"])
    _eventually(lambda: Path(f"/proc/{process.pid}/comm").read_text() == "sleep\n")
    os.kill(process.pid, signal.SIGKILL)
    _eventually(lambda: _gone(process))
