"""Builds the Go programs that the clusters run, once, into the cache.

A binary is kept under the version and the go.mod/go.sum hash of its module, so an upgrade builds anew and two
checkouts with different versions do not disturb each other.
"""

import logging
import os
import shutil
import subprocess
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import files, paths, records, versions

_API_PROFILE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok")
_NODE_PROFILE = (
    "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kubelet", "kube-proxy",
    "containerd", "containerd-shim-runc-v2", "ctr", "runc", "bridge", "host-local", "loopback", "portmap", "coredns",
)  # fmt: skip
HELM = "helm"
KUBECONFORM = "kubeconform"
CONFTEST = "conftest"
PROMETHEUS, PROMTOOL = "prometheus", "promtool"

# The last part of the package path is the binary's name, with this exception.
_NAMED_OTHERWISE = {"go.etcd.io/etcd/server/v3": "etcd"}
_WITH_C = ("runc",)
# Prometheus without the discovery of twenty clouds, which is a third of it. Its web pages are in no module.
_TAGS = {"runc": "seccomp", PROMETHEUS: "remove_all_sd", PROMTOOL: "remove_all_sd"}
_GO_OUTSIDE_PATH = Path("/usr/local/go/bin/go")

logger = logging.getLogger(__name__)


class BuildError(Exception):
    """A Go program could not be built; the message holds the compiler's last lines."""


@dataclass(frozen=True)
class Tool:
    """One Go program: where its source is pinned and where its binary goes."""

    name: str
    package: str
    module: versions.GoModule

    @property
    def path(self) -> Path:
        """The binary in the cache, whether it exists or not."""
        return paths.binaries() / self.module.key / self.name


def of_profile(profile: records.Profile) -> tuple[str, ...]:
    """The programs that a cluster of this profile runs."""
    return _NODE_PROFILE if profile == "node" else _API_PROFILE


def tools() -> dict[str, Tool]:
    """Every program that some go.mod of `tools/` names, by its binary's name."""
    found = [
        Tool(_binary_name(package), package, module)
        for module in versions.go_modules().values()
        for package in module.packages
    ]
    return {tool.name: tool for tool in found}


def missing(names: Iterable[str]) -> list[str]:
    """Those of `names` that are not in the cache yet."""
    known = tools()
    return [name for name in names if not known[name].path.exists()]


def ensure(names: Iterable[str]) -> dict[str, Path]:
    """Builds what is missing and returns each program's path.

    Raises BuildError, and KeyError for a name that no go.mod provides. Safe to run twice at the same time.
    """
    known = tools()
    wanted = {name: known[name] for name in names}
    for tool in wanted.values():
        if not tool.path.exists():
            _build_locked(tool)
    return {name: tool.path for name, tool in wanted.items()}


def ensure_own(folder: Path, *, built_on: str) -> Path:
    """Builds the program whose sources are in `folder`, called after it, unless that was done; returns its path.

    Raises BuildError. `built_on` is the module whose version the binary is kept under.
    """
    tool = Tool(folder.name, ".", versions.own_module(folder, built_on=built_on))
    if not tool.path.exists():
        _build_locked(tool)
    return tool.path


def go_command() -> Path | None:
    """The Go command, also where the official archive puts it outside the PATH; None without one."""
    if found := shutil.which("go"):
        return Path(found)
    return _GO_OUTSIDE_PATH if _GO_OUTSIDE_PATH.exists() else None


def _binary_name(package: str) -> str:
    return _NAMED_OTHERWISE.get(package) or package.rsplit("/", 1)[-1]


def _build_locked(tool: Tool) -> None:
    with files.locked(paths.binaries() / f".{tool.module.name}.lock"):
        if not tool.path.exists():  # another process may have built it while this one waited
            _build(tool)


def _build(tool: Tool) -> None:
    go = go_command()
    if go is None:
        raise BuildError(
            f"cannot build {tool.name}: there is no Go compiler; run `python -m e2e.cluster prerequisites`"
        )
    logger.info("building %s %s ...", tool.name, tool.module.version)
    started = time.monotonic()
    tool.path.parent.mkdir(parents=True, exist_ok=True)
    temporary = tool.path.with_name(f".{tool.name}.{os.getpid()}")
    try:
        _run([str(go), "build", *_flags(tool), "-o", str(temporary), tool.package], tool)
        os.replace(temporary, tool.path)
    finally:
        temporary.unlink(missing_ok=True)
    logger.info("built %s %s in %.0f s", tool.name, tool.module.version, time.monotonic() - started)


def _flags(tool: Tool) -> list[str]:
    tags = ["-tags", _TAGS[tool.name]] if tool.name in _TAGS else []
    return ["-mod=readonly", "-trimpath", "-buildvcs=false", *tags, "-ldflags", _linker_flags(tool.module)]


def _linker_flags(module: versions.GoModule) -> str:
    """Strips debug information; a Kubernetes without the version variables would call itself v0.0.0."""
    if module.name != "kubernetes":
        return "-s -w"
    major, minor, _ = module.version.removeprefix("v").split(".", 2)
    variables = {"gitVersion": module.version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    return " ".join(["-s -w", *(f"-X k8s.io/component-base/version.{k}={v}" for k, v in variables.items())])


def _run(command: list[str], tool: Tool) -> None:
    environment = go_environment(os.environ, with_c=tool.name in _WITH_C)
    folder = tool.module.folder
    done = subprocess.run(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        tail = "\n".join(done.stderr.splitlines()[-15:])
        raise BuildError(f"building {tool.name} in {folder} failed with status {done.returncode}:\n{tail}")


def go_environment(inherited: Mapping[str, str], *, with_c: bool) -> dict[str, str]:
    """The build's environment: the user's, without what could change or break the build.

    Proxy settings (GOPROXY and its kin) are kept: they are how the user reaches modules at all.
    """
    dropped = {"GOOS", "GOARCH", "GOEXPERIMENT", "GOBIN", "GO111MODULE"}
    kept = {key: value for key, value in inherited.items() if key not in dropped}
    # Set, not removed: `go env -w` may have written other values to a file, which the environment overrides.
    return kept | {"GOFLAGS": "", "GOTOOLCHAIN": "local", "GOWORK": "off", "CGO_ENABLED": "1" if with_c else "0"}
