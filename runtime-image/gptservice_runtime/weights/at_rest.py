"""Whether a model lies encrypted in its source, and having it readable for the engine where it does.

The one entry for `fetch`. It needs no library for cryptography unless there is something to decrypt.
"""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gptservice_runtime import contract, models, selection
from gptservice_runtime.weights import folder
from gptservice_runtime.weights.seal import FORMAT


@dataclass(frozen=True, kw_only=True)
class Decryption:
    """That the weights have to be encrypted; where the keys are, and where the readable files go."""

    key_directory: Path = Path(contract.DECRYPTION_KEY_DIRECTORY)
    root: Path = Path(contract.DECRYPTED_ROOT)


def is_encrypted(model: Path) -> bool:
    """Whether a model, a folder or one file, says that it is encrypted: by its seal, or by a file's first bytes."""
    with suppress(OSError):
        if not model.is_dir():
            return folder.is_encrypted(model)
        names = [path.relative_to(model).as_posix() for path in model.rglob("*") if path.is_file()]
        return folder.has_seal(model) or any(folder.is_encrypted(model / name) for name in selection.needed(names))
    return False


def readable(model: Path, decryption: Decryption | None) -> Path:
    """Where the engine can read a fetched and verified model: where it is, or decrypted into memory.

    models.ModelError, also for a model that is encrypted and has no key, and for the other way round.
    """
    if decryption is None:
        if is_encrypted(model):
            raise models.ModelError(
                contract.REASON_MODEL_ACCESS_DENIED,
                f"{model} is encrypted ({FORMAT}), and there is no key: name the Secret that has it in "
                "spec.decryptionKeySecretRef",
            )
        return model
    if not is_encrypted(model):
        raise models.ModelError(
            contract.REASON_CHECKSUM_MISMATCH,
            f"{model} is not encrypted, and spec.decryptionKeySecretRef says that it has to be: nothing vouches for "
            "these files; encrypt them (`gptservice-runtime encrypt`), or remove the field",
        )
    try:
        from gptservice_runtime.weights import in_memory
    except ImportError as error:
        raise models.ModelError(
            contract.REASON_INVALID_IMAGE, f"the image cannot decrypt weights ({error}): it needs cryptography"
        ) from error
    return in_memory.decrypt(model, decryption.key_directory, decryption.root)
