"""From an encrypted model to its files: all that is asked for, as it was encrypted, or nothing."""

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from gptservice_runtime.weights import chunks, folder, keys, placing, seal
from gptservice_runtime.weights.errors import RefusedError
from gptservice_runtime.weights.keys import Key
from gptservice_runtime.weights.progress import Progress
from gptservice_runtime.weights.seal import SEAL_FILE, Seal, SealedFile


@dataclass(frozen=True, kw_only=True)
class Opened:
    """An encrypted model whose seal is proven."""

    folder: Path
    seal: Seal
    data_key: bytes

    @property
    def names(self) -> list[str]:
        """All its files."""
        return [file.name for file in self.seal.files]

    def size(self, wanted: Collection[str]) -> int:
        """Bytes that these files have once they are decrypted."""
        return sum(file.size for file in self._files(wanted))

    def decrypt(self, wanted: Collection[str], target: Path) -> None:
        """Decrypt these files into a new folder. WeightsError, OSError; then there is no new folder."""
        with placing.whole_folder(target, self.folder) as partial:
            self._each(wanted, partial, "decrypting")

    def verify(self, wanted: Collection[str]) -> None:
        """Read these files, and demand that every byte is as it was encrypted. RefusedError, OSError."""
        self._each(wanted, None, "verifying")

    def _each(self, wanted: Collection[str], target: Path | None, doing: str) -> None:
        files = self._files(wanted)
        for file in files:
            self._demand_size(file)
        progress = Progress(doing, self.size(wanted))
        for file in files:
            self._one(file, target, progress)
        progress.finish()

    def _files(self, wanted: Collection[str]) -> list[SealedFile]:
        return [file for file in self.seal.files if file.name in wanted]

    def _demand_size(self, file: SealedFile) -> None:
        path, size = self.folder / file.name, chunks.encrypted_size(file.size, self.seal.chunk)
        if not path.is_file():
            raise RefusedError(f"{path} is missing: the seal names it; fetch the model again")
        if (found := path.stat().st_size) != size:
            raise RefusedError(f"{path} has {found} bytes, and {size} were encrypted: fetch it again")

    def _one(self, file: SealedFile, target: Path | None, progress: Progress) -> None:
        cipher = chunks.FileCipher(self.data_key, file.file_id, file.name)
        with (self.folder / file.name).open("rb") as encrypted:
            os.posix_fadvise(encrypted.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
            if target is None:
                chunks.decrypt(encrypted, None, cipher, file, self.seal.chunk, progress.advance)
                return
            path = target / file.name
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("xb") as plain:
                chunks.decrypt(encrypted, plain, cipher, file, self.seal.chunk, progress.advance)
                plain.flush()
                os.fsync(plain.fileno())


def opened(model: Path, with_keys: Sequence[Key]) -> Opened:
    """An encrypted model, its seal proven by one of the keys, and no file there that the seal does not name.

    RefusedError, OSError.
    """
    if not folder.has_seal(model):
        raise RefusedError(f"{model} is not encrypted: it has no {SEAL_FILE}")
    found = seal.read(model)
    data_key = keys.unwrap(found, with_keys)
    if foreign := sorted(set(folder.names(model)) - {file.name for file in found.files}):
        raise RefusedError(
            f"{model / foreign[0]} was added: the seal does not name it ({len(foreign)} in all); remove it"
        )
    return Opened(folder=model, seal=found, data_key=data_key)
