from pathlib import Path

import pytest

from e2e.cluster import cgroups

V1 = """\
30 29 0:26 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
31 29 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
"""
V2 = "29 25 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
V1_TREES = [("/sys/fs/cgroup/memory", False), ("/sys/fs/cgroup/cpu,cpuacct", False)]
BESIDE = "32 29 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
OTHER = "25 1 0:22 / /sys rw - sysfs sysfs rw\n22 1 8:1 / /cgroup2 - data rw - ext4 /dev/sda1 rw\n"


@pytest.mark.parametrize(
    ("mounts", "expected"),
    [
        (V1, V1_TREES),
        (V2, [("/sys/fs/cgroup", True)]),
        (V1 + BESIDE, [*V1_TREES, ("/sys/fs/cgroup/unified", True)]),
        (OTHER, []),
    ],
    ids=["v1", "v2", "both", "neither"],
)  # fmt: skip
def test_mounted_trees_are_read_from_mountinfo(mounts: str, expected: list[tuple[str, bool]]) -> None:
    found = cgroups.hierarchies(mounts)
    assert [(str(hierarchy.root), hierarchy.unified) for hierarchy in found] == expected


def test_controllers_of_v1_are_mount_options() -> None:
    assert {"cpu", "cpuacct"} <= set(cgroups.hierarchies(V1)[1].options)


def test_v2_groups_get_their_controllers_and_a_place_for_the_clusters_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder stands for the file system of cgroup v2, which could not be tried on the machine this was written on."""

    class Group(type(tmp_path)):  # type: ignore[misc]
        """A folder that gets the kernel's files when it is made."""

        def mkdir(self, *arguments: object, **options: object) -> None:
            super().mkdir(*arguments, **options)
            (self / "cgroup.controllers").write_text("memory\n")

    root = Group(tmp_path / "cgroup")
    root.mkdir()
    monkeypatch.setattr(cgroups, "hierarchies", lambda: [cgroups.Hierarchy(root, unified=True)])
    assert cgroups.create("gptservice1") == [root / "gptservice1/sys/cgroup.procs"]
    for group in (root, root / "gptservice1"):
        assert (group / "cgroup.subtree_control").read_text() == "+memory"
    # Processes and delegated controllers exclude each other in one group.
    assert not (root / "gptservice1/sys/cgroup.subtree_control").exists()
