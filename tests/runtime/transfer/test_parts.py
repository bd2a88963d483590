"""Files on their way: never two pods at one file, whatever locks are worth; and what a dead one left is not lost."""

import asyncio
import os
from pathlib import Path

import pytest

from gptservice_runtime.transfer import parts
from gptservice_runtime.transfer.parts import Parts
from tests.runtime.harness import until


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "BEAT_SECONDS", 0.02)
    monkeypatch.setattr(parts, "QUIET_SECONDS", 0.2)


def leave(folder: Path, pod: str, *, beat: bool = True, content: str = "half") -> None:
    """What a pod leaves that was killed; without its beat, one that ended in order."""
    (folder / pod / "deep").mkdir(parents=True)
    (folder / pod / "deep" / "model.part").write_text(content)
    if beat:
        (folder / f"{pod}.beat").write_text("17")


async def test_each_pod_has_its_own(tmp_path: Path) -> None:
    assert Parts(tmp_path, "a").own != Parts(tmp_path, "b").own
    assert Parts(tmp_path, "a").own == Parts(tmp_path, "a").own


@pytest.mark.parametrize("beat", [True, False], ids=["killed", "ended in order"])
async def test_what_a_pod_that_is_gone_left_is_gone_on_with(tmp_path: Path, beat: bool) -> None:
    leave(tmp_path, "gone", beat=beat)
    mine = Parts(tmp_path, "mine")
    async with mine.held():
        assert (mine.own / "deep" / "model.part").read_text() == "half"
        assert sorted(os.listdir(tmp_path)) == ["mine", "mine.beat"]


async def test_what_one_has_oneself_is_not_replaced(tmp_path: Path) -> None:
    leave(tmp_path, "gone")
    leave(tmp_path, "mine", content="more")
    async with Parts(tmp_path, "mine").held():
        assert (tmp_path / "mine" / "deep" / "model.part").read_text() == "more"


async def test_a_pod_that_is_started_again_waits_for_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "QUIET_SECONDS", 3600)
    leave(tmp_path, "mine")
    async with asyncio.timeout(5), Parts(tmp_path, "mine").held():
        assert (tmp_path / "mine" / "deep" / "model.part").exists()


async def test_a_pod_that_beats_is_waited_for_and_keeps_its_files(tmp_path: Path) -> None:
    order = list[str]()

    async def second() -> None:
        async with Parts(tmp_path, "b").held():
            order.append("b")

    first = Parts(tmp_path, "a")
    async with first.held():
        (first.own / "model.part").write_text("half")
        waiting = asyncio.create_task(second())
        await asyncio.sleep(0.7)
        order.append("a")
        assert (first.own / "model.part").read_text() == "half"
    first.clear()
    await waiting
    assert order == ["a", "b"]


async def test_of_those_who_wait_for_each_other_one_goes_on(tmp_path: Path) -> None:
    order = list[str]()
    for pod in ("a", "b", "c"):
        leave(tmp_path, pod)

    async def one(pod: str) -> None:
        mine = Parts(tmp_path, pod)
        async with mine.held():
            order.append(pod)
        mine.clear()

    async with asyncio.timeout(10):
        await asyncio.gather(*(one(pod) for pod in ("c", "a", "b")))
    assert (order[0], len(order)) == ("a", 3)


async def test_clearing_leaves_those_who_are_at_it(tmp_path: Path) -> None:
    mine, other = Parts(tmp_path, "a"), Parts(tmp_path, "b")
    async with mine.held():
        leave(tmp_path, "b")
        beating = asyncio.create_task(other._keep_beating())
        await asyncio.sleep(0.1)
        mine.clear()
        beating.cancel()
        assert not mine.own.exists()
        assert (other.own / "deep" / "model.part").exists()


async def test_nothing_is_left_when_all_are_done(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    mine = Parts(folder, "mine")
    async with mine.held():
        leave(folder, "later", beat=False)
    mine.clear()
    assert not folder.exists()


async def test_a_volume_that_cannot_be_written_for_a_moment_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Parts(tmp_path, "mine").held():
        with monkeypatch.context() as patched:
            patched.setattr(Path, "write_text", lambda *_: (_ for _ in ()).throw(OSError("full")))
            await asyncio.sleep(0.1)
        before = (tmp_path / "mine.beat").read_text()
        await until(lambda: (tmp_path / "mine.beat").read_text() not in ("", before), "the next beat")


async def test_what_an_older_runtime_left_is_removed(tmp_path: Path) -> None:
    old = tmp_path / "REVISION.parts" / "1_Pooling"
    old.mkdir(parents=True)
    (old / "config.json.part").write_text("of all pods")
    own = Parts(tmp_path / "REVISION.pods", "a")
    async with own.held():
        assert os.listdir(own.own) == []
    own.clear()
    assert os.listdir(tmp_path) == []
