"""Files that are hashed and brought to the disk beside the writing: right, whole, and never early in their places."""

import errno
import hashlib
import io
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gptservice_runtime import digest
from gptservice_runtime.transfer.writing import Writer


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """A disk that takes its time until the event is set."""
    ready, real = threading.Event(), os.fsync

    def slow(file: int) -> None:
        assert ready.wait(30)
        real(file)

    monkeypatch.setattr(os, "fsync", slow)
    yield ready
    ready.set()


def failing(code: int) -> Callable[[int], None]:
    def fail(_file: int) -> None:
        raise OSError(code, os.strerror(code))

    return fail


@pytest.mark.parametrize("size", [0, 1, digest.CHUNK, 9 * digest.CHUNK + 1])
def test_what_is_written_is_what_was_read(tmp_path: Path, size: int) -> None:
    content = os.urandom(size)
    with Writer(tmp_path / "parts") as writer:
        sha256 = writer.write(io.BytesIO(content), tmp_path / "a" / "b" / "w.safetensors")
    assert (tmp_path / "a" / "b" / "w.safetensors").read_bytes() == content
    assert sha256 == hashlib.sha256(content).hexdigest()
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["w.safetensors"]


def test_a_file_gets_its_name_when_it_is_on_the_disk(tmp_path: Path, disk: threading.Event) -> None:
    with Writer(tmp_path / "parts") as writer:
        for name in "ab":
            writer.write(io.BytesIO(name.encode()), tmp_path / name)
        assert not (tmp_path / "a").exists(), "reading goes on meanwhile"
        disk.set()
    assert [(tmp_path / name).read_text() for name in "ab"] == ["a", "b"]


def test_of_a_name_that_comes_twice_the_last_counts(tmp_path: Path, disk: threading.Event) -> None:
    with Writer(tmp_path / "parts") as writer:
        first, last = (writer.write(io.BytesIO(content), tmp_path / "a") for content in (b"first one", b"last"))
        disk.set()
    assert (tmp_path / "a").read_bytes() == b"last"
    assert [first, last] == [hashlib.sha256(content).hexdigest() for content in (b"first one", b"last")]
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["a"]


def test_a_disk_that_is_full_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", failing(errno.ENOSPC))
    with pytest.raises(OSError, match="No space left"), Writer(tmp_path / "parts") as writer:
        writer.write(io.BytesIO(b"x"), tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_it_does_not_run_far_ahead_of_a_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a failure would be seen at the very end, and each file that waits is open."""
    monkeypatch.setattr(os, "fsync", failing(errno.EIO))
    begun: list[int] = []

    def write_many() -> None:
        with Writer(tmp_path / "parts") as writer:
            for number in range(1000):
                begun.append(number)
                writer.write(io.BytesIO(b"x"), tmp_path / str(number))

    with pytest.raises(OSError, match="Input/output"):
        write_many()
    assert len(begun) < 50


def test_a_stream_that_breaks_leaves_no_file_of_that_name(tmp_path: Path) -> None:
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            if not (piece := super().read(size)):
                raise EOFError("cut short")
            return piece

    def write_both() -> None:
        with Writer(tmp_path / "parts") as writer:
            writer.write(io.BytesIO(b"whole"), tmp_path / "a")
            writer.write(Broken(b"x" * 5), tmp_path / "b")

    with pytest.raises(EOFError):
        write_both()
    assert (tmp_path / "a").read_bytes() == b"whole"
    assert not (tmp_path / "b").exists()


def test_a_file_that_is_not_whole_is_where_the_next_run_clears_up(tmp_path: Path, disk: threading.Event) -> None:
    with Writer(tmp_path / "parts") as writer:
        writer.write(io.BytesIO(b"x"), tmp_path / "model" / "a")
        assert list((tmp_path / "model").iterdir()) == []
        assert len(list((tmp_path / "parts").iterdir())) == 1
        disk.set()
    assert [path.name for path in (tmp_path / "model").iterdir()] == ["a"]
