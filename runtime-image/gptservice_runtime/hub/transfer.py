"""One file's bytes, from the hub to the disk: resumed, and checked before it counts.

huggingface_hub's own transfer checks sizes and no digests, goes on for ever as long as every try brings one byte, and
where there is no flock takes a lock that outlives a killed holder.
"""

import asyncio
import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

import aiohttp

from gptservice_runtime import contract, digest
from gptservice_runtime.hub import answers, progress, retrying
from gptservice_runtime.hub.repository import RemoteFile

_WORTH_IT = 16 << 20
"""Bytes from which on a try that broke off was worth it."""


class Hashes:
    """Both digests of what was written so far."""

    def __init__(self, file: RemoteFile) -> None:
        """Begin `file`."""
        self._file = file
        self.sha256 = hashlib.sha256()
        self._git = hashlib.sha1(b"blob %d\0" % file.size, usedforsecurity=False)

    def update(self, piece: bytes) -> None:
        """Take the next bytes."""
        self.sha256.update(piece)
        if self._file.git_sha1 is not None:
            self._git.update(piece)

    def are_right(self) -> bool:
        """Whether it is the file that the hub announced; without a digest, its size has to do."""
        if self._file.sha256 is not None:
            return self.sha256.hexdigest() == self._file.sha256
        return self._file.git_sha1 is None or self._git.hexdigest() == self._file.git_sha1


def is_right(path: Path, file: RemoteFile) -> str | None:
    """The sha256 of a file on disk, read whole; None if it is not the one that the hub announced."""
    if not path.is_file() or path.stat().st_size != file.size:
        return None
    hashes = Hashes(file)
    digest.update(hashes, path)
    return hashes.sha256.hexdigest() if hashes.are_right() else None


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """What all files of a fetch share."""

    session: aiohttp.ClientSession
    headers: Mapping[str, str]
    token: str | None
    patience: retrying.Patience
    progress: progress.Progress

    async def obtain(self, file: RemoteFile, url: str, part: Path, final: Path) -> str:
        """Download into `part`, going on where it ends, and rename it; the file's sha256. models.ModelError."""
        for folder in (part.parent, final.parent):
            folder.mkdir(parents=True, exist_ok=True)
        self.progress.present += size_of(part)
        sha256 = await retrying.retrying(lambda: self._try(file, url, part), self.patience, self.progress.retried)
        os.replace(part, final)
        return sha256

    async def _try(self, file: RemoteFile, url: str, part: Path) -> str:
        # What a try before this one wrote, or a process before this one, is read again: nothing else vouches for it.
        hashes, have = Hashes(file), size_of(part)
        if have:
            await asyncio.to_thread(digest.update, hashes, part)
        if have < file.size:
            await self._receive(file, url, part, hashes)
        if size_of(part) < file.size:
            raise retrying.PassingError(contract.REASON_MODEL_DOWNLOAD_FAILED, f"{url}: the answer broke off")
        if size_of(part) > file.size or not hashes.are_right():
            self._discard(part)
            what = f"{url}: what arrived is not what the hub announced"
            raise retrying.PassingError(contract.REASON_CHECKSUM_MISMATCH, what)
        return hashes.sha256.hexdigest()

    async def _receive(self, file: RemoteFile, url: str, part: Path, hashes: Hashes) -> None:
        have = before = size_of(part)
        try:
            async with self.session.get(url, headers=self._headers_from(have)) as response:
                self._accept(response, url, part)
                with part.open("ab", buffering=0) as sink:
                    async for piece in response.content.iter_any():
                        await asyncio.to_thread(_write, sink.fileno(), piece)
                        hashes.update(piece)
                        self.progress.arrived(len(piece))
                        if (have := have + len(piece)) > file.size:
                            return
                    await asyncio.to_thread(os.fsync, sink.fileno())
        except TimeoutError as error:
            what = f"{url}: no byte came for {self.patience.stall:g} s"
            gained = have - before >= _WORTH_IT
            raise retrying.PassingError(contract.REASON_MODEL_DOWNLOAD_STALLED, what, gained=gained) from error
        except aiohttp.ClientError as error:
            # Its text may hold the address of a redirect, which is signed; the type says what happened.
            what = f"{url}: the connection failed ({type(error).__name__}) after {progress.size(have - before)}"
            gained = have - before >= _WORTH_IT
            raise retrying.PassingError(contract.REASON_MODEL_DOWNLOAD_FAILED, what, gained=gained) from error

    def _headers_from(self, have: int) -> dict[str, str]:
        begin = {"Range": f"bytes={have}-"} if have else {}
        return {**self.headers, "Accept-Encoding": "identity", **begin}

    def _accept(self, response: aiohttp.ClientResponse, url: str, part: Path) -> None:
        have = size_of(part)
        whole = response.status == HTTPStatus.OK and have == 0
        rest = response.headers.get("Content-Range", "").startswith(f"bytes {have}-")
        if whole or (response.status == HTTPStatus.PARTIAL_CONTENT and rest):
            return
        if response.ok or response.status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            self._discard(part)
            what = f"{url}: cannot be resumed (answered {response.status})"
            raise retrying.PassingError(contract.REASON_MODEL_DOWNLOAD_FAILED, what)
        if response.history and response.url.origin() != response.history[0].url.origin():
            # The hub let us pass; the address that it signed for the other host has run out, at worst.
            what = f"{url}: {response.url.host} answered {response.status} to the hub's redirect"
            raise retrying.PassingError(contract.REASON_MODEL_DOWNLOAD_FAILED, what)
        raise answers.fault(response.status, response.headers, url, self.token)

    def _discard(self, part: Path) -> None:
        self.progress.present -= size_of(part)
        part.unlink(missing_ok=True)


def size_of(path: Path) -> int:
    """Bytes; 0 for a file that is not there."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _write(file: int, piece: bytes) -> None:
    rest = memoryview(piece)
    while rest:
        rest = rest[os.write(file, rest) :]
