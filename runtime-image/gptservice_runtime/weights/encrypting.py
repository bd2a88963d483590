"""From a model to its encrypted form, and to other keys."""

import os
from collections.abc import Sequence
from pathlib import Path

from gptservice_runtime.weights import chunks, folder, keys, placing, seal
from gptservice_runtime.weights.errors import WeightsError
from gptservice_runtime.weights.keys import KEY_BYTES, Key
from gptservice_runtime.weights.progress import Progress
from gptservice_runtime.weights.seal import ID_BYTES, SEAL_FILE, Seal, SealedFile


def encrypt(source: Path, target: Path, for_keys: Sequence[Key], chunk: int = seal.CHUNK_BYTES) -> Seal:
    """Encrypt a model, a folder or one file, into a new folder with files of the same names; its seal.

    Each of the keys opens it. WeightsError, OSError; then there is no new folder.
    """
    root = source if source.is_dir() else source.parent
    found = folder.names(source) if source.is_dir() else [source.name]
    if not found:
        raise WeightsError(f"{source} has no files that could be encrypted")
    for name in found:
        seal.demand_name(name)
        if folder.is_encrypted(root / name):
            raise WeightsError(f"{root / name} is encrypted already: for other keys, `gptservice-runtime rewrap` it")
    data_key, model_id = os.urandom(KEY_BYTES), os.urandom(ID_BYTES)
    progress = Progress("encrypting", sum((root / name).stat().st_size for name in found))
    with placing.whole_folder(target, source) as partial:
        files = tuple(_file(root / name, partial / name, name, data_key, chunk, progress) for name in found)
        made = Seal(model_id=model_id, chunk=chunk, keys=keys.wrap(data_key, model_id, for_keys), files=files)
        sealed = made.proven_by(keys.seal_key(data_key, model_id))
        with (partial / SEAL_FILE).open("xb") as file:
            file.write(sealed.encode())
            file.flush()
            os.fsync(file.fileno())
    progress.finish()
    return sealed


def _file(source: Path, target: Path, name: str, data_key: bytes, chunk: int, progress: Progress) -> SealedFile:
    file_id = os.urandom(ID_BYTES)
    cipher = chunks.FileCipher(data_key, file_id, name)
    target.parent.mkdir(parents=True, exist_ok=True)
    with source.open("rb") as plain, target.open("xb") as encrypted:
        size = chunks.encrypt(plain, encrypted, cipher, chunk, progress.advance)
        encrypted.flush()
        os.fsync(encrypted.fileno())
    return SealedFile(file_id=file_id, size=size, name=name)


def rewrap(model: Path, with_keys: Sequence[Key], for_keys: Sequence[Key]) -> Seal:
    """Have other keys, and no others, open an encrypted model; only its seal is written anew. WeightsError, OSError."""
    before = seal.read(model)
    data_key = keys.unwrap(before, with_keys)
    wrapped = keys.wrap(data_key, before.model_id, for_keys)
    made = Seal(model_id=before.model_id, chunk=before.chunk, keys=wrapped, files=before.files)
    after = made.proven_by(keys.seal_key(data_key, before.model_id))
    placing.replace(model / SEAL_FILE, after.encode())
    return after
