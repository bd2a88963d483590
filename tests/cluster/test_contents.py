from pathlib import Path

import pytest

from e2e.cluster import contents, paths

CONTENT = Path("io.containerd.content.v1.content/blobs/sha256/aaa")
METADATA = Path("io.containerd.metadata.v1.bolt/meta.db")
SNAPSHOTS = Path("io.containerd.snapshotter.v1.overlayfs/snapshots")


@pytest.fixture
def seed(tmp_path: Path) -> Path:
    root = tmp_path / "seed"
    for file in (
        CONTENT,
        METADATA,
        SNAPSHOTS / "1/fs/usr/bin/python3",
        SNAPSHOTS / "2/fs/fs/data",
        SNAPSHOTS.parent / "metadata.db",
    ):
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text(str(file))
    (root / SNAPSHOTS / "1/work").mkdir()
    return root


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPTSERVICE_CACHE", str(tmp_path / "cache"))
    return paths.cluster("c1")


def test_databases_are_copied_and_blobs_shared(seed: Path, cluster: Path) -> None:
    root = cluster / "containerd"
    contents.prepare(cluster, root, seed)
    for database in (METADATA, SNAPSHOTS.parent / "metadata.db"):
        assert (root / database).read_bytes() == (seed / database).read_bytes()
        assert not (root / database).samefile(seed / database)
    assert (root / CONTENT).samefile(seed / CONTENT)


def test_snapshots_are_empty_mount_points_listed_for_process_1(seed: Path, cluster: Path) -> None:
    root = cluster / "containerd"
    contents.prepare(cluster, root, seed)
    assert list((root / SNAPSHOTS / "1/fs").iterdir()) == []
    assert (root / SNAPSHOTS / "1/work").is_dir()
    assert contents.mounts(cluster) == {
        seed / SNAPSHOTS / number / "fs": root / SNAPSHOTS / number / "fs" for number in ("1", "2")
    }


def test_a_seed_is_in_use_as_long_as_the_cluster_is_there(seed: Path, cluster: Path) -> None:
    assert not contents.in_use(seed)
    contents.prepare(cluster, cluster / "containerd", seed)
    (paths.clusters() / ".c1.lock").touch()
    (paths.clusters() / ".being-removed").mkdir()
    assert contents.in_use(seed)
    assert not contents.in_use(seed.parent / "seed2")
    (cluster / contents.MOUNTS).unlink()
    assert not contents.in_use(seed)
