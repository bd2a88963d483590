"""Fixtures of encrypted weights in pods."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder in memory, as a pod's volume for decrypted weights is."""
    folder = Path(tempfile.mkdtemp(prefix="gptservice-test-", dir="/dev/shm"))
    yield folder
    shutil.rmtree(folder)
