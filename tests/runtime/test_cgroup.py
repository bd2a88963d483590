"""Finding the kernel's counter of out-of-memory kills."""

from pathlib import Path

import pytest

from gptservice_runtime import cgroup

V1 = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"
V2 = "low 0\nhigh 0\nmax 12\noom 4\noom_kill 3\noom_group_kill 1\n"


@pytest.mark.parametrize(
    ("files", "membership", "kills"),
    [
        pytest.param({"memory.events": V2}, "0::/\n", 3, id="v2 in a container"),
        pytest.param({"a/b/memory.events": V2}, "0::/a/b\n", 3, id="v2 without a namespace"),
        pytest.param({"memory/memory.oom_control": V1}, "4:memory:/pod/c\n0::/\n", 3, id="v1 in a container"),
        pytest.param({"memory/pod/c/memory.oom_control": V1}, "4:cpu,memory:/pod/c\n", 3, id="v1 on the host"),
        pytest.param(
            {"memory/memory.oom_control": V1.replace("3", "9"), "memory/p/memory.oom_control": V1},
            "4:memory:/p\n", 3, id="our own before the root's",
        ),
        pytest.param({}, "0::/\n", None, id="nothing there"),
        pytest.param({"memory.events": "low 0\n"}, "0::/\n", None, id="a kernel without the counter"),
    ],
)  # fmt: skip
def test_where_the_counter_is(tmp_path: Path, files: dict[str, str], membership: str, kills: int | None) -> None:
    for name, content in files.items():
        file = tmp_path / "fs" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    (tmp_path / "membership").write_text(membership)
    assert cgroup.oom_kills(tmp_path / "fs", tmp_path / "membership") == kills


def test_no_membership_file_is_no_error(tmp_path: Path) -> None:
    assert cgroup.oom_kills(tmp_path, tmp_path / "membership") is None
