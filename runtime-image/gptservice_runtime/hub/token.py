"""The hub's token: one mounted file."""

from pathlib import Path

from gptservice_runtime import contract, models


def read(directory: Path) -> str | None:
    """The token without white space around it; None where no Secret is mounted. models.ModelError if it is unusable."""
    if not directory.is_dir():
        return None
    # The kubelet keeps its own links there, whose names begin with two dots.
    files = sorted(entry for entry in directory.iterdir() if not entry.name.startswith("..") and entry.is_file())
    if len(files) != 1:
        keys = ", ".join(file.name for file in files) or "none"
        raise _unusable(f"the Secret has {len(files)} keys ({keys}): name one of them in huggingFaceTokenSecretRef.key")
    try:
        token = files[0].read_bytes().strip().decode("ascii")
    except ValueError:
        raise _unusable(f"key {files[0].name!r} of the Secret holds no text: put the token into it") from None
    if not token:
        raise _unusable(f"key {files[0].name!r} of the Secret is empty: put the token into it")
    if not token.isprintable() or " " in token:
        raise _unusable(f"key {files[0].name!r} of the Secret holds more than one word: put the token alone into it")
    return token


def _unusable(what: str) -> models.ModelError:
    return models.ModelError(contract.REASON_MODEL_ACCESS_DENIED, f"huggingFaceTokenSecretRef: {what}")
