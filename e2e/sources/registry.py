"""An OCI registry (CNCF's distribution) over a folder, with a password or without, and what puts models into it."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import tarfile
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.cluster import binaries
from e2e.sources import programs

PROGRAM = "registry"
USER = "puller"
PASSWORD = "let-me-in"  # noqa: S105 - of a server of this test
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_INDEX = "application/vnd.oci.image.index.v1+json"
RAW = "application/vnd.oci.image.layer.v1.raw"
TAR = "application/vnd.oci.image.layer.v1.tar"
TAR_GZIP = "application/vnd.oci.image.layer.v1.tar+gzip"
_TITLE = "org.opencontainers.image.title"


@dataclass(frozen=True)
class Registry:
    """A running one, on the loopback."""

    url: str

    def push_files(self, folder: Path, name: str, tag: str) -> str:
        """Push a folder as ORAS does: a layer for each file, named by its title. Returns the manifest's digest."""
        layers = [
            {**self._blob(name, file.read_bytes()), "mediaType": RAW, "annotations": {_TITLE: title}}
            for file in sorted(path for path in folder.rglob("*") if path.is_file())
            if (title := file.relative_to(folder).as_posix())
        ]
        return self.push_manifest(name, tag, layers)

    def push_layers(self, layers: Sequence[bytes], name: str, tag: str, media_type: str = TAR) -> str:
        """Push tars as the layers of an image. Returns the manifest's digest."""
        return self.push_manifest(name, tag, [{**self._blob(name, each), "mediaType": media_type} for each in layers])

    def push_manifest(self, name: str, tag: str, layers: Sequence[Mapping[str, Any]]) -> str:
        """Push a manifest of these layers."""
        config = {**self._blob(name, b"{}"), "mediaType": "application/vnd.oci.empty.v1+json"}
        described = {"schemaVersion": 2, "mediaType": _MANIFEST, "config": config, "layers": layers}
        return self._put_manifest(name, tag, json.dumps(described).encode(), _MANIFEST)

    def push_index(self, name: str, tag: str, digest: str, size: int) -> str:
        """Push an index with one manifest for amd64 behind an attestation."""
        entry = {"mediaType": _MANIFEST, "digest": digest, "size": size}
        unknown = {**entry, "platform": {"architecture": "unknown", "os": "unknown"}}
        amd64 = {**entry, "platform": {"architecture": "amd64", "os": "linux"}}
        described = {"schemaVersion": 2, "mediaType": _INDEX, "manifests": [unknown, amd64]}
        return self._put_manifest(name, tag, json.dumps(described).encode(), _INDEX)

    def blob_urls(self, name: str, tag: str, titles: Sequence[str]) -> list[str]:
        """Where the layers with these titles are."""
        request = urllib.request.Request(  # noqa: S310 - our own
            f"{self.url}/v2/{name}/manifests/{tag}", headers={"Accept": _MANIFEST}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
            layers = json.load(answer)["layers"]
        digests = {layer["annotations"][_TITLE]: layer["digest"] for layer in layers}
        return [f"{self.url}/v2/{name}/blobs/{digests[title]}" for title in titles]

    def _put_manifest(self, name: str, tag: str, body: bytes, media_type: str) -> str:
        self._send("PUT", f"{self.url}/v2/{name}/manifests/{tag}", body, media_type)
        return f"sha256:{hashlib.sha256(body).hexdigest()}"

    def _blob(self, name: str, content: bytes) -> dict[str, Any]:
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        location = self._send("POST", f"{self.url}/v2/{name}/blobs/uploads/", b"")
        mark = "&" if "?" in location else "?"
        self._send("PUT", f"{location}{mark}digest={digest}", content)
        return {"digest": digest, "size": len(content)}

    def _send(self, method: str, url: str, body: bytes, media_type: str = "application/octet-stream") -> str:
        headers = {"Content-Type": media_type}
        request = urllib.request.Request(url, body, headers, method=method)  # noqa: S310 - our own
        with urllib.request.urlopen(request, timeout=60) as response:  # noqa: S310
            return str(response.headers.get("Location", ""))


def docker_configuration(host: str, user: str = USER, password: str = PASSWORD) -> str:
    """What `kubectl create secret docker-registry` writes."""
    auth = base64.b64encode(f"{user}:{password}".encode()).decode()
    return json.dumps({"auths": {host: {"username": user, "password": password, "auth": auth}}})


def packed(entries: Mapping[str, bytes | tarfile.TarInfo], mode: str = "w") -> bytes:
    """A tar of these files; an entry may be a header of its own instead of bytes."""
    buffer = io.BytesIO()
    opened: Any = tarfile.open
    with opened(fileobj=buffer, mode=mode) as tar:
        for name, content in entries.items():
            header = content if isinstance(content, tarfile.TarInfo) else tarfile.TarInfo(name)
            if isinstance(content, bytes):
                header.size = len(content)
            tar.addfile(header, io.BytesIO(content) if isinstance(content, bytes) else None)
    return buffer.getvalue()


def packed_folder(folder: Path, below: str = "", mode: str = "w") -> bytes:
    """A tar of a folder's files, below a folder of the tar."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return packed({f"{below}{path.relative_to(folder).as_posix()}": path.read_bytes() for path in found}, mode)


@contextmanager
def serving(folder: Path) -> Iterator[Registry]:
    """Run it while the context is open; whoever reaches it may push, and the gate before it asks for a password."""
    port = programs.free_port()
    (folder / "data").mkdir(parents=True)
    configuration = folder / "config.yml"
    described = {
        "version": "0.1",
        "log": {"level": "error", "accesslog": {"disabled": True}},
        "storage": {"filesystem": {"rootdirectory": str(folder / "data")}},
        "http": {"addr": f"127.0.0.1:{port}", "relativeurls": False},
    }
    configuration.write_text(json.dumps(described))
    command: list[str | Path] = [binaries.ensure([PROGRAM])[PROGRAM], "serve", configuration]
    with programs.running(command, f"http://127.0.0.1:{port}/v2/", folder / "log", {"OTEL_TRACES_EXPORTER": "none"}):
        yield Registry(f"http://127.0.0.1:{port}")
