"""The version: said in pyproject.toml, and written from there wherever a file has to repeat it.

`python -m release.version` writes the version of pyproject.toml into those files; `make generate` runs it.
"""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
REPEATED_IN = (
    "charts/*/Chart.yaml",
    "gitops/operator/values.yaml",
    "docs/*.md",
    "policy/README.md",
)
"""Files in which commands and manifests name the version that they belong to."""

_NUMBER = r"\d+\.\d+\.\d+(?:-(?:alpha|beta|rc)\.\d+)?"
# What stands before the version: of a chart, of an image or file of ours, of a flag or variable in a command.
_BEFORE = (
    "^version: ",
    "^appVersion: ",
    r"\btag: ",
    r"\bimage\.tag=",
    r"\bVERSION=",
    r"^registry=\S+ version=",
    r"\bgptservice-(?:operator|runtime|runtime-cpu|catalogue|crds)[-:]",
)
_NAMED = re.compile(rf"({'|'.join(_BEFORE)})({_NUMBER})(?=$|[\s\"'`)]|\.(?:yaml|tgz|oci|cdx))", re.MULTILINE)


def current() -> str:
    """The project's version."""
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"])


def files() -> Iterator[Path]:
    """The files that repeat it."""
    for pattern in REPEATED_IN:
        yield from sorted(ROOT.glob(pattern))


def repeated(text: str) -> list[str]:
    """The versions of ours that a text names, in its order."""
    return [match[2] for match in _NAMED.finditer(text)]


def with_version(text: str, version: str) -> str:
    """The text with that version in the place of each."""
    return _NAMED.sub(lambda match: match[1] + version, text)


def main() -> int:
    """Writes the files anew and returns the exit status."""
    version = current()
    for file in files():
        before = file.read_text()
        if (after := with_version(before, version)) != before:
            file.write_text(after)
            print(file.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
