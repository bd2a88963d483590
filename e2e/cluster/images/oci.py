"""OCI image archives (image-spec 1.1, a layout inside one tar file), written and read without any tool.

Layers written here are plain tar files: they stay on this machine, where gzip costs more than the disk.
"""

import hashlib
import io
import json
import os
import shutil
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar"
CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
INDEX_TYPE = "application/vnd.oci.image.index.v1+json"
REFERENCE_KEY = "org.opencontainers.image.ref.name"  # read by buildah
CONTAINERD_REFERENCE_KEY = "io.containerd.image.name"  # read by containerd before the other


@dataclass(frozen=True)
class Layer:
    """One layer on disk; being uncompressed, its digest is also its diff id."""

    path: Path
    digest: str
    size: int


@dataclass(frozen=True)
class ImageConfig:
    """How a container of the image starts."""

    entrypoint: Sequence[str] = ()
    user: str = ""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    labels: Mapping[str, str] = field(default_factory=dict[str, str])


def write_layer(root: Path, target: Path) -> Layer:
    """Packs the tree below `root` as it is, but owned by root and sorted by name."""
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as tar:
        for folder, names, file_names in os.walk(root):
            names.sort()
            for name in sorted([*file_names, *(n for n in names if (Path(folder) / n).is_symlink())]):
                _add(tar, Path(folder) / name, root)
            names[:] = [name for name in names if not (Path(folder) / name).is_symlink()]
            for name in names:
                _add(tar, Path(folder) / name, root)
    return layer_of(target)


def _add(tar: tarfile.TarFile, path: Path, root: Path) -> None:
    tar.add(path, arcname=path.relative_to(root), recursive=False, filter=_owned_by_root)


def _owned_by_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def layer_of(path: Path) -> Layer:
    """The layer that a tar file is."""
    with path.open("rb") as handle:
        digest = hashlib.file_digest(handle, "sha256").hexdigest()
    return Layer(path, f"sha256:{digest}", path.stat().st_size)


def chain_id(diff_ids: Sequence[str]) -> str:
    """The name under which containerd keeps the unpacked result of these layers on top of one another."""
    chain = diff_ids[0]
    for diff_id in diff_ids[1:]:
        chain = "sha256:" + hashlib.sha256(f"{chain} {diff_id}".encode()).hexdigest()
    return chain


def write_archive(target: Path, reference: str, layers: Sequence[Layer], config: ImageConfig) -> None:
    """Writes an image of these layers, lowest first, under the full name `reference`."""
    config_blob = _encode(_config_document(layers, config))
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "config": _descriptor(CONFIG_TYPE, config_blob),
        "layers": [{"mediaType": LAYER_TYPE, "digest": la.digest, "size": la.size} for la in layers],
    }
    manifest_blob = _encode(manifest)
    with tarfile.open(target, "w") as tar:
        _add_bytes(tar, "oci-layout", _encode({"imageLayoutVersion": "1.0.0"}))
        _add_bytes(tar, "index.json", _encode(_index(reference, manifest_blob)))
        for blob in (manifest_blob, config_blob):
            _add_bytes(tar, _blob_name(_digest(blob)), blob)
        for layer in {layer.digest: layer for layer in layers}.values():
            tar.add(layer.path, arcname=_blob_name(layer.digest), filter=_owned_by_root)


def _config_document(layers: Sequence[Layer], config: ImageConfig) -> dict[str, Any]:
    process: dict[str, Any] = {
        "Entrypoint": list(config.entrypoint),
        "User": config.user,
        "Env": [f"{name}={value}" for name, value in config.env.items()],
        "Labels": dict(config.labels),
    }
    return {
        "architecture": "amd64",
        "os": "linux",
        "config": {key: value for key, value in process.items() if value},
        "rootfs": {"type": "layers", "diff_ids": [layer.digest for layer in layers]},
        "history": [{"created_by": "e2e.cluster.images"} for _ in layers],
    }


def _index(reference: str, manifest_blob: bytes) -> dict[str, Any]:
    names = {REFERENCE_KEY: reference, CONTAINERD_REFERENCE_KEY: reference}
    return {
        "schemaVersion": 2,
        "mediaType": INDEX_TYPE,
        "manifests": [_descriptor(MANIFEST_TYPE, manifest_blob) | {"annotations": names}],
    }


def _descriptor(media_type: str, blob: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": _digest(blob), "size": len(blob)}


def _digest(blob: bytes) -> str:
    return "sha256:" + hashlib.sha256(blob).hexdigest()


def _encode(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()


def _blob_name(digest: str) -> str:
    return "blobs/" + digest.replace(":", "/")


def _add_bytes(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))


@dataclass(frozen=True)
class Image:
    """What an archive holds: the image's name, the digests of its manifest and its configuration, and the
    diff ids of its layers, lowest first. (containerd names images by the first digest, buildah by the
    second.)
    """

    reference: str
    digest: str
    config_digest: str
    diff_ids: tuple[str, ...]
    labels: Mapping[str, str]


def read_archive(archive: Path) -> Image:
    """Reads the one image of an OCI archive. Raises ValueError if it is no such archive or holds several."""
    with _opened(archive) as tar:
        manifests = _load(tar, "index.json", archive)["manifests"]
        if len(manifests) != 1:
            raise ValueError(f"{archive} holds {len(manifests)} images; save exactly one into an archive")
        manifest = _load(tar, _blob_name(manifests[0]["digest"]), archive)
        config = _load(tar, _blob_name(manifest["config"]["digest"]), archive)
    names = manifests[0].get("annotations", {})
    reference = names.get(CONTAINERD_REFERENCE_KEY) or names.get(REFERENCE_KEY, "")
    diff_ids = tuple(config["rootfs"]["diff_ids"])
    labels: dict[str, str] = config["config"].get("Labels") or {}
    return Image(reference, manifests[0]["digest"], manifest["config"]["digest"], diff_ids, labels)


@contextmanager
def _opened(archive: Path) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(archive) as tar:
            yield tar
    except tarfile.TarError as error:
        raise ValueError(f"{archive} is not a whole tar file: {error}") from error


def extract_layers(archive: Path, folder: Path) -> list[Layer]:
    """Writes the layers of an archive from this module into `folder`, lowest first."""
    with _opened(archive) as tar:
        (entry,) = _load(tar, "index.json", archive)["manifests"]
        layers = _load(tar, _blob_name(entry["digest"]), archive)["layers"]
        for layer in layers:
            name = _blob_name(layer["digest"])
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            # Not tar.extract: its filter came with Python 3.11.4, Debian 12 has 3.11.2.
            with _member(tar, name, archive) as source, (folder / name).open("wb") as target:
                shutil.copyfileobj(source, target)
    return [Layer(folder / _blob_name(la["digest"]), la["digest"], la["size"]) for la in layers]


def _load(tar: tarfile.TarFile, name: str, archive: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.load(_member(tar, name, archive))
    return loaded


def _member(tar: tarfile.TarFile, name: str, archive: Path) -> IO[bytes]:
    try:
        member = tar.extractfile(name)
    except KeyError:
        raise ValueError(f"{archive} has no {name}: not an OCI archive, write it with `push oci-archive:`") from None
    if member is None:
        raise ValueError(f"{archive}: {name} is not a file")
    return member
