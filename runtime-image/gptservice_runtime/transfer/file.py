"""One file's bytes, from its source to the disk: resumed, and checked before it counts.

The sources' own libraries check sizes and few digests, go on for ever as long as every try brings one byte, and where
there is no flock take locks that outlive a killed holder.
"""

import asyncio
import os
from dataclasses import dataclass, field
from http import HTTPStatus
from io import FileIO
from pathlib import Path

import aiohttp

from gptservice_runtime import contract, digest
from gptservice_runtime.transfer import http, progress, resuming, retrying, writing
from gptservice_runtime.transfer.digests import Hashes
from gptservice_runtime.transfer.pace import Pace
from gptservice_runtime.transfer.source import RemoteFile, Source

_WORTH_IT = 16 << 20
"""Bytes from which on a try that broke off was worth it."""


def is_right(path: Path, file: RemoteFile) -> str | None:
    """The sha256 of a file on disk, read whole; None if it is not the one that the source announced.

    Of an archive it is empty, where the source announced no sha256.
    """
    if not path.is_file() or path.stat().st_size != file.size:
        return None
    hashes = _begun(file)
    _read(path, hashes)
    return hashes.sha256 if hashes.are_right() else None


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """What all files of a fetch share."""

    http: http.Http
    source: Source
    patience: retrying.Patience
    progress: progress.Progress
    _reached: dict[str, int] = field(default_factory=dict[str, int], init=False)
    """By path: the most bytes that there ever were. A try that only came as far again was not worth it."""

    async def obtain(self, file: RemoteFile, part: Path, final: Path) -> str:
        """Download into `part`, going on where it ends, and rename it; the file's sha256. models.ModelError."""
        final.parent.mkdir(parents=True, exist_ok=True)
        self.progress.present += size_of(part)
        sha256 = await retrying.retrying(lambda: self._try(file, part), self.patience, self.progress.retried)
        # An archive is removed as soon as it is unpacked. Until then its digest tells whether a power cut has torn it.
        if not file.is_archive or file.digest is None:
            await asyncio.to_thread(_sync, part)
        os.replace(part, final)
        return sha256

    async def _try(self, file: RemoteFile, part: Path) -> str:
        # What a try before this one wrote, or a process before this one, is read again: nothing else vouches for it.
        hashes, have = _begun(file), size_of(part)
        # Each time: another pod that has the model may have taken this one for dead.
        part.parent.mkdir(parents=True, exist_ok=True)
        if have:
            await asyncio.to_thread(_read, part, hashes)
        if have < file.size:
            await self._receive(file, part, hashes)
        if size_of(part) < file.size:
            raise retrying.PassingError(contract.REASON_MODEL_DOWNLOAD_FAILED, f"{file.name}: the answer broke off")
        if size_of(part) > file.size or not hashes.are_right():
            self._discard(part)
            what = f"{file.name}: what arrived is not what {self.source.who} announced"
            if file.digest is None:
                # It is only longer, which says nothing of its bytes.
                raise retrying.PassingError(contract.REASON_MODEL_DOWNLOAD_FAILED, what)
            raise retrying.PassingError(contract.REASON_CHECKSUM_MISMATCH, what)
        if not file.size:
            await asyncio.to_thread(part.touch)
        return hashes.sha256

    async def _receive(self, file: RemoteFile, part: Path, hashes: Hashes) -> None:
        before, is_listed = size_of(part), True
        request = await self.source.request(self.http, file)
        try:
            async with self.http.get(request, file.name, before) as response:
                await self._accept(response, file, part)
                is_listed = resuming.is_listed(file, response.headers)
                await self._write(response, file, part, hashes)
        except retrying.PassingError as error:
            reached, have = self._reached.get(file.path, before), size_of(part)
            error.gained = have - reached >= _WORTH_IT
            self._reached[file.path] = max(reached, have)
            raise
        finally:
            # What was listed could be joined to it otherwise, if that comes next.
            if not is_listed and size_of(part) < file.size:
                self._discard(part)

    async def _write(self, response: aiohttp.ClientResponse, file: RemoteFile, part: Path, hashes: Hashes) -> None:
        have, pace = size_of(part), Pace(file.name, self.patience.stall)
        with _opened(part, have) as sink:
            async for piece in response.content.iter_any():
                pace.arrived(len(piece))
                await asyncio.to_thread(_take, sink.fileno(), hashes, piece)
                self.progress.arrived(len(piece))
                if (have := have + len(piece)) > file.size:
                    return

    async def _accept(self, response: aiohttp.ClientResponse, file: RemoteFile, part: Path) -> None:
        have = size_of(part)
        whole = response.status == HTTPStatus.OK and have == 0
        rest = response.status == HTTPStatus.PARTIAL_CONTENT and resuming.is_rest(file, response.headers, have)
        elsewhere = bool(response.history) and response.url.origin() != response.history[0].url.origin()
        if whole or rest:
            resuming.demand_bytes(file, response)
            return
        if response.ok or response.status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            self._discard(part)
            what = f"{file.name}: cannot be resumed (answered {response.status})"
            raise retrying.PassingError(contract.REASON_MODEL_DOWNLOAD_FAILED, what)
        if elsewhere:
            # The source let us pass; the address that it signed for the other host has run out, at worst.
            what = f"{file.name}: {response.url.host} answered {response.status} to {self.source.who}'s redirect"
            raise retrying.PassingError(contract.REASON_MODEL_DOWNLOAD_FAILED, what)
        raise self.source.fault(await http.refusal(response, file.name, self.patience.stall), file.name)

    def _discard(self, part: Path) -> None:
        self.progress.present -= size_of(part)
        part.unlink(missing_ok=True)


def size_of(path: Path) -> int:
    """Bytes; 0 for a file that is not there."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _opened(part: Path, position: int) -> FileIO:
    """To write from there on, and not at the end: who has taken this pod for dead and goes on writes the same there."""
    part.touch()
    sink = part.open("r+b", buffering=0)
    sink.seek(position)
    return sink


def _begun(file: RemoteFile) -> Hashes:
    """Of an archive nothing is kept, so that what the source announced is all that is asked of it."""
    return Hashes(file.size, file.digest, of_model=not file.is_archive)


def _read(path: Path, hashes: Hashes) -> None:
    if hashes.are_needed:
        digest.update(hashes, path)


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _take(file: int, hashes: Hashes, piece: bytes) -> None:
    """Off the loop, where the other files' bytes arrive: neither hashing nor writing needs the interpreter's lock."""
    hashes.update(piece)
    writing.write_all(file, piece)
