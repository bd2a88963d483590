"""Keys of inputs: equal for equal inputs, different for any difference that a build could see."""

from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.cluster.images import keys


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "module.py").write_text("a = 1\n")
    (tmp_path / "package" / "data").symlink_to("module.py")
    (tmp_path / "single.txt").write_text("text")
    return tmp_path


INPUTS = ("package", "single.txt")


def test_the_same_content_elsewhere_has_the_same_key(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    (other / "single.txt").write_text("text")
    (other / "package").mkdir()
    (other / "package" / "data").symlink_to("module.py")
    (other / "package" / "module.py").write_text("a = 1\n")
    assert keys.of_files(other, INPUTS) == keys.of_files(root, INPUTS)


def add_file(root: Path) -> None:
    (root / "package" / "new.py").touch()


def edit_file(root: Path) -> None:
    (root / "package" / "module.py").write_text("a = 2\n")


def rename_file(root: Path) -> None:
    (root / "package" / "module.py").rename(root / "package" / "renamed.py")


def make_executable(root: Path) -> None:
    (root / "single.txt").chmod(0o755)


def point_link_elsewhere(root: Path) -> None:
    (root / "package" / "data").unlink()
    (root / "package" / "data").symlink_to("../single.txt")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(add_file, id="new empty file"),
        pytest.param(edit_file, id="other content"),
        pytest.param(rename_file, id="other name"),
        pytest.param(make_executable, id="executable bit"),
        pytest.param(point_link_elsewhere, id="target of a link"),
    ],
)
def test_a_change_gives_another_key(root: Path, change: Callable[[Path], None]) -> None:
    before = keys.of_files(root, INPUTS)
    change(root)
    assert keys.of_files(root, INPUTS) != before


def test_what_python_leaves_behind_changes_nothing(root: Path) -> None:
    before = keys.of_files(root, INPUTS)
    (root / "package" / "__pycache__").mkdir()
    (root / "package" / "__pycache__" / "module.cpython-311.pyc").touch()
    (root / "package" / "stray.pyc").touch()
    assert keys.of_files(root, INPUTS) == before


def test_a_forgotten_input_is_an_error(root: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"missing\.txt"):
        keys.of_files(root, ["missing.txt"])


def test_where_one_part_ends_matters() -> None:
    assert keys.of("ab", "c") != keys.of("a", "bc")
    assert keys.of("a", "") != keys.of("a")
