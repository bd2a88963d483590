"""Where everything that outlives one command is kept. No other module knows these places.

The cache is `$GPTSERVICE_CACHE`, else `$XDG_CACHE_HOME/gptservice`, else `~/.cache/gptservice`. Each folder is a
function, not a constant, so that a test can point the variable elsewhere.
"""

import os
import re
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent.parent
TOOLS = Path(__file__).resolve().parent / "tools"
ASSETS = Path(__file__).resolve().parent / "assets"

# Where a pod of a node cluster finds the cache's model folder, for hostPath volumes.
NODE_MODELS = Path("/models-cache")

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")


def cache() -> Path:
    """The cache's root; it may not exist yet."""
    if own := os.environ.get("GPTSERVICE_CACHE"):
        return Path(own).absolute()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base).absolute() / "gptservice"


def binaries() -> Path:
    """Go binaries, one folder for each version of a Go module."""
    return cache() / "bin"


def images() -> Path:
    """OCI archives, keyed by a hash of what they were made from."""
    return cache() / "images"


def image_builds() -> Path:
    """Storage of the program that builds images from Containerfiles."""
    return cache() / "image-builds"


def rootfs() -> Path:
    """Root file systems that images start from."""
    return cache() / "rootfs"


def environments() -> Path:
    """Python environments made for images."""
    return cache() / "venv"


def models() -> Path:
    """Prepared test models, one folder each; visible in a node cluster as `NODE_MODELS`."""
    return cache() / "model"


def containerd_seeds() -> Path:
    """containerd roots with all images in them, to be cloned, never run."""
    return cache() / "containerd"


def clusters() -> Path:
    """State of the clusters, one folder each."""
    return cache() / "clusters"


def is_name(name: str) -> bool:
    """Whether a cluster can be called that."""
    return _NAME.fullmatch(name) is not None


def cluster(name: str) -> Path:
    """The state folder of one cluster.

    Raises ValueError for a name that could not be part of a path, a cgroup and an interface's description.
    """
    if not is_name(name):
        raise ValueError(
            f"cluster name {name!r}: use 1 to 40 lower-case letters, digits and inner hyphens, as in `--name demo`"
        )
    return clusters() / name
