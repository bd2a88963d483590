"""What `make lint` and `make type` check holds for what is committed: style, layers, types, Containerfiles.

pyright is left to `make type`: it fetches a Node.js of its own.
"""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
CONTAINERFILES = sorted(
    path for path in ROOT.glob("*/**/Containerfile*") if not path.is_relative_to(BIN.parent) and path.is_file()
)

CHECKS = {
    "ruff check": ["ruff", "check", "."],
    "ruff format": ["ruff", "format", "--check", "."],
    "layers": ["lint-imports", "--no-cache"],
    "types": ["mypy"],
    "Containerfiles": ["hadolint", "--no-color", *map(str, CONTAINERFILES)],
}


@pytest.mark.parametrize("name", CHECKS)
def test_a_check_finds_nothing(name: str) -> None:
    program, *arguments = CHECKS[name]
    done = subprocess.run([BIN / program, *arguments], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_there_are_containerfiles_to_check() -> None:
    assert {path.parent.name for path in CONTAINERFILES} >= {"operator", "runtime-image", "standin"}
