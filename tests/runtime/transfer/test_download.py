"""What is downloaded and what is not, and which revision is served when a download fails."""

import asyncio
import contextvars
import errno
import fcntl
import hashlib
import os
import platform
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gptservice_runtime import contract, digest, models
from gptservice_runtime.transfer import answers, parts, space, twins
from gptservice_runtime.transfer.digests import Algorithm, Digest
from gptservice_runtime.transfer.download import Downloaded, Downloader, Place
from gptservice_runtime.transfer.retrying import Patience
from gptservice_runtime.transfer.source import Listing, RemoteFile, Request
from tests.runtime.harness import free_ports

pytestmark = pytest.mark.wiring

WEIGHTS = bytes(range(256)) * 12_000
POD = contextvars.ContextVar("pod", default="pod")


@dataclass
class Hub:
    """A source with one model, and the server of its files."""

    port: int = field(default_factory=lambda: free_ports(1)[0])
    files: dict[str, bytes] = field(
        default_factory=lambda: {"config.json": b"{}", "model.safetensors": WEIGHTS, "vocab.txt": b"one"}
    )
    revision: str = "a" * 40
    algorithm: Algorithm | None = "sha256"
    down: bool = False
    seconds_per_piece: float = 0
    sent: int = 0

    who = "the hub"
    ca_remedy = "nothing"
    tls = None
    reference = "main"
    pinned = None
    uri = "hf://org/name@main"
    shelf = "org--name"

    def pin(self, revision: str) -> str | None:
        return revision

    def _digest(self, content: bytes) -> Digest | None:
        if self.algorithm is None:
            return None
        begun = hashlib.sha1(b"blob %d\0" % len(content)) if self.algorithm == "git-sha1" else hashlib.sha256()
        begun.update(content)
        return Digest(algorithm=self.algorithm, value=begun.hexdigest())

    async def listing(self, _connection: Any) -> Listing:
        found = [
            RemoteFile(path=name, size=len(content), digest=self._digest(content), name=name, address=name)
            for name, content in self.files.items()
        ]
        return Listing(revision=self.revision, files=tuple(found))

    async def request(self, _connection: Any, file: RemoteFile) -> Request:
        return Request(url=f"http://127.0.0.1:{self.port}/{file.address}")

    def fault(self, refusal: Any, what: str) -> Exception:
        return answers.fault(refusal, what, denied="", missing="")

    def push(self, **files: bytes) -> None:
        """A new revision, with these files changed."""
        self.files = {**self.files, **{name.replace("__", "."): content for name, content in files.items()}}
        self.revision = hashlib.sha1(repr(self.files).encode()).hexdigest()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if self.down:
            return web.Response(status=503)
        content = self.files[request.path[1:]]
        begin = int(request.headers.get("Range", "bytes=0-")[6:-1])
        response = web.StreamResponse(status=206 if begin else 200)
        if begin:
            response.headers["Content-Range"] = f"bytes {begin}-{len(content) - 1}/{len(content)}"
        response.content_length = len(content) - begin
        await response.prepare(request)
        for start in range(begin, len(content), 100_000):
            piece = content[start : start + 100_000]
            await response.write(piece)
            self.sent += len(piece)
            await asyncio.sleep(self.seconds_per_piece)
        return response


