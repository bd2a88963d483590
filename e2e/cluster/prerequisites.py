"""What a machine must have, checked before anything starts, each with the command that installs it.

Package names are Debian's (and Ubuntu's).
"""

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from e2e.cluster import binaries, cgroups, versions

Purpose = Literal["api", "node", "build"]


class MissingPrerequisites(Exception):
    """Something is missing; the message names all of it and the commands that install it."""


@dataclass(frozen=True)
class Prerequisite:
    """Something a machine has or lacks; `package` is what apt-get installs, otherwise `remedy` says what to do."""

    name: str
    present: Callable[[], bool]
    package: str = ""
    remedy: str = ""


def require(purpose: Purpose) -> None:
    """Raises MissingPrerequisites unless everything is there."""
    if absent := missing(purpose):
        raise MissingPrerequisites(describe(absent, purpose))


def missing(purpose: Purpose) -> list[Prerequisite]:
    """What this machine lacks for a profile, or for building all programs."""
    return [prerequisite for prerequisite in _wanted(purpose) if not prerequisite.present()]


def describe(absent: Iterable[Prerequisite], purpose: Purpose) -> str:
    """A text for people: one line for each missing thing, and one command for all packages."""
    absent = list(absent)
    if not absent:
        return f"{purpose}: nothing is missing"
    lines = [f"{purpose}: missing on this machine:"]
    lines += [f"- {item.name}: {item.remedy or _apt([item.package])}" for item in absent]
    packages = _packages(absent)
    if len(packages) > 1:
        lines.append(f"all packages at once: {_apt(packages)}")
    return "\n".join(lines)


def install(absent: Iterable[Prerequisite]) -> None:
    """Installs the packages with apt-get; raises RuntimeError without root or when apt-get fails.

    What is no Debian package (a recent Go, kernel features) is left to the user.
    """
    packages = _packages(absent)
    if not packages:
        return
    if os.geteuid() != 0:
        raise RuntimeError(f"installing packages takes root: {_apt(packages)}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "--yes", "--no-install-recommends", *packages]):
        done = subprocess.run(["apt-get", "--quiet", *command], env=environment, check=False)
        if done.returncode:
            raise RuntimeError(f"`apt-get {' '.join(command)}` failed with status {done.returncode}")


def _wanted(purpose: Purpose) -> list[Prerequisite]:
    if purpose == "build":
        return [_linux(), *_to_build([*binaries.of_profile("node"), binaries.HELM])]
    # In the commands of the documents, which are run as they stand.
    found = [_linux(), _program("openssl", "openssl"), *_to_build(binaries.of_profile(purpose))]
    return found + _for_a_node() if purpose == "node" else found


def _to_build(programs: Iterable[str]) -> list[Prerequisite]:
    """A compiler is needed only for what is not in the cache."""
    absent = binaries.missing(programs)
    found = [_go()] if absent else []
    if "runc" in absent:
        header = Path("/usr/include/seccomp.h")
        found += [_program("gcc", "gcc"), Prerequisite("libseccomp's headers", header.exists, "libseccomp-dev")]
    return found


def _for_a_node() -> list[Prerequisite]:
    return [
        Prerequisite("root", lambda: os.geteuid() == 0, remedy="run it as root: profile node starts containers"),
        _program("curl", "curl"),
        _program("ip", "iproute2"),
        _program("iptables", "iptables"),
        _program("nsenter", "util-linux"),
        _program("unshare", "util-linux"),
        _program("mount", "mount"),
        _program("debootstrap", "debootstrap"),
        _program("buildah", "buildah"),
        _program("gcc", "gcc"),
        Prerequisite("a static C library", _has_static_libc, "libc6-dev"),
        Prerequisite("overlayfs", _has_overlay, remedy="modprobe overlay"),
        Prerequisite("netfilter on bridges", Path("/proc/sys/net/bridge").exists, remedy="modprobe br_netfilter"),
        Prerequisite(
            f"cgroup controllers {', '.join(sorted(cgroups.REQUIRED))}",
            _has_controllers,
            remedy="boot a kernel with cgroups, mounted at /sys/fs/cgroup; in a container, start it privileged",
        ),
    ]


def _linux() -> Prerequisite:
    return Prerequisite("Linux", lambda: platform.system() == "Linux", remedy="use a Linux machine or virtual machine")


def _go() -> Prerequisite:
    major, minor = versions.go_compiler()
    architecture = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    archive = f"https://go.dev/dl/go{major}.{minor}.0.linux-{architecture}.tar.gz"
    remedy = f"rm -rf /usr/local/go && curl -fsSL {archive} | tar -C /usr/local -xz"
    return Prerequisite(f"Go {major}.{minor} or later", lambda: go_is_recent(_go_version()), remedy=remedy)


def go_is_recent(answer: str) -> bool:
    """Whether the answer of `go env GOVERSION` is of a Go that builds every tool."""
    match = re.match(r"go(\d+)\.(\d+)", answer)
    return match is not None and (int(match[1]), int(match[2])) >= versions.go_compiler()


def _go_version() -> str:
    go = binaries.go_command()
    if go is None:
        return ""
    environment = binaries.go_environment(os.environ, with_c=False)
    done = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, env=environment, check=False)
    return done.stdout


def _program(name: str, package: str) -> Prerequisite:
    # The system's folders too: a user's PATH may lack /usr/sbin.
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    return Prerequisite(name, lambda: shutil.which(name, path=path) is not None, package)


def _has_static_libc() -> bool:
    return any(Path("/usr").glob("lib*/**/libc.a"))


def _has_overlay() -> bool:
    return "overlay" in Path("/proc/filesystems").read_text().split()


def _has_controllers() -> bool:
    return cgroups.controllers() >= cgroups.REQUIRED


def _packages(absent: Iterable[Prerequisite]) -> list[str]:
    return sorted({item.package for item in absent if item.package})


def _apt(packages: Iterable[str]) -> str:
    return f"apt-get install --yes {' '.join(packages)}"
