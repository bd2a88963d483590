"""A model from a hub into the cache: at most once for all who share it, and only what is not there already."""

import asyncio
import errno
import logging
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import aiohttp
from aiohttp import web

from gptservice_runtime import contract, digest, metrics, models, probes
from gptservice_runtime.digest import FileDigest
from gptservice_runtime.hub import lock, repository, retrying, space, transfer
from gptservice_runtime.hub.progress import Progress
from gptservice_runtime.hub.repository import Listing, RemoteFile, Repository
from gptservice_runtime.hub.snapshot import Shelf, Snapshot

_log = logging.getLogger(__name__)
_AT_A_TIME = 4
"""Files on their way: one connection seldom fills the line."""
_BUFFER = 1 << 18
_TRIES_WITH_A_SPARE = 2
"""A hub that does not answer is not waited for long where the model is in the cache."""
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a model goes."""

    cache_root: Path
    limit: int | None
    """Bytes that it may hold, where its file system does not know."""


@dataclass(frozen=True, kw_only=True)
class Downloaded:
    """A model in the cache."""

    folder: Path
    commit: str
    files: tuple[FileDigest, ...]


class Downloader:
    """One fetch."""

    def __init__(
        self,
        wanted: Repository,
        place: Place,
        hub: repository.HuggingFaceHub,
        patience: retrying.Patience,
        thorough: bool,
    ) -> None:
        """`thorough`: read all that is in the cache already, instead of trusting sizes and times."""
        self._wanted = wanted
        self._place = place
        self._hub = hub
        self._patience = patience
        self._thorough = thorough
        self._shelf = Shelf.of(place.cache_root, wanted)
        self.progress = Progress(str(wanted))

    async def run(self) -> Downloaded:
        """Have it in the cache; models.ModelError."""
        try:
            return await self._run()
        except OSError as error:
            raise self._unwritable(error) from error

    async def _run(self) -> Downloaded:
        spare = await self._in_cache(self._shelf.known(self._wanted))
        if spare is not None and self._wanted.is_pinned:
            return spare
        try:
            listing = await self._listing(spare)
        except models.ModelError as error:
            if spare is None or error.reason not in _PASSING:
                raise
            _log.warning("%s; serving commit %s, which is in the cache", error, spare.commit)
            return spare
        if spare is not None and spare.commit == listing.commit:
            return spare
        self.progress.total = sum(file.size for file in listing.files)
        return await self._in_cache(listing.commit) or await self._in_turn(listing)

    async def _listing(self, spare: Downloaded | None) -> Listing:
        patience = self._patience
        if spare is not None:
            patience = replace(patience, tries=min(patience.tries, _TRIES_WITH_A_SPARE))
        return await retrying.retrying(lambda: self._hub.listing(self._wanted), patience, self.progress.retried)

    async def _in_cache(self, commit: str | None) -> Downloaded | None:
        """What is in the cache and is as it was when it was complete."""
        if commit is None:
            return None
        snapshot = self._shelf.snapshot(commit)
        manifest = await asyncio.to_thread(snapshot.manifest)
        if manifest is None:
            return None
        doubted = manifest.files if self._thorough else tuple(snapshot.suspects(manifest))
        wrong = await _wrong(snapshot, doubted)
        if wrong:
            _log.warning(
                "%s in the cache is not as it was: %s", snapshot.folder, ", ".join(file.path for file in wrong)
            )
            return None
        if snapshot.suspects(manifest):
            snapshot.complete(manifest.files)
        self.progress.total = self.progress.present = sum(file.size for file in manifest.files)
        self._shelf.remember(self._wanted, commit)
        return Downloaded(folder=snapshot.folder, commit=commit, files=manifest.files)

    async def _in_turn(self, listing: Listing) -> Downloaded:
        snapshot = self._shelf.snapshot(listing.commit)
        self._shelf.folder.mkdir(parents=True, exist_ok=True)
        async with lock.turn(snapshot.lock, lambda: str(self.progress)) as turn:
            # Whoever had the turn before may have downloaded it.
            if (there := await self._in_cache(listing.commit)) is not None:
                return there
            self.progress.present = 0
            files = await self._gather(listing, snapshot, turn.part_suffix)
            snapshot.complete(files)
        self._shelf.remember(self._wanted, listing.commit)
        return Downloaded(folder=snapshot.folder, commit=listing.commit, files=tuple(files))

    async def _gather(self, listing: Listing, snapshot: Snapshot, part_suffix: str) -> list[FileDigest]:
        found, missing = await self._sort(listing.files, snapshot)
        parts = {file.path: snapshot.parts / f"{file.path}{part_suffix}" for file in missing}
        still = sum(max(file.size - transfer.size_of(parts[file.path]), 0) for file in missing)
        await asyncio.to_thread(space.demand, self._place.cache_root, still, self._place.limit)
        slots = asyncio.Semaphore(_AT_A_TIME)

        async def one(file: RemoteFile) -> FileDigest:
            url = self._hub.url(self._wanted, listing.commit, file.path)
            async with slots:
                sha256 = await shared.obtain(file, url, parts[file.path], snapshot.folder / file.path)
            return FileDigest(path=file.path, size=file.size, sha256=sha256)

        async with self._session() as session:
            shared = transfer.Transfer(
                session=session,
                headers=self._hub.headers,
                token=self._hub.token,
                patience=self._patience,
                progress=self.progress,
            )
            return [*found, *await _together(one(file) for file in missing)]

    async def _sort(self, files: Iterable[RemoteFile], snapshot: Snapshot) -> tuple[list[FileDigest], list[RemoteFile]]:
        """Those that are there and right, and those to download; wrong ones are removed."""
        found, missing = list[FileDigest](), list[RemoteFile]()
        for file in files:
            path = snapshot.folder / file.path
            sha256 = await asyncio.to_thread(transfer.is_right, path, file)
            if sha256 is None:
                path.unlink(missing_ok=True)
                missing.append(file)
            else:
                self.progress.present += file.size
                found.append(FileDigest(path=file.path, size=file.size, sha256=sha256))
        return found, missing

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[aiohttp.ClientSession]:
        stall = self._patience.stall
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=stall, sock_read=stall)
        # trust_env: the hub's library obeys the proxy's variables, too.
        async with aiohttp.ClientSession(
            timeout=timeout, trust_env=True, auto_decompress=False, read_bufsize=_BUFFER
        ) as session:
            yield session

    def _unwritable(self, error: OSError) -> models.ModelError:
        if error.errno in _NO_ROOM:
            return space.full(self._place.cache_root, f"writing stopped ({error.strerror}) at {self.progress}")
        return models.ModelError(
            contract.REASON_MODEL_DOWNLOAD_FAILED,
            f"cannot write {error.filename or self._place.cache_root}: {error.strerror}: the cache volume must be "
            "writable for the pod's fsGroup",
        )


_PASSING = frozenset(
    {
        contract.REASON_HUB_THROTTLED,
        contract.REASON_MODEL_DOWNLOAD_FAILED,
        contract.REASON_MODEL_DOWNLOAD_STALLED,
    }
)


async def _together(acts: Iterable[Coroutine[None, None, FileDigest]]) -> list[FileDigest]:
    """All results, or the first failure; then none goes on."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(act) for act in acts]
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]


async def _wrong(snapshot: Snapshot, doubted: Iterable[FileDigest]) -> list[FileDigest]:
    def is_wrong(file: FileDigest) -> bool:
        try:
            return digest.of_file(snapshot.folder, file.path) != file
        except OSError:
            return True

    judged = [(file, await asyncio.to_thread(is_wrong, file)) for file in doubted]
    return [file for file, wrong in judged if wrong]


@asynccontextmanager
async def told(progress: Progress, port: int) -> AsyncIterator[None]:
    """Tell of the progress in the log and on `/metrics` while the context is open."""

    async def scrape(_request: web.Request) -> web.Response:
        return web.Response(body=progress.page(), headers={"Content-Type": metrics.CONTENT_TYPE})

    app = web.Application()
    app.add_routes([web.get(contract.METRICS_PATH, scrape)])
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(probes.serving(app, port))
        except OSError as error:
            _log.warning("no metrics of this download: port %d: %s", port, error.strerror)
        reporting = asyncio.create_task(progress.report())
        stack.callback(reporting.cancel)
        yield
