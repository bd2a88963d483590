"""Layers and archives, read back with tarfile as any other program would."""

import hashlib
import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.cluster.images import oci

REFERENCE = "localhost/example:dev"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    (root / "usr" / "bin").mkdir(parents=True)
    (root / "usr" / "bin" / "program").write_text("#!/bin/sh\n")
    (root / "usr" / "bin" / "program").chmod(0o755)
    (root / "bin").symlink_to("usr/bin")
    os.link(root / "usr" / "bin" / "program", root / "usr" / "bin" / "alias")
    (root / "empty").mkdir()
    return root


@pytest.fixture
def archive(tree: Path, tmp_path: Path) -> Path:
    layer = oci.write_layer(tree, tmp_path / "layer.tar")
    target = tmp_path / "image.tar"
    config = oci.ImageConfig(
        entrypoint=["/usr/bin/program"], user="65532:0", env={"PATH": "/usr/bin"}, labels={"a": "b"}
    )
    oci.write_archive(target, REFERENCE, [layer], config)
    return target


def test_a_layer_holds_the_tree_owned_by_root(tree: Path, tmp_path: Path) -> None:
    layer = oci.write_layer(tree, tmp_path / "layer.tar")
    with tarfile.open(layer.path) as tar:
        members = {member.name: member for member in tar}
    assert set(members) == {"bin", "empty", "usr", "usr/bin", "usr/bin/alias", "usr/bin/program"}
    assert {(member.uid, member.gid) for member in members.values()} == {(0, 0)}
    assert members["bin"].linkname == "usr/bin"
    assert members["usr/bin/program"].mode & 0o777 == 0o755
    assert members["empty"].isdir()


def test_hard_links_are_stored_once(tree: Path, tmp_path: Path) -> None:
    layer = oci.write_layer(tree, tmp_path / "layer.tar")
    with tarfile.open(layer.path) as tar:
        kinds = sorted(member.islnk() for member in tar if member.name in ("usr/bin/alias", "usr/bin/program"))
    assert kinds == [False, True]


def test_a_folder_comes_before_what_is_in_it(tree: Path, tmp_path: Path) -> None:
    layer = oci.write_layer(tree, tmp_path / "layer.tar")
    with tarfile.open(layer.path) as tar:
        names = tar.getnames()
    assert names.index("usr") < names.index("usr/bin") < names.index("usr/bin/program")


def test_every_blob_is_named_by_its_content(archive: Path) -> None:
    with tarfile.open(archive) as tar:
        blobs = [member for member in tar if member.name.startswith("blobs/sha256/")]
        for member in blobs:
            content = tar.extractfile(member)
            assert content is not None
            assert hashlib.sha256(content.read()).hexdigest() == member.name.rpartition("/")[2]
    assert len(blobs) == 3


def test_both_buildah_and_containerd_find_the_name(archive: Path) -> None:
    with tarfile.open(archive) as tar:
        index = tar.extractfile("index.json")
        assert index is not None
        (entry,) = json.load(index)["manifests"]
    assert entry["annotations"] == {
        "org.opencontainers.image.ref.name": REFERENCE,
        "io.containerd.image.name": REFERENCE,
    }


def test_an_archive_is_read_as_it_was_written(archive: Path, tmp_path: Path) -> None:
    image = oci.read_archive(archive)
    layer = oci.layer_of(tmp_path / "layer.tar")
    assert image.reference == REFERENCE
    assert image.diff_ids == (layer.digest,)
    assert image.labels == {"a": "b"}
    assert len({image.digest, image.config_digest, layer.digest}) == 3


def test_layers_come_out_as_they_went_in(archive: Path, tmp_path: Path) -> None:
    (layer,) = oci.extract_layers(archive, tmp_path / "out")
    assert layer.path.read_bytes() == (tmp_path / "layer.tar").read_bytes()
    assert oci.layer_of(layer.path) == layer


def test_a_layer_used_twice_is_stored_once(tree: Path, tmp_path: Path) -> None:
    layer = oci.write_layer(tree, tmp_path / "layer.tar")
    oci.write_archive(tmp_path / "twice.tar", REFERENCE, [layer, layer], oci.ImageConfig())
    assert oci.read_archive(tmp_path / "twice.tar").diff_ids == (layer.digest, layer.digest)
    with tarfile.open(tmp_path / "twice.tar") as tar:
        assert len([name for name in tar.getnames() if name.startswith("blobs/sha256/")]) == 3


def test_chain_ids_are_those_of_the_image_specification() -> None:
    first, second, third = (f"sha256:{letter * 64}" for letter in "abc")
    two = "sha256:" + hashlib.sha256(f"{first} {second}".encode()).hexdigest()
    three = "sha256:" + hashlib.sha256(f"{two} {third}".encode()).hexdigest()
    assert oci.chain_id([first]) == first
    assert oci.chain_id([first, second, third]) == three


def write_text(path: Path) -> None:
    path.write_text("not a tar file")


def write_other_tar(path: Path) -> None:
    with tarfile.open(path, "w") as tar:
        tar.addfile(tarfile.TarInfo("manifest.json"))


@pytest.mark.parametrize(
    ("write", "message"),
    [
        pytest.param(write_text, "not a whole tar file", id="text"),
        pytest.param(write_other_tar, "no index.json: not an OCI archive", id="another tar file"),
    ],
)
def test_something_else_is_refused_with_its_path(write: Callable[[Path], None], message: str, tmp_path: Path) -> None:
    write(tmp_path / "other.tar")
    with pytest.raises(ValueError, match=rf"other\.tar .*{message}"):
        oci.read_archive(tmp_path / "other.tar")
