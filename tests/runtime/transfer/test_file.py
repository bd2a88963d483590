"""What vouches for a file that is found on the disk."""

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from gptservice_runtime import digest
from gptservice_runtime.transfer import file, retrying
from gptservice_runtime.transfer.digests import Digest
from gptservice_runtime.transfer.progress import Progress
from gptservice_runtime.transfer.source import RemoteFile

CONTENT = b"weights"
SHA256 = Digest(algorithm="sha256", value=hashlib.sha256(CONTENT).hexdigest())
MD5 = Digest(algorithm="md5", value=hashlib.md5(CONTENT).hexdigest())
TORN = b"wei\0\0\0\0"
"""What a power cut may leave: the size is right."""


def remote(announced: Digest | None, *, is_archive: bool) -> RemoteFile:
    return RemoteFile(path="m", size=len(CONTENT), digest=announced, name="m", address="m", is_archive=is_archive)


def found(tmp_path: Path, content: bytes, announced: Digest | None, *, is_archive: bool) -> str | None:
    (tmp_path / "m").write_bytes(content)
    return file.is_right(tmp_path / "m", remote(announced, is_archive=is_archive))


@pytest.mark.parametrize("announced", [SHA256, MD5, None], ids=["sha256", "md5", "none"])
def test_of_a_model_s_file_the_sha256_is_told(tmp_path: Path, announced: Digest | None) -> None:
    assert found(tmp_path, CONTENT, announced, is_archive=False) == SHA256.value


@pytest.mark.parametrize("announced", [SHA256, MD5], ids=["sha256", "md5"])
@pytest.mark.parametrize("is_archive", [True, False])
def test_torn_bytes_are_not_taken_for_what_was_announced(tmp_path: Path, announced: Digest, is_archive: bool) -> None:
    """An archive is not waited for at the disk because of this."""
    assert found(tmp_path, TORN, announced, is_archive=is_archive) is None
    assert found(tmp_path, CONTENT, announced, is_archive=is_archive) is not None


@pytest.mark.parametrize("is_archive", [True, False])
def test_another_size_is_wrong(tmp_path: Path, is_archive: bool) -> None:
    assert found(tmp_path, CONTENT[:-1], None, is_archive=is_archive) is None


def test_an_archive_is_not_read_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []
    monkeypatch.setattr(digest, "update", lambda _hasher, path: read.append(path))
    for announced, expected in ((None, []), (MD5, [tmp_path / "m"])):
        found(tmp_path, CONTENT, announced, is_archive=True)
        assert read == expected


@pytest.mark.parametrize(
    ("announced", "is_archive", "synced"),
    [(SHA256, False, True), (None, False, True), (SHA256, True, False), (None, True, True)],
)
async def test_what_no_digest_vouches_for_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, announced: Digest | None, is_archive: bool, synced: bool
) -> None:
    calls: list[str] = []
    replace = os.replace
    monkeypatch.setattr(os, "fsync", lambda _file: calls.append("fsync"))
    monkeypatch.setattr(os, "replace", lambda *paths: (calls.append("named"), replace(*paths)))
    (tmp_path / "m.part").write_bytes(CONTENT)
    none: Any = None
    progress = Progress("https://host/m")
    transfer = file.Transfer(
        http=none, source=none, patience=retrying.Patience(tries=1, pause=0, stall=1), progress=progress
    )
    await transfer.obtain(remote(announced, is_archive=is_archive), tmp_path / "m.part", tmp_path / "m")
    assert calls == (["fsync", "named"] if synced else ["named"])
