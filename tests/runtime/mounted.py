"""Directories as the kubelet mounts them: every change of a Secret comes by one rename of a symbolic link."""

import os
import shutil
from itertools import count
from pathlib import Path

from e2e.cluster.pki import KeyPair

_NUMBERS = count(1)


def mount(directory: Path, **files: bytes) -> None:
    """Make the directory hold these files and no others, all at once; `_` in a name stands for a dot."""
    new = directory / f"..2026_{next(_NUMBERS)}"
    new.mkdir(parents=True)
    for name, content in files.items():
        (new / name.replace("_", ".")).write_bytes(content)
        link = directory / name.replace("_", ".")
        if not link.is_symlink():
            link.symlink_to(Path("..data") / link.name)
    data = directory / "..data"
    old = data.resolve() if data.exists() else None
    (directory / "..data_tmp").symlink_to(new.name)
    os.rename(directory / "..data_tmp", data)
    if old is not None:
        shutil.rmtree(old)
    for link in directory.iterdir():
        if link.is_symlink() and not link.exists():
            link.unlink()


def mount_pair(directory: Path, pair: KeyPair) -> None:
    """As a Secret of type kubernetes.io/tls."""
    mount(directory, tls_crt=pair.certificate.read_bytes(), tls_key=pair.key.read_bytes())
