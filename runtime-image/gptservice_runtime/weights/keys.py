"""The keys that open a model: read from files, told apart by identifiers, and used to wrap its data key.

A model has a random data key of its own. What encrypts its files is derived from that; the user's keys only wrap it, so
that they can be changed without touching the files.
"""

import base64
import binascii
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from gptservice_runtime.weights.errors import RefusedError, UnusableKeyError
from gptservice_runtime.weights.seal import FORMAT, Seal, WrappedKey

KEY_BYTES = 32
NONCE_BYTES = 12
_ID_BYTES = 8
_LARGEST_FILE = 64 << 10
_HOW = "make one with `openssl rand -base64 32`"


@dataclass(frozen=True, kw_only=True)
class Key:
    """One key of the user's."""

    secret: bytes = field(repr=False)

    @property
    def name(self) -> str:
        """Its identifier: tells keys apart and gives nothing of them away."""
        return derived(self.secret, b"", b"key id", _ID_BYTES).hex()


def derived(secret: bytes, salt: bytes, purpose: bytes, length: int = KEY_BYTES) -> bytes:
    """A key for one purpose: HKDF with SHA-256."""
    info = FORMAT.encode() + b" " + purpose
    return HKDF(algorithm=hashes.SHA256(), length=length, salt=salt, info=info).derive(secret)


def read_file(path: Path) -> tuple[Key, ...]:
    """The keys of a file, one per line, each 32 bytes in base64. UnusableKeyError, OSError."""
    with path.open("rb") as file:
        content = file.read(_LARGEST_FILE + 1)
    if len(content) > _LARGEST_FILE:
        raise UnusableKeyError(f"{path} has more than {_LARGEST_FILE} bytes: it is no file of keys; {_HOW}")
    lines = [(number, line.strip()) for number, line in enumerate(content.splitlines(), 1)]
    keys = [_key(line, f"{path}, line {number}") for number, line in lines if line]
    if not keys:
        raise UnusableKeyError(f"{path} is empty: {_HOW}")
    return tuple({key.name: key for key in keys}.values())


def read_directory(directory: Path) -> tuple[Key, ...]:
    """The keys of a mounted Secret, which holds one file. UnusableKeyError, OSError."""
    # The kubelet keeps its own links there, whose names begin with two dots.
    files = sorted(entry for entry in directory.iterdir() if not entry.name.startswith("..") and entry.is_file())
    if len(files) != 1:
        names = ", ".join(file.name for file in files) or "none"
        raise UnusableKeyError(f"the Secret has {len(files)} keys ({names}): name one in decryptionKeySecretRef.key")
    return read_file(files[0])


def _key(line: bytes, where: str) -> Key:
    try:
        secret = base64.b64decode(line, validate=True)
    except binascii.Error:
        raise UnusableKeyError(f"{where}: not base64: {_HOW}") from None
    if len(secret) != KEY_BYTES:
        raise UnusableKeyError(f"{where}: {len(secret)} bytes, and a key has {KEY_BYTES}: {_HOW}")
    return Key(secret=secret)


def wrap(data_key: bytes, model_id: bytes, keys: Sequence[Key]) -> tuple[WrappedKey, ...]:
    """The data key, wrapped once for each key."""
    return tuple(_wrapped(data_key, model_id, key) for key in keys)


def _wrapped(data_key: bytes, model_id: bytes, key: Key) -> WrappedKey:
    nonce = os.urandom(NONCE_BYTES)
    box = _wrapping(key, model_id).encrypt(nonce, data_key, _context(model_id))
    return WrappedKey(key_id=key.name, nonce=nonce, box=box)


def unwrap(seal: Seal, keys: Sequence[Key]) -> bytes:
    """The data key of a model that one of these keys opens, once the whole seal is proven. RefusedError."""
    mine = {key.name: key for key in keys}
    for wrapped in seal.keys:
        if (key := mine.get(wrapped.key_id)) is not None:
            return _proven(seal, _opened(wrapped, seal.model_id, key))
    theirs = ", ".join(wrapped.key_id for wrapped in seal.keys)
    raise RefusedError(
        f"wrong key: the weights are encrypted for key {theirs}, and what is given is key {', '.join(mine)}: "
        "give that key, or `gptservice-runtime rewrap` the weights for this one"
    )


def _opened(wrapped: WrappedKey, model_id: bytes, key: Key) -> bytes:
    try:
        return _wrapping(key, model_id).decrypt(wrapped.nonce, wrapped.box, _context(model_id))
    except InvalidTag:
        raise RefusedError(f"the data key does not open with key {key.name}: the seal was changed") from None


def _proven(seal: Seal, data_key: bytes) -> bytes:
    if len(data_key) != KEY_BYTES or not seal.is_proven_by(seal_key(data_key, seal.model_id)):
        raise RefusedError("the seal is not the one that was made with the weights: it was changed, or mixed from two")
    return data_key


def seal_key(data_key: bytes, model_id: bytes) -> bytes:
    """What the seal's last line is made with."""
    return derived(data_key, model_id, b"seal")


def _wrapping(key: Key, model_id: bytes) -> AESGCM:
    return AESGCM(derived(key.secret, model_id, b"wrap"))


def _context(model_id: bytes) -> bytes:
    return FORMAT.encode() + model_id
