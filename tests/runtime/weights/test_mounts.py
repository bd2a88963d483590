"""Whether a folder lies in memory, as the kernel's tables say it."""

import os
from pathlib import Path

import pytest

from gptservice_runtime.weights import mounts

SWAPS = "Filename\tType\tSize\tUsed\tPriority\n"


def table(device: int, kind: str, options: str) -> str:
    number = f"{os.major(device)}:{os.minor(device)}"
    return f"21 1 999:1 / / rw - ext4 /dev/vda rw\n36 35 {number} / /m rw,nosuid master:1 - {kind} none {options}\n"


@pytest.mark.parametrize(("kind", "options"), [("tmpfs", "rw,noswap,size=4k"), ("ext4", "rw")])
def test_a_mount_is_found_by_its_device(tmp_path: Path, kind: str, options: str) -> None:
    found = mounts.mount_of(tmp_path, table(tmp_path.stat().st_dev, kind, options))
    assert found == mounts.Mount(kind, frozenset(options.split(",")))


def test_a_file_system_that_the_table_does_not_name_is_unknown(tmp_path: Path) -> None:
    assert mounts.mount_of(tmp_path, "21 1 999:1 / / rw - ext4 /dev/vda rw\n") is None


def test_this_machine_s_own_tables_are_read() -> None:
    found = mounts.mount_of(Path("/dev/shm"))
    assert found is not None
    assert found.kind in mounts.IN_MEMORY
    assert isinstance(mounts.node_swaps(), bool)


@pytest.mark.parametrize(("text", "swaps"), [(SWAPS, False), (SWAPS + "/swap file 1 0 -2\n", True), ("", False)])
def test_whether_a_node_swaps(text: str, swaps: bool) -> None:
    assert mounts.node_swaps(text) is swaps
