"""Loading images: the vLLM environment is put in place first where an image's label asks for it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from e2e.cluster import paths
from e2e.cluster.images import catalogue, daemon, load, oci, store, vllm

ENVIRONMENT = "vllm-0123456789abcdef"


class FakeContainerd(daemon.Containerd):
    """Keeps snapshots as folders and notes every step."""

    def __init__(self, folder: Path, *known: str) -> None:
        super().__init__(("ctr",))
        self.__dict__.update(folder=folder, known=set(known), steps=[])

    def snapshots(self) -> set[str]:
        return self.__dict__["known"]

    def import_image(self, archive: Path) -> None:
        self.__dict__["steps"].append(f"import {archive.name}")

    @contextmanager
    def new_snapshot(self, name: str, *, parent: str) -> Iterator[Path]:
        folder: Path = self.__dict__["folder"] / name.replace(":", "-")
        folder.mkdir()
        yield folder
        self.__dict__["steps"].append(f"snapshot {name} on {parent}")
        self.__dict__["known"].add(name)

    @property
    def steps(self) -> list[str]:
        return self.__dict__["steps"]


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPTSERVICE_CACHE", str(tmp_path / "cache"))
    folder = paths.environments() / ENVIRONMENT
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "vllm").write_text("program")
    monkeypatch.setattr(vllm, "environment", lambda: paths.environments() / "vllm-current")
    monkeypatch.setattr(catalogue, "archive", lambda name: Path(f"{name}.tar"))  # pyright: ignore
    return folder


def make_archive(folder: Path, *, labels: dict[str, str]) -> tuple[Path, tuple[str, ...]]:
    """An image of three layers, and the chain ids of its lowest one and two."""
    layers: list[oci.Layer] = []
    for name in ("base", "marker", "top"):
        (folder / name).mkdir()
        (folder / name / name).write_text(name)
        layers.append(oci.write_layer(folder / name, folder / f"{name}.layer"))
    oci.write_archive(folder / "image.tar", "localhost/x:dev", layers, oci.ImageConfig(labels=labels))
    digests = [layer.digest for layer in layers]
    return folder / "image.tar", (oci.chain_id(digests[:1]), oci.chain_id(digests[:2]))


def test_an_image_without_the_label_is_just_imported(tmp_path: Path) -> None:
    archive, _ = make_archive(tmp_path, labels={})
    containerd = FakeContainerd(tmp_path)
    load.load_image(containerd, archive)
    assert containerd.steps == ["import image.tar"]


def test_what_is_no_oci_archive_is_left_to_containerd(tmp_path: Path) -> None:
    (tmp_path / "docker.tar").write_text("from docker save")
    containerd = FakeContainerd(tmp_path)
    load.load_image(containerd, tmp_path / "docker.tar")
    assert containerd.steps == ["import docker.tar"]


def test_the_environment_is_linked_in_before_the_import(tmp_path: Path, environment: Path) -> None:
    archive, (base, marked) = make_archive(tmp_path, labels={vllm.LABEL: ENVIRONMENT})
    containerd = FakeContainerd(tmp_path, base)
    load.load_image(containerd, archive)
    assert containerd.steps == [f"snapshot {marked} on {base}", "import image.tar"]
    place = tmp_path / marked.replace(":", "-") / "opt" / "vllm"
    assert os.path.samefile(place / "bin" / "vllm", environment / "bin" / "vllm")
    assert (place / "ENVIRONMENT").read_text() == f"{ENVIRONMENT}\n"
    assert not (environment / "ENVIRONMENT").exists()


def test_an_environment_that_is_in_place_stays(tmp_path: Path) -> None:
    archive, (base, marked) = make_archive(tmp_path, labels={vllm.LABEL: ENVIRONMENT})
    containerd = FakeContainerd(tmp_path, base, marked)
    load.load_image(containerd, archive)
    assert containerd.steps == ["import image.tar"]


def test_a_missing_base_is_imported_first(tmp_path: Path) -> None:
    archive, (base, marked) = make_archive(tmp_path, labels={vllm.LABEL: ENVIRONMENT})
    containerd = FakeContainerd(tmp_path)
    load.load_image(containerd, archive)
    assert containerd.steps == ["import base.tar", f"snapshot {marked} on {base}", "import image.tar"]


def test_an_image_whose_environment_was_replaced_is_refused(tmp_path: Path) -> None:
    archive, (base, _) = make_archive(tmp_path, labels={vllm.LABEL: "vllm-gone"})
    containerd = FakeContainerd(tmp_path, base)
    with pytest.raises(store.BuildError, match=r"localhost/x:dev needs .*vllm-gone.* build the image anew"):
        load.load_image(containerd, archive)
    assert containerd.steps == []
