"""A tar, plain or with gzip, read through once to its end: what its headers may claim is bounded before it is believed.

tarfile reads a header however long it says it is, ends without a word at the first one that is damaged, and never
comes to the end of what gzip has packed, where its checksum is.
"""

import gzip
import io
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from gptservice_runtime import digest

_GZIP = b"\x1f\x8b"
_MOST_INFLATED = 1100
"""Times the size of its compressed form: deflate does no more than 1032."""
_LONGEST_HEADER = 1 << 20
"""Bytes of one entry's headers together, and of what holds for all entries; a name and its attributes are a few
thousand."""
_LONGEST_NAME = 4096
"""Linux takes no longer path."""
_NO_TAR = (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile)
_NO_HEADER = (*_NO_TAR, ArithmeticError, LookupError, ValueError)
"""By what tarfile tells that a header is not as it knows them; sometimes it just fails."""


class MalformedError(Exception):
    """What is read is no tar that can be trusted; the text says what is wrong with it."""


class Tar:
    """The entries of an archive, one after another, each of which can be read while it is the last that came."""

    def __init__(self, path: Path, tar: tarfile.TarFile, stream: "_Bounded", is_compressed: bool) -> None:
        """See `opened`."""
        self._tar = tar
        self._stream = stream
        self._is_compressed = is_compressed
        self._most = path.stat().st_size * (_MOST_INFLATED if is_compressed else 1)

    def entries(self) -> Iterator[tarfile.TarInfo]:
        """All of them; MalformedError where one is not as it should be, or the archive is not whole."""
        while (entry := self._next()) is not None:
            if entry.sparse is not None:
                raise MalformedError(f"{entry.name[:200]!r} is packed as a sparse file: pack it without --sparse (-S)")
            if entry.size > self._most:
                raise MalformedError(f"{entry.name[:200]!r} cannot be of {entry.size} bytes in it: it is cut short")
            if len(entry.name) > _LONGEST_NAME:
                raise MalformedError(f"the name that begins with {entry.name[:100]!r} is too long")
            yield entry
            # They are kept for those who ask for one by its name.
            cast("Any", self._tar).members = []
        if self._stream.last.strip(b"\0"):
            raise MalformedError("the header of an entry is damaged")
        if self._is_compressed:
            self._stream.drain()

    def content(self, entry: tarfile.TarInfo) -> IO[bytes] | None:
        """The bytes of the entry that came last; None for what has none."""
        return self._tar.extractfile(entry) if entry.isreg() else None

    def _next(self) -> tarfile.TarInfo | None:
        with self._stream.at_headers():
            entry = self._tar.next()
        common = sum(len(key) + len(value) for key, value in self._tar.pax_headers.items())
        if common > _LONGEST_HEADER:
            raise MalformedError("its common headers are too long")
        return entry


@contextmanager
def opened(path: Path) -> Iterator[Tar]:
    """Read an archive; MalformedError for what is none, from what is done with it, too."""
    try:
        with path.open("rb") as file:
            is_compressed = file.read(len(_GZIP)) == _GZIP
            file.seek(0)
            stream = _Bounded(cast("IO[bytes]", gzip.GzipFile(fileobj=file)) if is_compressed else file)
            with stream.at_headers():
                tar = tarfile.TarFile(fileobj=cast("IO[bytes]", stream))
            with tar:
                yield Tar(path, tar, stream, is_compressed)
    except _NO_TAR as error:
        raise _no_tar(error) from error


class _Bounded(io.RawIOBase):
    """A stream that gives only so much while headers are read."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._left: int | None = None
        self.last = b""
        """What was read last of the headers."""

    @contextmanager
    def at_headers(self) -> Iterator[None]:
        """Give no more than the headers of one entry may have."""
        self._left = _LONGEST_HEADER
        try:
            yield
        except _NO_HEADER as error:
            raise _no_tar(error) from error
        except RecursionError:
            raise MalformedError("an entry has too many headers") from None
        finally:
            self._left = None

    def read(self, size: int = -1, /) -> bytes:
        """The next bytes."""
        if self._left is None:
            return self._stream.read(size)
        if size < 0 or size > self._left:
            raise MalformedError("the headers of an entry are too long")
        self._left -= size
        self.last = self._stream.read(size)
        return self.last

    def seekable(self) -> bool:
        """As it says itself; nobody goes back."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Go on elsewhere."""
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        """Where the next byte is."""
        return self._stream.tell()

    def drain(self) -> None:
        """Read to the end, where a checksum is."""
        while self._stream.read(digest.CHUNK):
            pass


def _no_tar(error: Exception) -> MalformedError:
    return MalformedError(f"it is no tar, plain or with gzip ({error})")
