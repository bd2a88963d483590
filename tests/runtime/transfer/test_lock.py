"""One at a time, whoever dies; and nobody waits for ever for one who shows no life."""

import asyncio
import errno
import fcntl
from pathlib import Path

import pytest

from gptservice_runtime.transfer import lock


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(lock, "BEAT_SECONDS", 0.02)


async def test_one_waits_for_another_who_lives(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, order = tmp_path / "lock", list[str]()
    caplog.set_level("INFO")

    async def second() -> None:
        async with lock.turn(path, lambda: "", patience=0.8):
            order.append("second")

    async with lock.turn(path, lambda: "half done", patience=0.8):
        waiting = asyncio.create_task(second())
        await asyncio.sleep(1.6)  # longer than patience: the beats are what keeps the second waiting
        order.append("first")
    await waiting
    assert order == ["first", "second"]
    assert "half done" in caplog.text


async def test_a_holder_without_a_sign_of_life_is_not_waited_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "lock"
    with path.open("w") as frozen:
        fcntl.flock(frozen, fcntl.LOCK_EX)
        async with lock.turn(path, lambda: "", patience=0.05):
            assert "going on without the lock" in caplog.text


async def test_a_file_system_without_locks_does_not_stop_anybody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(_file: int, _how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    async with lock.turn(tmp_path / "lock", lambda: ""):
        pass
    assert "has no locks" in caplog.text
