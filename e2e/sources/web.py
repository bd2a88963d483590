"""A web server of files with ranges and tags (Starlette's, under uvicorn)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from e2e.cluster.pki import KeyPair
from e2e.sources import programs


@contextmanager
def serving(folder: Path, pair: KeyPair | None = None) -> Iterator[str]:
    """Serve a folder on the loopback while the context is open, with TLS if there is a certificate; its URL."""
    app = Starlette(routes=[Mount("/", StaticFiles(directory=folder))])
    port = programs.free_port()
    tls = {"ssl_certfile": str(pair.certificate), "ssl_keyfile": str(pair.key)} if pair is not None else {}
    config = uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error", lifespan="off", **tls)  # type: ignore[arg-type]
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, name="web")
    thread.start()
    try:
        while not server.started and thread.is_alive():
            thread.join(0.01)
        if not server.started:
            raise RuntimeError(f"cannot listen on port {port}")
        yield f"{'http' if pair is None else 'https'}://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()