@pytest.fixture
async def hub() -> AsyncIterator[Hub]:
    serving = Hub()
    app = web.Application()
    app.router.add_get("/{name:.*}", serving.answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", serving.port).start()
    yield serving
    await runner.cleanup()


async def fetch(hub: Hub, cache: Path, *, limit: int | None = None, demanded: str | None = None) -> Downloaded:
    patience = Patience(tries=3, pause=0.01, stall=5)
    return await Downloader(hub, Place(cache_root=cache, limit=limit), patience, lambda _: None, demanded).run()


async def fetch_as(pod: str, after: float, hub: Hub, cache: Path) -> Downloaded:
    """As a pod of that name, so many seconds later."""
    POD.set(pod)
    await asyncio.sleep(after)
    return await fetch(hub, cache)


def assert_there(done: Downloaded, hub: Hub) -> None:
    assert done.revision == hub.revision
    assert {file.path: (done.folder / file.path).read_bytes() for file in done.files} == hub.files


@pytest.mark.parametrize("algorithm", ["sha256", "git-sha1"])
async def test_what_another_revision_has_is_not_downloaded_again(
    hub: Hub, tmp_path: Path, algorithm: Algorithm
) -> None:
    hub.algorithm = algorithm
    first = await fetch(hub, tmp_path)
    sent = hub.sent
    hub.push(vocab__txt=b"other")
    second = await fetch(hub, tmp_path)
    assert_there(second, hub)
    assert hub.sent - sent == len(b"other")
    assert (second.folder / "model.safetensors").samefile(first.folder / "model.safetensors")


async def test_such_a_revision_needs_no_room_for_what_is_there(hub: Hub, tmp_path: Path) -> None:
    limit = len(WEIGHTS) * 3 // 2
    await fetch(hub, tmp_path, limit=limit)
    for content in (b"two", b"three"):
        hub.push(vocab__txt=content)
        assert_there(await fetch(hub, tmp_path, limit=limit), hub)


async def test_a_file_under_another_name_is_the_same_file(hub: Hub, tmp_path: Path) -> None:
    await fetch(hub, tmp_path)
    sent = hub.sent
    hub.push(renamed__safetensors=hub.files.pop("model.safetensors"))
    assert_there(await fetch(hub, tmp_path), hub)
    assert hub.sent == sent


@pytest.mark.parametrize("demanded", [False, True])
async def test_bytes_that_have_changed_in_another_revision_are_not_taken(
    hub: Hub, tmp_path: Path, demanded: bool
) -> None:
    """Where a digest is demanded, sizes and times are no proof."""
    weights = (await fetch(hub, tmp_path)).folder / "model.safetensors"
    before = weights.stat()
    weights.write_bytes(b"x" + WEIGHTS[1:])
    if demanded:
        os.utime(weights, ns=(before.st_atime_ns, before.st_mtime_ns))
    hub.push(vocab__txt=b"other")
    wanted = [
        digest.FileDigest(path=p, size=len(c), sha256=hashlib.sha256(c).hexdigest()) for p, c in hub.files.items()
    ]
    done = await fetch(hub, tmp_path, demanded=digest.of_model(wanted) if demanded else None)
    assert_there(done, hub)


async def test_without_an_announced_digest_nothing_is_taken_for_the_same(hub: Hub, tmp_path: Path) -> None:
    hub.algorithm = None
    await fetch(hub, tmp_path)
    hub.push(model__safetensors=WEIGHTS[::-1])
    assert_there(await fetch(hub, tmp_path), hub)


async def test_where_there_are_no_links_it_is_copied(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    await fetch(hub, tmp_path)
    sent = hub.sent
    monkeypatch.setattr(os, "link", refuse)
    hub.push(vocab__txt=b"other")
    done = await fetch(hub, tmp_path)
    assert_there(done, hub)
    assert hub.sent - sent == len(b"other")
    assert (done.folder / "model.safetensors").stat().st_nlink == 1


def test_what_cannot_be_read_any_more_is_not_copied(tmp_path: Path) -> None:
    twins.copy(tmp_path / "gone", tmp_path / "parts" / "model.part")
    assert not twins.link(tmp_path / "gone", tmp_path / "parts" / "link", tmp_path / "model")


def test_a_file_with_two_names_takes_its_room_once(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(bytes(1_000_000))
    os.link(tmp_path / "one", tmp_path / "two")
    space.demand(tmp_path, 17_500_000, 20_000_000)


async def test_the_last_revision_is_served_while_files_cannot_be_had(
    hub: Hub, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = await fetch(hub, tmp_path)
    hub.push(model__safetensors=WEIGHTS[::-1])
    hub.down = True
    assert await fetch(hub, tmp_path) == first
    assert f"that was try 3 of 3; serving revision {first.revision}" in caplog.text
    hub.down = False
    assert_there(await fetch(hub, tmp_path), hub)


async def test_the_last_revision_is_served_where_there_is_no_room_for_another(
    hub: Hub, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = await fetch(hub, tmp_path)
    hub.push(model__safetensors=WEIGHTS[::-1])
    assert await fetch(hub, tmp_path, limit=len(WEIGHTS) * 3 // 2) == first
    assert "too small" in caplog.text


async def test_but_not_where_the_new_one_is_demanded(hub: Hub, tmp_path: Path) -> None:
    """The reason would be hidden behind a digest that is not the one demanded."""
    await fetch(hub, tmp_path)
    hub.push(model__safetensors=WEIGHTS[::-1])
    with pytest.raises(models.ModelError) as failed:
        await fetch(hub, tmp_path, limit=len(WEIGHTS) * 3 // 2, demanded=f"sha256:{'0' * 64}")
    assert failed.value.reason == contract.REASON_DISK_FULL


@pytest.mark.parametrize("what", ["locks of one node", "no locks"])
@pytest.mark.parametrize("delay", [0, 0.1, 0.3])
async def test_two_pods_that_do_not_see_each_other_s_locks_both_get_the_model(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, delay: float
) -> None:
    def flock(_file: int, _how: int) -> None:
        if what == "no locks":
            raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    monkeypatch.setattr(parts, "QUIET_SECONDS", 0.2)
    monkeypatch.setattr(parts, "BEAT_SECONDS", 0.02)
    monkeypatch.setattr(platform, "node", POD.get)
    hub.seconds_per_piece = 0.02

    for done in await asyncio.gather(fetch_as("a", 0, hub, tmp_path), fetch_as("b", delay, hub, tmp_path)):
        assert_there(done, hub)
    assert sorted(path.suffix for path in (tmp_path / "models" / "org--name").iterdir()) == ["", "", ".json", ".lock"]


async def test_a_pod_that_was_taken_for_dead_spoils_nothing(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file is gone on with by another, and it still writes to it."""
    monkeypatch.setattr(fcntl, "flock", lambda *_: None)
    monkeypatch.setattr(parts, "QUIET_SECONDS", 0.1)
    monkeypatch.setattr(parts, "BEAT_SECONDS", 3600)
    monkeypatch.setattr(platform, "node", POD.get)
    hub.seconds_per_piece = 0.03

    silent = asyncio.create_task(fetch_as("silent", 0, hub, tmp_path))
    assert_there(await fetch_as("other", 0.2, hub, tmp_path), hub)
    assert_there(await silent, hub)
    assert hub.sent < 3 * len(WEIGHTS)
    await asyncio.sleep(0.5)
    assert_there(await fetch(hub, tmp_path), hub)


async def test_a_model_that_somebody_else_has_completed_is_no_failure(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = await fetch(hub, tmp_path / "other")
    cached = tmp_path / "mine" / other.folder.relative_to(tmp_path / "other")

    def completed(*_: object) -> None:
        cached.parent.mkdir(parents=True, exist_ok=True)
        for name in (cached.name, f"{cached.name}.json"):
            os.rename(other.folder.with_name(name), cached.with_name(name))
        raise space.full(tmp_path, "for two at a time")

    monkeypatch.setattr(space, "demand", completed)
    assert_there(await fetch(hub, tmp_path / "mine"), hub)
