"""Building into the cache: whole or absent, once, and pruned."""

import os
import threading
from pathlib import Path

import pytest

from e2e.cluster.images import store


def build_file(path: Path) -> None:
    path.write_text("built")


def test_a_target_is_built_once(tmp_path: Path) -> None:
    target, calls = tmp_path / "thing-1", list[Path]()

    def build(path: Path) -> None:
        calls.append(path)
        build_file(path)

    for _ in range(2):
        assert store.built(target, build, what="a thing") == target
    assert target.read_text() == "built"
    assert len(calls) == 1


def test_a_failed_build_leaves_nothing_and_is_tried_again(tmp_path: Path) -> None:
    target = tmp_path / "thing-1"

    def fail(path: Path) -> None:
        build_file(path)
        path.with_name("scratch").mkdir()
        raise store.BuildError("no")

    with pytest.raises(store.BuildError, match="no"):
        store.built(target, fail, what="a thing")
    assert [entry.name for entry in tmp_path.iterdir()] == [".thing.lock"]
    assert store.built(target, build_file, what="a thing").read_text() == "built"


def test_what_a_killed_build_left_is_not_taken_for_the_result(tmp_path: Path) -> None:
    work = tmp_path / ".thing.new"
    (work / "deep").mkdir(parents=True)
    (work / "thing-1").write_text("half")
    assert store.built(tmp_path / "thing-2", build_file, what="a thing").read_text() == "built"
    assert not work.exists()


def test_several_at_once_build_it_once(tmp_path: Path) -> None:
    calls: list[int] = []

    def build(path: Path) -> None:
        calls.append(os.getpid())
        threading.Event().wait(0.2)
        build_file(path)

    threads = [
        threading.Thread(target=store.built, args=(tmp_path / "thing-1", build), kwargs={"what": "a thing"})
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1


def test_pruning_keeps_what_was_needed_last(tmp_path: Path) -> None:
    for age, name in enumerate(("thing-new", "thing-old", "thing-older", "other-oldest")):
        (tmp_path / name).write_text(name)
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    store.used(tmp_path / "thing-older")
    assert store.prune(tmp_path, "thing-*", keep=2) == [tmp_path / "thing-old"]
    assert {entry.name for entry in tmp_path.iterdir()} == {"thing-new", "thing-older", "other-oldest"}


def test_removing_a_link_spares_what_it_points_to(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    store.remove(tmp_path / "link")
    store.remove(tmp_path / "never-there")
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]


def test_a_failed_program_is_named_with_what_it_said() -> None:
    with pytest.raises(store.BuildError, match=r"counting failed: `sh -c .*` ended with 3 and said:\nto both"):
        store.run("sh", "-c", "echo to both; exit 3", what="counting")


def test_a_missing_program_is_named_with_the_remedy() -> None:
    with pytest.raises(store.BuildError, match="counting needs the program no-such-program: run `python -m"):
        store.run("no-such-program", what="counting")


def test_a_program_that_dies_with_us_is_told_to() -> None:
    """The prefix is accepted by the machine's setpriv and runs the program."""
    assert store.run(*store.DIES_WITH_US, "echo", "run", what="echo") == "run\n"
