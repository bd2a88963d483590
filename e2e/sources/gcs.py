"""Google Cloud Storage's JSON API (fake-gcs-server) over a folder; it asks nobody for credentials."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import binaries
from e2e.sources import programs

PROGRAM = "fake-gcs-server"
BUCKET = "models"


@dataclass(frozen=True)
class GcsServer:
    """A running one, on the loopback."""

    url: str


@contextmanager
def serving(folder: Path, models: dict[str, Path]) -> Iterator[GcsServer]:
    """Run it while the context is open, with folders below prefixes of the bucket."""
    seed = folder / "seed"
    for prefix, model in models.items():
        if model.is_dir():
            shutil.copytree(model, seed / BUCKET / prefix)
        else:
            (seed / BUCKET / prefix).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(model, seed / BUCKET / prefix)
    port = programs.free_port()
    server = GcsServer(f"http://127.0.0.1:{port}")
    command: list[str | Path] = [
        binaries.ensure([PROGRAM])[PROGRAM],
        "-scheme",
        "http",
        "-host",
        "127.0.0.1",
        "-port",
        str(port),
    ]
    command += ["-data", str(seed), "-backend", "filesystem", "-filesystem-root", str(folder / "store")]
    command += ["-log-level", "error", "-external-url", server.url]
    with programs.running(command, f"{server.url}/storage/v1/b", folder / "log", {}):
        yield server
