"""The digest of a model, as runtime-image/README.md defines it."""

import errno
import hashlib
import os
import re
import subprocess
from pathlib import Path

import pytest

from e2e import documents
from gptservice_runtime import digest, models


def test_it_can_be_made_with_a_shell(tmp_path: Path) -> None:
    """By the page's own lines, in a folder where `needed` has the names."""
    (tmp_path / "1_Pooling").mkdir()
    needed = ("config.json", "model.safetensors", "1_Pooling/config.json")
    for name in needed:
        (tmp_path / name).write_text(name)
    (tmp_path / "README.md").write_text("no part of it")
    (tmp_path / "needed").write_text("".join(f"{name}\n" for name in needed))
    script = documents.block("runtime-image/README.md: `gptservice-runtime fetch` (init container), sh 1").text
    made = subprocess.run(["/bin/sh", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert digest.of_path(tmp_path) == f"sha256:{made.stdout.split()[0]}"


def test_a_file_is_a_model_of_one_line(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "model.gguf").write_text("GGUF")
    assert digest.of_path(tmp_path / "a" / "model.gguf") == digest.of_path(tmp_path / "b" / "model.gguf")


def test_another_digest_is_refused_with_both() -> None:
    with pytest.raises(models.ModelError, match=r"is sha256:1, and modelDigest demands sha256:2"):
        digest.demand("pvc://a/b", "sha256:1", "sha256:2")


def test_a_name_that_is_no_utf8_counts_by_its_bytes(tmp_path: Path) -> None:
    """As in the shell's lines."""
    name = b"vocab-\xe9.txt"
    (tmp_path / "config.json").write_text("{}")
    with open(os.path.join(os.fsencode(tmp_path), name), "w") as file:
        file.write("a")
    told = [(hashlib.sha256(content).hexdigest(), len(content)) for content in (b"{}", b"a")]
    lines = b"%s  %d  config.json\n%s  %d  %s\n" % (
        told[0][0].encode(),
        told[0][1],
        told[1][0].encode(),
        told[1][1],
        name,
    )
    assert digest.of_path(tmp_path) == f"sha256:{hashlib.sha256(lines).hexdigest()}"


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """The system names no file when reading fails; opening it went well."""

    def fail(_hasher: object, _path: Path) -> None:
        raise OSError(number, os.strerror(number))

    (tmp_path / "config.json").write_text("{}")
    monkeypatch.setattr(digest, "update", fail)
    with pytest.raises(models.ModelError, match=re.escape(f"{tmp_path}/config.json: {os.strerror(number)}")) as caught:
        digest.of_path(tmp_path)
    assert caught.value.reason == "ModelNotFound"
