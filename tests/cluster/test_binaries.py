import stat
import threading
from pathlib import Path

import pytest

from e2e.cluster import binaries, versions

# Stands for the Go command: notes its arguments and environment, then writes the output file, or fails.
FAKE_GO = """#!/bin/sh
echo "$PWD|$*|$GOFLAGS|$GOTOOLCHAIN|$GOWORK|$GOOS|$CGO_ENABLED|$GOPROXY" >> "{log}"
sleep 0.2
{end}
while [ "$1" != -o ]; do shift; done
echo built > "$2"
"""


@pytest.fixture
def go_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GPTSERVICE_CACHE", str(tmp_path / "cache"))
    install_go(tmp_path, "", monkeypatch)
    return tmp_path / "log"


def install_go(tmp_path: Path, end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "go"
    folder.mkdir(exist_ok=True)
    go = folder / "go"
    go.write_text(FAKE_GO.format(log=tmp_path / "log", end=end))
    go.chmod(go.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(folder), prepend=":")


def test_a_program_is_built_once_into_a_folder_of_its_version(go_log: Path) -> None:
    first = binaries.ensure(["etcd"])
    again = binaries.ensure(["etcd"])
    assert first == again
    assert first["etcd"].parent.name.startswith(f"etcd-{versions.go_module('etcd').version}-")
    assert len(go_log.read_text().splitlines()) == 1
    assert [path.name for path in first["etcd"].parent.iterdir()] == ["etcd"]


def test_two_at_once_build_once(go_log: Path) -> None:
    threads = [threading.Thread(target=binaries.ensure, args=(["etcd"],)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(go_log.read_text().splitlines()) == 1


def test_the_users_go_settings_do_not_reach_the_build(go_log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "GOFLAGS": "-mod=vendor",
        "GOTOOLCHAIN": "go1.20",
        "GOWORK": "/elsewhere",
        "GOOS": "plan9",
        "GOPROXY": "https://proxy.example.com",
    }.items():
        monkeypatch.setenv(name, value)
    binaries.ensure(["runc", "kubectl"])
    runc, kubectl = (line.split("|") for line in go_log.read_text().splitlines())
    assert runc[2:] == ["", "local", "off", "", "1", "https://proxy.example.com"]
    assert kubectl[2:] == ["", "local", "off", "", "0", "https://proxy.example.com"]
    assert "-tags seccomp" in runc[1]
    assert f"gitVersion={versions.go_module('kubernetes').version}" in kubectl[1]
    assert all("-mod=readonly" in line[1] for line in (runc, kubectl))


def test_prometheus_is_built_without_the_discovery_of_clouds(go_log: Path) -> None:
    binaries.ensure([binaries.PROMETHEUS, binaries.PROMTOOL])
    for line in go_log.read_text().splitlines():
        assert "-tags remove_all_sd" in line.split("|")[1]


def test_a_failed_build_says_what_the_compiler_said_and_leaves_nothing(
    go_log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_go(tmp_path, "echo 'missing go.sum entry' >&2; exit 1", monkeypatch)
    with pytest.raises(binaries.BuildError, match=r"(?s)building etcd in .*missing go\.sum entry"):
        binaries.ensure(["etcd"])
    assert binaries.missing(["etcd"]) == ["etcd"]
    assert list(binaries.tools()["etcd"].path.parent.iterdir()) == []


def test_without_a_compiler_the_error_names_the_command_that_says_more(
    go_log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binaries, "go_command", lambda: None)
    with pytest.raises(binaries.BuildError, match=r"python -m e2e\.cluster prerequisites"):
        binaries.ensure(["etcd"])
