"""The real promtool."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.cluster import binaries

Promtool = Callable[..., str]


@pytest.fixture(scope="session")
def promtool() -> Promtool:
    """Runs it and returns what it said; AssertionError where it finds something."""
    program = binaries.ensure([binaries.PROMTOOL])[binaries.PROMTOOL]

    def run(*arguments: str | Path) -> str:
        done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
        said = done.stdout + done.stderr
        assert done.returncode == 0, said
        return said

    return run
