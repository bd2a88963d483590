"""Small models to encrypt, and keys."""

import base64
import os
from pathlib import Path

from gptservice_runtime.weights import encrypting, keys, seal

CHUNK = seal.LEAST_CHUNK
FILES = {
    "config.json": b"{}",
    "empty.txt": b"",
    "model-00001.safetensors": bytes(range(256)) * 10,
    "model-00002.safetensors": b"w" * CHUNK,
    "sub/more.json": b"[1]" * CHUNK,
}


def some_key(seed: int) -> keys.Key:
    return keys.Key(secret=bytes([seed]) * keys.KEY_BYTES)


KEY, OTHER_KEY = some_key(1), some_key(2)


def key_file(path: Path, *some_keys: keys.Key) -> Path:
    path.write_text("".join(f"{base64.b64encode(key.secret).decode()}\n" for key in some_keys))
    return path


def write(folder: Path, files: dict[str, bytes] = FILES) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    """Every file there is, hidden ones too."""
    paths = [Path(root) / name for root, _, names in os.walk(folder) for name in names]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def encrypted(folder: Path, *some_keys: keys.Key, files: dict[str, bytes] = FILES, chunk: int = CHUNK) -> Path:
    """A model and its encrypted form, which is returned."""
    plain = write(folder.with_name(f"{folder.name}-plain"), files)
    encrypting.encrypt(plain, folder, some_keys or (KEY,), chunk)
    return folder
