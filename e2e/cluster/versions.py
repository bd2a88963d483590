"""The versions of everything the cluster is made of, each read from the one place that pins it.

Go tools are pinned by `tools/<module>/go.mod`; Python packages by `uv.lock`.
"""

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from e2e.cluster import paths

_TOOL_LINE = re.compile(r"^(?:tool\s+|\t)([\w.\-]+\.[\w.\-]+/[\w./\-]+)$", re.MULTILINE)
_REQUIRE_LINE = re.compile(r"^(?:require\s+|\t)([\w.\-]+/[\w./\-]+)\s+(v[\w.+\-]+)", re.MULTILINE)
_GO_LINE = re.compile(r"^go\s+(\d+)\.(\d+)", re.MULTILINE)


@dataclass(frozen=True)
class GoModule:
    """A Go module whose programs are built together: a folder of `tools/`, or one with a program of our own."""

    name: str
    version: str
    packages: tuple[str, ...]
    digest: str
    """Hash of go.mod, go.sum and the module's own sources: what the binaries depend on beside the compiler."""
    folder: Path
    """Where go.mod is."""

    @property
    def key(self) -> str:
        """Names the folder of the cache that holds this module's binaries."""
        return f"{self.name}-{self.version}-{self.digest[:12]}"


@cache
def go_module(name: str) -> GoModule:
    """Reads `tools/<name>`; raises FileNotFoundError for an unknown name and ValueError for a go.mod without tools."""
    folder = paths.TOOLS / name
    text = (folder / "go.mod").read_text()
    packages = tuple(_TOOL_LINE.findall(text))
    required = dict(_REQUIRE_LINE.findall(text))
    owners = [module for module in required if packages and _belongs(packages[0], module)]
    if not owners:
        raise ValueError(f"{folder / 'go.mod'}: no `tool` line with a matching `require`; add both")
    version = required[max(owners, key=len)]
    return GoModule(name, version, packages, _digest(folder / "go.mod", folder / "go.sum"), folder)


@cache
def go_modules() -> dict[str, GoModule]:
    """All modules of `tools/`, by name."""
    return {path.parent.name: go_module(path.parent.name) for path in sorted(paths.TOOLS.glob("*/go.mod"))}


def own_module(folder: Path, *, built_on: str) -> GoModule:
    """A program of our own; its version is that of the module `built_on`. KeyError if go.mod does not require that."""
    required = dict(_REQUIRE_LINE.findall((folder / "go.mod").read_text()))
    digest = _digest(folder / "go.mod", folder / "go.sum", *sorted(folder.glob("*.go")))
    return GoModule(folder.name, required[built_on], (".",), digest, folder)


@cache
def go_compiler() -> tuple[int, int]:
    """The oldest Go that builds every tool, as (major, minor)."""
    found = [_GO_LINE.search(path.read_text()) for path in paths.TOOLS.glob("*/go.mod")]
    return max((int(match[1]), int(match[2])) for match in found if match)


def _belongs(package: str, module: str) -> bool:
    return package == module or package.startswith(f"{module}/")


def _digest(*files: Path) -> str:
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files if file.exists())).hexdigest()
