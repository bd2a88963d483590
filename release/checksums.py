"""SHA256SUMS, as `sha256sum --check` reads it."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

NAME = "SHA256SUMS"


def write(files: Iterable[Path], target: Path) -> Path:
    """Writes the sums of the files, which lie in `target`, in the order of their names."""
    made = target / NAME
    made.write_text("".join(f"{_sum(file)}  {file.name}\n" for file in sorted(files, key=lambda file: file.name)))
    return made


def _sum(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
