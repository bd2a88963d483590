"""What vouches for a file that is found on the disk."""

import hashlib
from pathlib import Path

import pytest

from gptservice_runtime import digest
from gptservice_runtime.transfer import file
from gptservice_runtime.transfer.digests import Digest
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
