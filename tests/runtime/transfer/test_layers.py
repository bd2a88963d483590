"""What is left of a layer under those that lie over it."""

from pathlib import Path

import pytest

from gptservice_runtime.transfer import layers

LOWER = ("old", "old/config.json", "old/evil.py", "old/deep/x.py", "older.py", "new.py")


def layer(archive: str, *names: str, kind: str = layers.FILE) -> dict[str, layers.Entry]:
    return {name: layers.Entry(archive=Path(archive), kind=kind, size=1) for name in names}


@pytest.mark.parametrize(
    ("upper", "left"),
    [
        pytest.param(["old/.wh.evil.py"], {*LOWER} - {"old/evil.py"}, id="a file is removed"),
        pytest.param([".wh.old"], {"older.py", "new.py"}, id="a folder is removed with all in it"),
        pytest.param([".wh.old", "old/config.json"], {"older.py", "new.py", "old/config.json"}, id="and made again"),
        pytest.param(["old/.wh..wh..opq", "old/y.py"], {"old", "old/y.py", "older.py", "new.py"}, id="is emptied"),
        pytest.param([".wh..wh..opq"], set[str](), id="all is removed"),
        pytest.param([".wh..wh.plnk"], {*LOWER}, id="a name of a file system's own"),
        pytest.param(["old"], {"old", "older.py", "new.py"}, id="a file takes a folder's place"),
        pytest.param([".wh.", "old/.wh..", "old/.wh..."], {*LOWER}, id="nothing is named"),
    ],
)
def test_what_a_layer_removes(upper: list[str], left: set[str]) -> None:
    assert layers.over(layer("1", *LOWER), layer("2", *upper)).keys() == left


def test_a_layer_removes_nothing_of_its_own_and_replaces_what_is_below() -> None:
    both = layers.over(layer("1", "a/x", "a/y"), layer("2", "a/.wh.x", "a/x"))
    assert {name: entry.archive.name for name, entry in both.items()} == {"a/x": "2", "a/y": "1"}


def test_a_folder_takes_nothing_away() -> None:
    assert "a/x" in layers.over(layer("1", "a/x"), layer("2", "a", kind=layers.FOLDER))
