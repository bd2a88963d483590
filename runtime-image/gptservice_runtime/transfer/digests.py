"""The digests by which sources announce their files: what arrives counts only if it has the one announced."""

import base64
import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

Algorithm = Literal["sha256", "git-sha1", "md5", "md5-of-parts", "crc32c"]


@dataclass(frozen=True, kw_only=True)
class Digest:
    """What a source says of a file's bytes."""

    algorithm: Algorithm
    value: str
    """Hexadecimal; of ``md5-of-parts`` with ``-`` and the count of parts behind it, as S3 writes it."""
    part_size: int = 0
    """Bytes of each part but the last; of ``md5-of-parts`` only."""


class Checksum(Protocol):
    """A digest on its way."""

    def update(self, piece: bytes, /) -> None:
        """Take the next bytes."""
        ...

    def hexdigest(self) -> str:
        """Return the digest as `Digest.value` has it."""
        ...


class _Md5(Checksum, Protocol):
    def digest(self) -> bytes: ...


class _Md5OfParts:
    """S3's ETag of an object that was uploaded in parts of one size: the MD5 of the parts' MD5s."""

    def __init__(self, part_size: int) -> None:
        self._part_size = part_size
        self._part, self._have, self._count = _md5(), 0, 0
        self._whole = _md5()

    def update(self, piece: bytes, /) -> None:
        rest = memoryview(piece)
        while rest:
            if self._have == self._part_size:
                self._end_part()
            taken = rest[: self._part_size - self._have]
            self._part.update(bytes(taken))
            self._have += len(taken)
            rest = rest[len(taken) :]

    def hexdigest(self) -> str:
        if self._have:
            self._end_part()
        return f"{self._whole.hexdigest()}-{self._count}"

    def _end_part(self) -> None:
        self._whole.update(self._part.digest())
        self._part, self._have, self._count = _md5(), 0, self._count + 1


class _Crc32c:
    """Google's checksum of every object; the only one of those that were composed of others."""

    def __init__(self) -> None:
        import google_crc32c

        new: Any = google_crc32c.Checksum
        self._checksum: Any = new()

    def update(self, piece: bytes, /) -> None:
        self._checksum.update(piece)

    def hexdigest(self) -> str:
        return bytes(self._checksum.digest()).hex()


def _md5() -> "_Md5":
    return hashlib.md5(usedforsecurity=False)


class Hashes:
    """The sha256 of what came so far, and the digest that the source announced, if it is another."""

    def __init__(self, size: int, announced: Digest | None, *, of_model: bool = True) -> None:
        """Begin a file of `size` bytes; `of_model`: whether it is one of those that the model's digest is of."""
        self._announced = announced
        told = announced is not None and announced.algorithm == "sha256"
        self._sha256 = hashlib.sha256() if of_model or told else None
        self._other: Checksum | None = None
        if announced is not None and announced.algorithm != "sha256":
            begin: dict[Algorithm, Callable[[], Checksum]] = {
                "git-sha1": lambda: hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False),
                "md5": _md5,
                "md5-of-parts": lambda: _Md5OfParts(announced.part_size),
                "crc32c": _Crc32c,
            }
            self._other = begin[announced.algorithm]()

    def update(self, piece: bytes, /) -> None:
        """Take the next bytes."""
        for checksum in (self._sha256, self._other):
            if checksum is not None:
                checksum.update(piece)

    @property
    def are_needed(self) -> bool:
        """Whether anything is made of the bytes at all."""
        return self._sha256 is not None or self._other is not None

    @property
    def sha256(self) -> str:
        """Of what came so far; empty where nobody asks for it."""
        return self._sha256.hexdigest() if self._sha256 is not None else ""

    def are_right(self) -> bool:
        """Whether it is the file that the source announced; without a digest, its size has to do."""
        if self._announced is None:
            return True
        found = self.sha256 if self._other is None else self._other.hexdigest()
        return hmac.compare_digest(found, self._announced.value)


def from_base64(text: str) -> str:
    """The hexadecimal form of a digest in base64; empty for what is none."""
    try:
        return base64.b64decode(text, validate=True).hex()
    except ValueError:
        return ""
