"""What is read of a mounted directory while the kubelet changes it."""

import os
from pathlib import Path

import pytest

from gptservice_runtime import kubelet, limits
from gptservice_runtime.keys import KeyDirectory
from tests.runtime.mounted import mount

LIMIT = b'{"maxInflightRequests": 5}'


def names(folder: Path) -> list[str]:
    return [name for name in os.listdir(folder) if not name.startswith(kubelet.PREFIX)]


def test_what_is_read_during_a_change_is_read_again(tmp_path: Path) -> None:
    mount(tmp_path, old=b"")
    looks: list[list[str]] = []

    def read(folder: Path) -> list[str]:
        looks.append(names(folder))
        if len(looks) == 1:
            mount(tmp_path, new=b"")
        return looks[-1]

    assert kubelet.read_whole(tmp_path, read) == ["new"]
    assert looks == [["old"], ["new"]]


def test_a_file_that_goes_meanwhile_is_looked_for_in_the_new_folder(tmp_path: Path) -> None:
    mount(tmp_path, key=b"1")
    turns = iter(range(10))

    def read(folder: Path) -> bytes:
        if next(turns) == 0:
            mount(tmp_path, key=b"2")
        return (folder / "key").read_bytes()

    assert kubelet.read_whole(tmp_path, read) == b"2"


def test_a_file_that_is_not_there_is_not_looked_for_again(tmp_path: Path) -> None:
    mount(tmp_path, key=b"1")
    looks: list[Path] = []

    def read(folder: Path) -> bytes:
        looks.append(folder)
        return (folder / "other").read_bytes()

    with pytest.raises(FileNotFoundError):
        kubelet.read_whole(tmp_path, read)
    assert len(looks) == 1


def test_a_directory_that_never_stands_still_is_read_in_the_end(tmp_path: Path) -> None:
    def read(_folder: Path) -> str:
        mount(tmp_path, key=b"")
        return "something"

    mount(tmp_path, key=b"")
    assert kubelet.read_whole(tmp_path, read) == "something"


def test_a_directory_of_plain_files_is_read_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("1")
    assert kubelet.read_whole(tmp_path, names) == ["key"]


def test_a_key_whose_name_in_the_secret_changes_stays_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kubelet comes between looking for names and reading them."""
    mount(tmp_path, first=b"sk-key")
    listed = os.listdir

    def list_and_change(folder: Path) -> list[str]:
        found = listed(folder)
        monkeypatch.setattr(os, "listdir", listed)
        mount(tmp_path, second=b"sk-key")
        return found

    keys = KeyDirectory(tmp_path)
    monkeypatch.setattr(os, "listdir", list_and_change)
    assert keys.accepts(b"sk-key")


def test_a_bound_holds_while_it_is_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is not there means no bound."""
    mount(tmp_path, limits_json=LIMIT)
    read_bytes = Path.read_bytes

    def change_and_read(path: Path) -> bytes:
        monkeypatch.setattr(Path, "read_bytes", read_bytes)
        mount(tmp_path, limits_json=LIMIT)
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", change_and_read)
    assert limits.LimitFile(tmp_path / "limits.json").current() == 5
