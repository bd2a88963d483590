import pytest

from e2e.cluster import binaries, prerequisites
from e2e.cluster.prerequisites import Prerequisite


def absent(name: str, **how: str) -> Prerequisite:
    return Prerequisite(name, lambda: False, **how)


def test_every_missing_thing_is_named_with_its_command_and_packages_can_be_installed_at_once() -> None:
    text = prerequisites.describe(
        [absent("nsenter", package="util-linux"), absent("ip", package="iproute2"), absent("root", remedy="use sudo")],
        "node",
    )
    assert text.splitlines() == [
        "node: missing on this machine:",
        "- nsenter: apt-get install --yes util-linux",
        "- ip: apt-get install --yes iproute2",
        "- root: use sudo",
        "all packages at once: apt-get install --yes iproute2 util-linux",
    ]


@pytest.mark.parametrize(
    ("answer", "recent"),
    [
        ("go1.26.8\n", True),
        ("go1.26", True),
        ("go1.27rc1", True),
        ("go2.0", True),
        ("go1.25.9", False),
        ("go1.9", False),
        ("devel +abc", False),
        ("", False),
    ],
)
def test_go_must_be_recent_enough(answer: str, recent: bool) -> None:
    assert prerequisites.go_is_recent(answer) is recent


def test_without_a_compiler_it_is_named_only_while_something_is_to_be_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binaries, "go_command", lambda: None)
    monkeypatch.setattr(binaries, "missing", lambda names: list(names))
    with pytest.raises(prerequisites.MissingPrerequisites, match=r"- Go 1\.\d+ or later: .*https://go\.dev/dl/go1\."):
        prerequisites.require("api")
    monkeypatch.setattr(binaries, "missing", lambda names: [])
    prerequisites.require("api")


def test_a_node_needs_root_and_the_api_profile_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prerequisites.os, "geteuid", lambda: 1000)
    assert "root" in [item.name for item in prerequisites.missing("node")]
    assert "root" not in [item.name for item in prerequisites.missing("api")]


def test_installing_takes_root_and_says_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prerequisites.os, "geteuid", lambda: 1000)
    with pytest.raises(RuntimeError, match="apt-get install --yes iproute2"):
        prerequisites.install([absent("ip", package="iproute2")])


def test_what_is_no_package_is_left_to_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: object, **__: object) -> None:
        pytest.fail("apt-get was started")

    monkeypatch.setattr(prerequisites.subprocess, "run", run)
    prerequisites.install([absent("overlayfs", remedy="modprobe overlay")])
