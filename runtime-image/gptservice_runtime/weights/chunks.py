"""One file, chunk by chunk: what is in memory is one chunk, whatever the file's size.

Every file has a key of its own, derived from the model's data key and the file's random identifier. So the nonce may be
a plain counter: under one key no number comes twice. The last chunk is marked in nonce and context, so that an end that
was cut off, or added, is seen (the STREAM construction of Hoang, Reyhanitabar, Rogaway and Vizár).
"""

from collections.abc import Callable
from typing import BinaryIO

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from gptservice_runtime.weights.errors import RefusedError
from gptservice_runtime.weights.keys import derived
from gptservice_runtime.weights.seal import FORMAT, ID_BYTES, SealedFile

TAG_BYTES = 16
HEADER_BYTES = len(FORMAT) + ID_BYTES

Told = Callable[[int], None]
"""Takes the number of bytes that were just done."""


def encrypted_size(size: int, chunk: int) -> int:
    """Bytes of an encrypted file."""
    return HEADER_BYTES + size + TAG_BYTES * chunks_of(size, chunk)


def chunks_of(size: int, chunk: int) -> int:
    """How many chunks a file has; an empty one has one that is empty."""
    return max(1, -(-size // chunk))


class FileCipher:
    """Opens and closes the chunks of one file."""

    def __init__(self, data_key: bytes, file_id: bytes, name: str) -> None:
        """`name` and `file_id` as the seal has them."""
        self.header = FORMAT.encode() + file_id
        self._name = name
        self._aead = AESGCM(derived(data_key, file_id, b"file"))

    def close(self, index: int, last: bool, plain: bytes) -> bytes:
        """Encrypt one chunk."""
        return self._aead.encrypt(_nonce(index, last), plain, self._context(index, last))

    def open(self, index: int, last: bool, closed: bytes) -> bytes:
        """Decrypt one chunk. RefusedError."""
        try:
            return self._aead.decrypt(_nonce(index, last), closed, self._context(index, last))
        except InvalidTag:
            raise RefusedError(
                f"{self._name}: chunk {index} is not the one that was encrypted: fetch it again"
            ) from None

    def _context(self, index: int, last: bool) -> bytes:
        return self.header + _number(index, last) + self._name.encode()


def _nonce(index: int, last: bool) -> bytes:
    return bytes(3) + _number(index, last)


def _number(index: int, last: bool) -> bytes:
    return index.to_bytes(8) + bytes([last])


def encrypt(source: BinaryIO, sink: BinaryIO, cipher: FileCipher, chunk: int, told: Told) -> int:
    """Encrypt a stream to its end; the size of what was read."""
    sink.write(cipher.header)
    size, index, piece = 0, 0, source.read(chunk)
    while True:
        following = source.read(chunk)
        sink.write(cipher.close(index, not following, piece))
        size += len(piece)
        told(len(piece))
        if not following:
            return size
        index, piece = index + 1, following


def decrypt(
    source: BinaryIO, sink: BinaryIO | None, cipher: FileCipher, file: SealedFile, chunk: int, told: Told
) -> None:
    """Decrypt a stream, and demand that it is the whole file and no more; without a sink only that. RefusedError."""
    if source.read(HEADER_BYTES) != cipher.header:
        raise RefusedError(f"{file.name} is not the file that was encrypted: it is another one, or not encrypted")
    count, left = chunks_of(file.size, chunk), file.size
    for index in range(count):
        size = min(chunk, left)
        plain = cipher.open(index, index == count - 1, source.read(size + TAG_BYTES))
        if sink is not None:
            sink.write(plain)
        left -= size
        told(size)
    if source.read(1):
        raise RefusedError(f"{file.name} goes on after its end: something was appended")
