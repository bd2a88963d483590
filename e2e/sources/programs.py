"""Starts a server's program and waits until it answers."""

from __future__ import annotations

import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

HANG_SECONDS = 60


def free_port() -> int:
    """A port of the loopback that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        port: int = one.getsockname()[1]
        return port


@contextmanager
def running(command: Sequence[str | Path], url: str, log: Path, environment: Mapping[str, str]) -> Iterator[None]:
    """Run it while the context is open; RuntimeError with its last words if it does not answer at `url`."""
    with log.open("wb") as out:
        process = subprocess.Popen(list(map(str, command)), stdout=out, stderr=out, env=dict(environment))
    try:
        deadline = time.monotonic() + HANG_SECONDS
        while not _answers(url):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{command[0]} does not answer:\n{log.read_text()[-2000:]}")
            time.sleep(0.02)
        yield
    finally:
        process.terminate()
        process.wait(HANG_SECONDS)


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=1).close()  # noqa: S310 - our own
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True
