"""Seeds: what makes a new one, what it starts from, and what a clone shares."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from e2e.cluster import paths
from e2e.cluster.images import catalogue, daemon, load, seed, store

SHARED_FILES = (
    "io.containerd.content.v1.content/blobs/sha256/aaa",
    "io.containerd.snapshotter.v1.overlayfs/snapshots/1/fs/usr/bin/python3",
)
OWN_FILES = (
    "gptservice-images.json",
    "io.containerd.metadata.v1.bolt/meta.db",
    "io.containerd.snapshotter.v1.overlayfs/metadata.db",
    "io.containerd.content.v1.content/ingest/half",
)


class Images:
    """Stands in for the catalogue and for containerd; notes what is imported."""

    def __init__(self) -> None:
        self.keys = dict.fromkeys(("vllm-cpu", *catalogue.DEPLOYED), "1")
        self.imported: list[str] = []

    def key(self, name: str) -> str:
        return self.keys[name]

    def archive(self, name: str) -> Path:
        return Path(f"{name}.tar")

    @contextmanager
    def running(self, root: Path) -> Iterator[daemon.Containerd]:
        write(root, "io.containerd.metadata.v1.bolt/meta.db")
        yield daemon.Containerd(("ctr",))

    def load_image(self, _containerd: daemon.Containerd, archive: Path) -> None:
        self.imported.append(archive.stem)

    def taken_imports(self) -> list[str]:
        taken, self.imported = self.imported, []
        return taken


def write(root: Path, name: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(name)


@pytest.fixture
def images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Images:
    fake = Images()
    monkeypatch.setenv("GPTSERVICE_CACHE", str(tmp_path / "cache"))
    paths.containerd_seeds().mkdir(parents=True)
    monkeypatch.setattr(catalogue, "key", fake.key)
    monkeypatch.setattr(catalogue, "archive", fake.archive)
    monkeypatch.setattr(daemon, "running", fake.running)
    monkeypatch.setattr(load, "load_image", fake.load_image)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return fake


def test_the_first_seed_holds_every_deployed_image(images: Images) -> None:
    made = seed.seed()
    assert sorted(images.taken_imports()) == sorted(catalogue.DEPLOYED)
    assert seed.read_contents(made) == images.keys


def test_unchanged_images_give_the_seed_that_is_there(images: Images) -> None:
    made = seed.seed()
    images.taken_imports()
    assert seed.seed() == made
    assert images.taken_imports() == []


def test_a_changed_image_is_all_that_is_imported(images: Images) -> None:
    first = seed.seed()
    images.taken_imports()
    images.keys["operator"] = "2"
    second = seed.seed()
    assert second != first
    assert images.taken_imports() == ["operator"]
    assert seed.read_contents(first)["operator"] == "1"
    assert seed.read_contents(second)["operator"] == "2"


def test_another_vllm_environment_starts_from_nothing(images: Images) -> None:
    """Or the old environment, which nothing may remove from containerd, would be carried on for ever."""
    seed.seed()
    images.taken_imports()
    images.keys |= {"vllm-cpu": "2", "runtime-cpu": "2"}
    seed.seed()
    assert sorted(images.taken_imports()) == sorted(catalogue.DEPLOYED)


def test_another_containerd_gives_another_seed(images: Images, monkeypatch: pytest.MonkeyPatch) -> None:
    before = seed.key(images.keys)
    other = type("Module", (), {"key": "containerd-v9.9.9"})()
    monkeypatch.setattr(seed.versions, "go_module", lambda _name: other)
    assert seed.key(images.keys) != before


def test_old_seeds_go_unless_a_cluster_uses_them(images: Images) -> None:
    used = seed.seed()
    mounts = paths.clusters() / "demo" / "node" / "snapshots.json"
    mounts.parent.mkdir(parents=True)
    mounts.write_text(json.dumps({str(used / "snapshots/1/fs"): "/anywhere"}))
    made = [used]
    for key in "2345":
        images.keys["operator"] = key
        made.append(seed.seed())
        for age, entry in enumerate(reversed(made)):
            if entry.exists():
                os.utime(entry, (1000 - age, 1000 - age))
    seed.prune()
    assert [entry.exists() for entry in made] == [True, False, False, True, True]


def test_filling_is_refused_without_root(images: Images, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(store.BuildError, match="only be made by root: run it with sudo"):
        seed.seed()
    assert images.imported == []


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    for name in (*SHARED_FILES, *OWN_FILES):
        write(folder, name)
    return folder


def test_a_clone_shares_images_and_owns_what_containerd_changes(root: Path, tmp_path: Path) -> None:
    clone = tmp_path / "clones" / "one"
    seed.clone(root, clone)
    for name in SHARED_FILES:
        assert (clone / name).stat().st_ino == (root / name).stat().st_ino
    for name in OWN_FILES:
        assert (clone / name).stat().st_ino != (root / name).stat().st_ino
        assert (clone / name).read_text() == name
    assert not list(clone.rglob("*.copy"))


def test_exactly_the_rest_is_taken_to_change(root: Path) -> None:
    assert {str(file.relative_to(root)) for file in seed.changing_files(root)} == set(OWN_FILES)
