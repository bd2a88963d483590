"""docs/model-weights-v1.md is what is written and read: a decoder made from that page alone reads the vectors."""

import base64
import hashlib
import hmac
import re
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from gptservice_runtime.weights import decrypting, keys, seal
from tests.runtime.weights import samples

VECTORS = Path(__file__).with_name("vectors")
PAGE = (Path(__file__).resolve().parents[3] / "docs/model-weights-v1.md").read_text()
FORMAT = b"model-weights-v1"


def hkdf(secret: bytes, salt: bytes, purpose: str, length: int) -> bytes:
    pseudorandom = hmac.digest(salt or bytes(32), secret, hashlib.sha256)
    return hmac.digest(pseudorandom, FORMAT + b" " + purpose.encode() + b"\x01", hashlib.sha256)[:length]


def independently(folder: Path, key: bytes) -> dict[str, bytes]:
    """All files of an encrypted model, by the page's section "Reading" and by none of our code."""
    body, _, mac = (folder / "model-weights.txt").read_bytes().rpartition(b"mac ")
    lines = [line.split(" ", 3) for line in body.decode().splitlines()]
    assert lines.pop(0) == ["model-weights-v1"]
    (_, model), (_, chunk) = lines.pop(0), lines.pop(0)
    model_id, size = bytes.fromhex(model), int(chunk)
    mine = hkdf(key, b"", "key id", 8).hex()
    (box,) = [line for line in lines if line[:2] == ["key", mine]]
    wrapping = AESGCM(hkdf(key, model_id, "wrap", 32))
    data = wrapping.decrypt(bytes.fromhex(box[2]), bytes.fromhex(box[3]), FORMAT + model_id)
    assert hmac.digest(hkdf(data, model_id, "seal", 32), body, hashlib.sha256).hex() == mac.decode().rstrip("\n")
    found: dict[str, bytes] = {}
    for _, file_id, length, name in (line for line in lines if line[0] == "file"):
        header, content, plain = FORMAT + bytes.fromhex(file_id), (folder / name).read_bytes(), b""
        assert content.startswith(header)
        cipher, rest, n = AESGCM(hkdf(data, bytes.fromhex(file_id), "file", 32)), content[32:], 0
        while rest or n == 0:
            piece, rest = rest[: size + 16], rest[size + 16 :]
            number = n.to_bytes(8, "big") + (b"\0" if rest else b"\1")
            plain += cipher.decrypt(bytes(3) + number, piece, header + number + name.encode())
            n += 1
        assert len(plain) == int(length)
        found[name] = plain
    return found


def vector_keys() -> list[bytes]:
    return [base64.b64decode(line) for line in (VECTORS / "keys.txt").read_text().split()]


@pytest.mark.parametrize("number", [0, 1])
def test_the_vectors_are_read_by_the_page_alone(number: int) -> None:
    assert independently(VECTORS / "encrypted", vector_keys()[number]) == samples.contents(VECTORS / "plain")


def test_the_vectors_are_read_by_the_runtime(tmp_path: Path) -> None:
    opened = decrypting.opened(VECTORS / "encrypted", keys.read_file(VECTORS / "keys.txt"))
    opened.decrypt(opened.names, tmp_path / "plain")
    assert samples.contents(tmp_path / "plain") == samples.contents(VECTORS / "plain")


@pytest.mark.parametrize("chunk", [samples.CHUNK, seal.CHUNK_BYTES])
def test_what_is_written_today_is_read_by_the_page_alone(tmp_path: Path, chunk: int) -> None:
    files = {**samples.FILES, "large.safetensors": b"0123456789abcdef" * (seal.CHUNK_BYTES // 8)}
    folder = samples.encrypted(tmp_path / "model", files=files, chunk=chunk)
    assert independently(folder, samples.KEY.secret) == files


def test_the_numbers_on_the_page_are_right() -> None:
    secret, some_id = bytes(range(32)), bytes(range(16))
    file_key = hkdf(secret, some_id, "file", 32)

    def closed(plain: bytes) -> str:
        number = bytes(8) + b"\1"
        return AESGCM(file_key).encrypt(bytes(3) + number, plain, FORMAT + some_id + number + b"a").hex()

    right = [
        hkdf(secret, b"", "key id", 8).hex(),
        hkdf(secret, some_id, "wrap", 32).hex(),
        hkdf(secret, some_id, "seal", 32).hex(),
        file_key.hex(),
        closed(b""),
        closed(b"abc"),
    ]
    assert re.findall(r"^\|.*\| `([0-9a-f]+)` \|$", PAGE, flags=re.MULTILINE) == right


def test_what_the_page_says_is_written_is_written(tmp_path: Path) -> None:
    written = seal.read(samples.encrypted(tmp_path / "model", chunk=seal.CHUNK_BYTES))
    assert f"{written.chunk} is what we write" in PAGE
    assert f"a power of two from {seal.LEAST_CHUNK} to {seal.LARGEST_CHUNK}" in PAGE
    assert f"has at most {seal.LARGEST_SEAL >> 20} MiB" in PAGE
