"""What a listing comes to as the spec of a GPTModel."""

from typing import Any

import pytest
import yaml

from gptservice_operator.api import v1
from gptservice_runtime import catalogue_entry, digest, memory, models
from gptservice_runtime.catalogue_entry import Found
from gptservice_runtime.digest import FileDigest
from gptservice_runtime.transfer.digests import Digest
from gptservice_runtime.transfer.source import RemoteFile

SHA256, SHA1 = "1" * 64, "2" * 40
WEIGHTS = 15_000_000_000


def remote(path: str, size: int, algorithm: Any = "sha256", *, is_archive: bool = False) -> RemoteFile:
    told = Digest(algorithm=algorithm, value=SHA256 if algorithm == "sha256" else SHA1)
    return RemoteFile(path=path, size=size, digest=told, name=path, address=path, is_archive=is_archive)


FOLDER = (remote("config.json", 700), remote("model.safetensors", WEIGHTS), remote("tokenizer.json", 9000))


def entry(*files: RemoteFile, uri: str = "hf://org/name", **more: Any) -> tuple[dict[str, Any], str]:
    text = catalogue_entry.spec(Found(uri=uri, files=files, **{"is_pinned": True, "revision": "r1", **more}))
    (spec,) = yaml.safe_load(text).values()
    v1.GPTModelSpec.model_validate(spec)
    return spec, text


def test_the_weights_are_counted_as_a_fetch_compares_them() -> None:
    spec, text = entry(*FOLDER)
    assert spec["weightsSize"] == str(WEIGHTS)
    files = [(file.path, file.size) for file in FOLDER]
    memory.demand("", files, WEIGHTS)
    with pytest.raises(models.ModelError):
        memory.demand("", files, WEIGHTS - 1)
    assert f"3 files, 15.0 GB ({WEIGHTS + 9700} bytes), revision r1" in text


def test_a_digest_is_told_where_all_files_have_theirs() -> None:
    spec, _ = entry(*FOLDER)
    files = [FileDigest(path=file.path, size=file.size, sha256=SHA256) for file in FOLDER]
    assert spec["digest"] == digest.of_model(files)


@pytest.mark.parametrize(
    "other", [remote("a.json", 5, "git-sha1"), remote("a.tar", 5, is_archive=True)], ids=["git", "archive"]
)
def test_no_digest_is_made_up(other: RemoteFile) -> None:
    assert "digest" not in entry(*FOLDER, other)[0]


def test_of_a_plain_archive_the_size_is_said_to_be_no_more_than_that() -> None:
    spec, text = entry(remote("m.tar", WEIGHTS, is_archive=True), is_pinned=False)
    assert spec["weightsSize"] == str(WEIGHTS)
    assert "Of the archive alone" in text
    assert "1 archive, " in text


@pytest.mark.parametrize("name", ["m.tar.gz", "m.tgz"])
def test_of_a_compressed_archive_no_size_is_told(name: str) -> None:
    spec, text = entry(remote("config.json", 5), remote(name, WEIGHTS, is_archive=True))
    assert "weightsSize" not in spec
    assert "weightsSize is not known: the archive is compressed" in text


@pytest.mark.parametrize("is_pinned", [True, False])
def test_what_may_become_another_model_is_said(is_pinned: bool) -> None:
    assert ("cannot name its revision" in entry(*FOLDER, is_pinned=is_pinned)[1]) != is_pinned


@pytest.mark.parametrize("uri", ["s3://bucket/m:", "s3://bucket/m#1", "s3://bucket/{m}", "pvc://c/\"m\\'"])
def test_a_uri_is_pasted_as_it_is(uri: str) -> None:
    assert entry(*FOLDER, uri=uri)[0]["uri"] == uri


def test_a_query_that_is_left_out_is_said() -> None:
    assert "behind its '?'" in entry(*FOLDER, hidden_query=True)[1]
    assert "'?'" not in entry(*FOLDER)[1]


def test_a_source_without_revisions() -> None:
    assert "without a revision" in entry(*FOLDER, uri="pvc://claim/m", revision=None)[1]
