"""The seal of an encrypted model: the file that names its keys and its files, and proves that they belong together.

docs/model-weights-v1.md describes it byte by byte.
"""

import hashlib
import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from gptservice_runtime.weights.errors import RefusedError, WeightsError

FORMAT = "model-weights-v1"
"""First line of the seal, and the first bytes of every encrypted file."""
SEAL_FILE = "model-weights.txt"
CHUNK_BYTES = 1 << 18
"""Of the plain text in one chunk: what is in memory at a time."""
LEAST_CHUNK, LARGEST_CHUNK = 1 << 10, 1 << 24
LARGEST_SEAL = 16 << 20
LARGEST_FILE = 1 << 53
LONGEST_NAME = 1024
ID_BYTES = 16

_FORMAT = re.compile(r"model-weights-v[0-9]{1,4}")
_KEY = re.compile(r"key ([0-9a-f]{16}) ([0-9a-f]{24}) ([0-9a-f]{96})")
_FILE = re.compile(r"file ([0-9a-f]{32}) (0|[1-9][0-9]{0,15}) ([^\x00-\x1f\x7f]+)")
_HEAD = re.compile(r"model ([0-9a-f]{32})\nchunk ([1-9][0-9]{3,7})\n")
_MAC = re.compile(r"mac ([0-9a-f]{64})\n")


@dataclass(frozen=True, kw_only=True)
class WrappedKey:
    """The data key for the holder of one key."""

    key_id: str
    nonce: bytes
    box: bytes


@dataclass(frozen=True, kw_only=True)
class SealedFile:
    """One file of the model; `size` is that of its plain text, `name` is relative to the model's folder, with ``/``."""

    file_id: bytes
    size: int
    name: str


@dataclass(frozen=True, kw_only=True)
class Seal:
    """What the file says."""

    model_id: bytes
    chunk: int
    keys: tuple[WrappedKey, ...]
    files: tuple[SealedFile, ...]
    """By name, as bytes."""
    mac: bytes = field(default=b"")

    def body(self) -> bytes:
        """The text without its last line."""
        keys = [f"key {key.key_id} {key.nonce.hex()} {key.box.hex()}\n" for key in self.keys]
        files = [f"file {file.file_id.hex()} {file.size} {file.name}\n" for file in self.files]
        head = f"{FORMAT}\nmodel {self.model_id.hex()}\nchunk {self.chunk}\n"
        return "".join([head, *keys, *files]).encode()

    def proven_by(self, key: bytes) -> "Seal":
        """The same with the last line that this key makes."""
        return replace(self, mac=self._mac(key))

    def is_proven_by(self, key: bytes) -> bool:
        """Whether the last line is the one that this key makes."""
        return hmac.compare_digest(self.mac, self._mac(key))

    def encode(self) -> bytes:
        """The whole text."""
        return self.body() + f"mac {self.mac.hex()}\n".encode()

    def _mac(self, key: bytes) -> bytes:
        return hmac.digest(key, self.body(), hashlib.sha256)


def read(folder: Path) -> Seal:
    """The seal of an encrypted model, not proven yet. RefusedError; OSError."""
    path = folder / SEAL_FILE
    with path.open("rb") as file:
        content = file.read(LARGEST_SEAL + 1)
    if len(content) > LARGEST_SEAL:
        raise RefusedError(f"{path} has more than {LARGEST_SEAL} bytes: it is no seal")
    try:
        return decode(content)
    except RefusedError as error:
        raise RefusedError(f"{path}: {error}") from None


def decode(content: bytes) -> Seal:
    """Read the text. Only that which `Seal.encode` would write is taken. RefusedError."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise RefusedError("not UTF-8: it was changed") from None
    first, _, rest = text.partition("\n")
    if first != FORMAT:
        # Nothing is quoted but what is a format's name: a link could have led to a secret.
        other = first if _FORMAT.fullmatch(first) else "something else"
        raise RefusedError(f"its first line says {other}, and this version reads {FORMAT} only")
    head = _HEAD.match(rest)
    if head is None:
        raise RefusedError("the lines `model` and `chunk` are not as they should be: it was changed")
    lines = rest[head.end() :].split("\n")
    keys = tuple(_keys(lines))
    mac = _MAC.fullmatch("\n".join(lines[-2:]))
    seal = Seal(
        model_id=bytes.fromhex(head[1]),
        chunk=int(head[2]),
        keys=keys,
        files=tuple(_files(lines[len(keys) : -2])),
        mac=bytes.fromhex(mac[1]) if mac is not None else b"",
    )
    _check(seal)
    if seal.encode() != content:
        raise RefusedError("a line is not as it should be: it was changed")
    return seal


def _keys(lines: list[str]) -> Iterable[WrappedKey]:
    for line in lines:
        if (found := _KEY.fullmatch(line)) is None:
            return
        yield WrappedKey(key_id=found[1], nonce=bytes.fromhex(found[2]), box=bytes.fromhex(found[3]))


def _files(lines: list[str]) -> Iterable[SealedFile]:
    for line in lines:
        if (found := _FILE.fullmatch(line)) is None:
            raise RefusedError("a line is neither a key nor a file: it was changed")
        yield SealedFile(file_id=bytes.fromhex(found[1]), size=int(found[2]), name=found[3])


def _check(seal: Seal) -> None:
    """What a writer must not write, and a reader must not take."""
    names = [file.name for file in seal.files]
    problems = {
        "the chunk size is no power of two, or out of bounds": not _is_chunk(seal.chunk),
        "it names no key, or one twice": len({key.key_id for key in seal.keys}) != len(seal.keys) or not seal.keys,
        "it names no file": not names,
        "its files are not in order, or one is there twice": names != sorted(set(names), key=str.encode),
        "two files have one identifier": len({file.file_id for file in seal.files}) != len(names),
        "a file is too large": any(file.size >= LARGEST_FILE for file in seal.files),
        "a file's name leads elsewhere": not all(map(is_name, names)),
    }
    if found := next((problem for problem, is_so in problems.items() if is_so), None):
        raise RefusedError(found)


def _is_chunk(size: int) -> bool:
    return LEAST_CHUNK <= size <= LARGEST_CHUNK and size & (size - 1) == 0


def is_name(name: str) -> bool:
    """Whether a file of a model may be called so: a relative path within its folder, and not the seal's."""
    parts = PurePosixPath(name).parts
    is_plain = str(PurePosixPath(name)) == name and not name.startswith("/") and ".." not in parts and name != "."
    try:
        is_short = len(name.encode()) <= LONGEST_NAME
    except UnicodeEncodeError:
        return False
    return is_plain and is_short and name != SEAL_FILE and _FILE.fullmatch(f"file {'0' * 32} 0 {name}") is not None


def demand_name(name: str) -> None:
    """Refuse to encrypt a file with a name that the seal cannot hold. WeightsError."""
    if not is_name(name):
        raise WeightsError(f"{name!r} cannot be a file's name in {FORMAT}: rename it")
