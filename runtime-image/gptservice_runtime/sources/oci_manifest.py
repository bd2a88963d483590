"""What an OCI manifest says: which of its layers are files of a model, and which are archives of them. Pure."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from gptservice_runtime import contract, models, selection

MEDIA_TYPES = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.artifact.manifest.v1+json",
)
_NAMES = ("org.opencontainers.image.title", "org.cncf.model.filepath")
"""Annotations with a file's name: ORAS's, and that of CNCF's model format."""
_UNPACK = "io.deis.oras.content.unpack"
"""ORAS's annotation of a folder that it has packed."""
_DIGEST = re.compile("sha256:[0-9a-f]{64}")
_ARCHITECTURE = "amd64"
_MOST_LAYERS = 10_000
_LARGEST = 1 << 60
"""Bytes; nothing can be counted with more."""


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One blob of the model."""

    path: str
    """In the model's folder; of an archive, a name of its own."""
    digest: str
    size: int
    is_archive: bool


def read(body: bytes, uri: str) -> Mapping[str, Any]:
    """The manifest or index; models.ModelError for anything else."""
    try:
        found = json.loads(body)
    except ValueError:
        found = None
    if (manifest := _as_dict(found)) is None:
        raise _refused(uri, "what the registry has there is no manifest")
    return manifest


def of_index(manifest: Mapping[str, Any], uri: str) -> str | None:
    """The digest of the manifest to take from an index; None if it is no index."""
    entries = manifest.get("manifests")
    if not isinstance(entries, list):
        return None
    listed = cast("list[object]", entries)
    described = [entry for each in listed if (entry := _as_dict(each)) is not None]
    # Attestations are of the platform "unknown".
    suits = [entry for entry in described if _architecture(entry) in (None, _ARCHITECTURE)]
    if not suits or not _DIGEST.fullmatch(str(suits[0].get("digest"))):
        raise _refused(uri, f"its index names no manifest for {_ARCHITECTURE}")
    return str(suits[0]["digest"])


def layers(manifest: Mapping[str, Any], uri: str) -> list[Layer]:
    """The layers that may hold the model; models.ModelError for names that lead elsewhere and unknown forms."""
    listed = manifest.get("layers", manifest.get("blobs"))
    described = cast("list[object]", listed) if isinstance(listed, list) else []
    if not described or len(described) > _MOST_LAYERS:
        raise _refused(uri, f"its manifest lists {len(described)} layers")
    found = [layer for number, entry in enumerate(described) if (layer := _layer(entry, number, uri)) is not None]
    if not found:
        raise _refused(uri, "no layer is a file with a name (org.opencontainers.image.title) or a tar")
    # Two downloads into one file would spoil each other; as in images, what comes later counts.
    return list({layer.path: layer for layer in found}.values())


def _layer(described: object, number: int, uri: str) -> Layer | None:
    entry = _as_dict(described) or {}
    if not _DIGEST.fullmatch(str(entry.get("digest"))):
        raise _refused(uri, f"layer {number} has no sha256 digest")
    size, kind = entry.get("size"), str(entry.get("mediaType", ""))
    if not isinstance(size, int) or not 0 <= size <= _LARGEST:
        raise _refused(uri, f"layer {number} has no size")
    annotations = _as_dict(entry.get("annotations")) or {}
    name = next((str(annotations[key]) for key in _NAMES if annotations.get(key)), None)
    packed = _is_tar(kind) or str(annotations.get(_UNPACK)).lower() == "true"
    if packed and "zstd" in kind:
        raise _refused(uri, f"layer {number} is compressed with zstd: push it plain or with gzip")
    if packed and (name is None or not name.endswith(tuple(_FILES)) or annotations.get(_UNPACK)):
        path = f"layer-{number:05}.tar{'' if _is_plain(kind, name) else '.gz'}"
        return Layer(path=path, digest=entry["digest"], size=size, is_archive=True)
    if name is None:
        name = "model.gguf" if "gguf" in kind else None
    if name is None:
        return None
    if not selection.is_usable(name):
        raise models.ModelError(
            contract.REASON_MODEL_ACCESS_DENIED, f"{uri}: layer {number} is called {name!r}, which leads elsewhere"
        )
    return Layer(path=name, digest=entry["digest"], size=size, is_archive=False)


_FILES = (".safetensors", ".json", ".gguf", ".bin", ".txt", ".model", ".jinja")
"""ORAS's default media type of a single file is that of a tar, too: what is called so is none."""


def _is_tar(kind: str) -> bool:
    return re.search(r"[.+/]tar\b|rootfs\.diff\.tar", kind) is not None


def _is_plain(kind: str, name: str | None) -> bool:
    """Whether a layer says that it is a tar and not compressed; what it is, its first bytes tell.

    Its name counts, too: ORAS's default media type is that of a plain tar, whatever is pushed.
    """
    return _is_tar(kind) and kind.endswith("tar") and not (name or "").endswith((".gz", ".tgz"))


def _architecture(entry: Mapping[str, Any]) -> str | None:
    platform = _as_dict(entry.get("platform"))
    return str(platform.get("architecture")) if platform is not None else None


def _as_dict(found: object) -> dict[str, Any] | None:
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


def _refused(uri: str, what: str) -> models.ModelError:
    return models.ModelError(contract.REASON_MODEL_NOT_FOUND, f"{uri} is no model that can be served: {what}")
