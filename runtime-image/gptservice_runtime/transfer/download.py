"""A model from its source into the cache: at most once for all who share it, and only what is not there already."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from gptservice_runtime import contract, digest, models
from gptservice_runtime.digest import FileDigest
from gptservice_runtime.transfer import archives, file, http, lock, retrying, space, twins
from gptservice_runtime.transfer.parts import Parts
from gptservice_runtime.transfer.progress import Progress
from gptservice_runtime.transfer.snapshot import Shelf, Snapshot
from gptservice_runtime.transfer.source import Listing, RemoteFile, Source

_log = logging.getLogger(__name__)
_AT_A_TIME = 4
"""Files on their way: one connection seldom fills the line."""
_TRIES_WITH_A_SPARE = 2
"""A source that does not answer is not waited for long where the model is in the cache."""


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
    revision: str
    files: tuple[FileDigest, ...]

    @property
    def model(self) -> Path:
        """What an engine is started on: the folder, or the one file of a model that is a single file."""
        only = self.files[0].path if len(self.files) == 1 else ""
        return self.folder / only if models.is_single_file(only) else self.folder


Admit = Callable[[Iterable[tuple[str, int]]], None]
"""Refuses files by names and sizes before they come: models.ModelError."""


class Downloader:
    """One fetch."""

    def __init__(
        self,
        source: Source,
        place: Place,
        patience: retrying.Patience,
        admit: Admit,
        demanded: str | None = None,
    ) -> None:
        """`demanded`: the model's digest; then all that is in the cache is read, and sizes and times not trusted."""
        self._source = source
        self._place = place
        self._patience = patience
        self._admit = admit
        self._demanded = demanded
        self._shelf = Shelf.of(place.cache_root, source)
        self.progress = Progress(source.uri)

    async def run(self) -> Downloaded:
        """Have it in the cache; models.ModelError."""
        try:
            async with http.connected(self._source, self._patience.stall) as connection:
                return await self._run(connection)
        except OSError as error:
            raise self._unwritable(error) from error

    async def _run(self, connection: http.Http) -> Downloaded:
        spare = await self._in_cache(self._shelf.known())
        if spare is not None and self._source.pinned is not None:
            return spare
        try:
            listing = await self._listing(connection, spare)
            if spare is not None and spare.revision == listing.revision:
                return spare
            self._admit((remote.path, remote.size) for remote in listing.files)
            self.progress.total = sum(remote.size for remote in listing.files)
            return await self._in_cache(listing.revision) or await self._downloaded(connection, listing)
        except models.ModelError as error:
            if spare is None or not self._is_as_good(spare, error):
                raise
            _log.warning("%s; serving revision %s, which is in the cache", error, spare.revision)
            return spare

    def _is_as_good(self, spare: Downloaded, error: models.ModelError) -> bool:
        """Whether the last revision is better than this failure; never where another one is demanded."""
        is_wanted = self._demanded in (None, digest.of_model(spare.files))
        return is_wanted and error.reason in _BETTER_THE_LAST

    async def _listing(self, connection: http.Http, spare: Downloaded | None) -> Listing:
        patience = self._patience
        if spare is not None:
            patience = replace(patience, tries=min(patience.tries, _TRIES_WITH_A_SPARE))
        return await retrying.retrying(lambda: self._source.listing(connection), patience, self.progress.retried)

    async def _in_cache(self, revision: str | None) -> Downloaded | None:
        """What is in the cache and is as it was when it was complete."""
        if revision is None:
            return None
        snapshot = self._shelf.snapshot(revision)
        manifest = await asyncio.to_thread(snapshot.manifest)
        if manifest is None:
            return None
        doubted = manifest.files if self._demanded is not None else tuple(snapshot.suspects(manifest))
        wrong = await _wrong(snapshot, doubted)
        if wrong:
            _log.warning("%s in the cache is not as it was: %s", snapshot.folder, ", ".join(one.path for one in wrong))
            return None
        if snapshot.suspects(manifest):
            snapshot.complete(manifest.files)
        self.progress.total = self.progress.present = sum(one.size for one in manifest.files)
        self._shelf.remember(revision)
        return Downloaded(folder=snapshot.folder, revision=revision, files=manifest.files)

    async def _downloaded(self, connection: http.Http, listing: Listing) -> Downloaded:
        try:
            return await self._in_turn(connection, listing)
        except OSError as error:
            raise self._unwritable(error) from error

    async def _in_turn(self, connection: http.Http, listing: Listing) -> Downloaded:
        snapshot = self._shelf.snapshot(listing.revision)
        self._shelf.folder.mkdir(parents=True, exist_ok=True)
        async with lock.turn(snapshot.lock, lambda: str(self.progress)):
            # Whoever had the turn before may have downloaded it.
            if (there := await self._in_cache(listing.revision)) is not None:
                return there
            try:
                files = await self._obtained(connection, listing, snapshot)
            except (models.ModelError, OSError):
                # Where locks do not hold, somebody else may have, meanwhile.
                if (there := await self._in_cache(listing.revision)) is not None:
                    return there
                raise
        self._shelf.remember(listing.revision)
        return Downloaded(folder=snapshot.folder, revision=listing.revision, files=files)

    async def _obtained(self, connection: http.Http, listing: Listing, snapshot: Snapshot) -> tuple[FileDigest, ...]:
        parts = Parts(snapshot.parts)
        async with parts.held():
            there = await self._in_cache(listing.revision) if parts.has_waited else None
            files = there.files if there else await self._complete(connection, listing, snapshot, parts.own)
        await asyncio.to_thread(parts.clear)
        return files

    async def _complete(
        self, connection: http.Http, listing: Listing, snapshot: Snapshot, scratch: Path
    ) -> tuple[FileDigest, ...]:
        self.progress.present = 0
        gathered = await self._gather(connection, listing, snapshot, scratch)
        files = await asyncio.to_thread(self._unpacked, gathered, listing, snapshot, scratch)
        snapshot.complete(files)
        return tuple(files)

    async def _gather(
        self, connection: http.Http, listing: Listing, snapshot: Snapshot, scratch: Path
    ) -> list[FileDigest]:
        found, missing = await self._sort(listing, snapshot, scratch)
        parts = {remote.path: scratch / f"{remote.path}.part" for remote, _ in missing}
        still = sum(max(remote.size - file.size_of(parts[remote.path]), 0) for remote, _ in missing)
        # An archive and what is in it are there side by side for a while.
        still += sum(remote.size for remote in listing.files if remote.is_archive)
        await asyncio.to_thread(space.demand, self._place.cache_root, still, self._place.limit)
        slots = asyncio.Semaphore(_AT_A_TIME)
        shared = file.Transfer(http=connection, source=self._source, patience=self._patience, progress=self.progress)

        async def one(remote: RemoteFile, twin: Path | None) -> FileDigest:
            async with slots:
                part = parts[remote.path]
                if twin is not None:
                    await asyncio.to_thread(twins.copy, twin, part)
                sha256 = await shared.obtain(remote, part, _place_of(remote, snapshot, scratch))
            return FileDigest(path=remote.path, size=remote.size, sha256=sha256)

        return [*found, *await _together(one(*each) for each in missing)]

    async def _sort(
        self, listing: Listing, snapshot: Snapshot, scratch: Path
    ) -> tuple[list[FileDigest], list[tuple[RemoteFile, Path | None]]]:
        """Those that are there and right, and those to download or, where there is a path, to copy from there."""
        siblings = await asyncio.to_thread(self._shelf.others, listing.revision)
        known = await asyncio.to_thread(twins.Twins, siblings, thorough=self._demanded is not None)
        found, missing = list[FileDigest](), list[tuple[RemoteFile, Path | None]]()
        for remote in listing.files:
            place = _place_of(remote, snapshot, scratch)
            twin: Path | None = None
            sha256 = await asyncio.to_thread(file.is_right, place, remote)
            if sha256 is None:
                place.unlink(missing_ok=True)
                twin, sha256 = await asyncio.to_thread(self._linked, known, remote, scratch / "twin.link", place)
            if sha256 is None:
                missing.append((remote, twin))
            else:
                self.progress.present += remote.size
                found.append(FileDigest(path=remote.path, size=remote.size, sha256=sha256))
        return found, missing

    def _linked(
        self, known: twins.Twins, remote: RemoteFile, scratch: Path, place: Path
    ) -> tuple[Path | None, str | None]:
        """The file of another revision that is the same, and its sha256 if it has this name, too, by now."""
        if (twin := known.of(remote)) is None:
            return None, None
        path, sha256 = twin
        if not twins.link(path, scratch, place):
            return path, None
        _log.info("%s is the one of %s", remote.name, path)
        return path, sha256

    def _unpacked(
        self, gathered: list[FileDigest], listing: Listing, snapshot: Snapshot, scratch: Path
    ) -> list[FileDigest]:
        """The model's files, where archives came."""
        packed = [remote.path for remote in listing.files if remote.is_archive]
        if not packed:
            return gathered
        loose = [one for one in gathered if one.path not in packed]
        content = archives.look_into([scratch / name for name in packed], self._source.uri)
        self._admit(content.sizes.items())
        still = sum(content.sizes.values())
        space.demand(self._place.cache_root, still, self._place.limit)
        return [*loose, *archives.unpack(content, snapshot.folder, scratch)]

    def _unwritable(self, error: OSError) -> models.ModelError:
        if error.errno in space.NO_ROOM:
            return space.full(self._place.cache_root, f"writing stopped ({error.strerror}) at {self.progress}")
        return models.ModelError(
            contract.REASON_MODEL_DOWNLOAD_FAILED,
            f"cannot read or write {error.filename or self._place.cache_root}: {error.strerror}: the cache volume must "
            "be writable for the pod's fsGroup",
        )


_BETTER_THE_LAST = frozenset(
    {
        contract.REASON_DISK_FULL,
        contract.REASON_HUB_THROTTLED,
        contract.REASON_MODEL_DOWNLOAD_FAILED,
        contract.REASON_MODEL_DOWNLOAD_STALLED,
    }
)
"""Failures with which the revision before goes on being served, if it is in the cache."""


def _place_of(remote: RemoteFile, snapshot: Snapshot, scratch: Path) -> Path:
    return (scratch if remote.is_archive else snapshot.folder) / remote.path


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
