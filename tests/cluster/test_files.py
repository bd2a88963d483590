import subprocess
import sys
import threading
from pathlib import Path

import pytest

from e2e.cluster import files, paths


def test_write_replaces_the_whole_file_and_sets_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    files.write(path, "first and long")
    files.write(path, b"second", mode=0o600)
    assert path.read_bytes() == b"second"
    assert path.stat().st_mode & 0o777 == 0o600
    assert [p.name for p in path.parent.iterdir()] == ["file"]


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = files.write(tmp_path / "file", "old")
    with pytest.raises(UnicodeEncodeError):
        files.write(path, "\ud800")
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        files.write(tmp_path / "folder", "new")
    assert path.read_text() == "old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "folder"]


def test_new_folder_appears_when_it_is_complete(tmp_path: Path) -> None:
    target = tmp_path / "made"
    with files.new_folder(target) as unfinished:
        (unfinished / "content").write_text("x")
        assert not target.exists()
    assert (target / "content").read_text() == "x"


def test_new_folder_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def interrupted() -> None:
        with files.new_folder(tmp_path / "made") as unfinished:
            (unfinished / "content").write_text("x")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []


HOLD = """
import sys, time
from pathlib import Path
from e2e.cluster import files
with files.locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_lock_is_waited_for_and_goes_with_its_killed_holder(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    command = [sys.executable, "-c", HOLD, str(lock)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=paths.REPOSITORY, text=True) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == "held\n"
        waiter = threading.Thread(target=lambda: files.locked(lock).__enter__())
        waiter.start()
        waiter.join(0.3)
        assert waiter.is_alive()
        holder.kill()
        waiter.join(10)
        assert not waiter.is_alive()
