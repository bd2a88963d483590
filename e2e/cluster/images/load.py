"""Brings images into a containerd, the vLLM environment by reference instead of by copy.

An image made on top of the marker image has a label that names the environment it needs. Before such an image is
imported, the environment is linked to where unpacking the marker layer would put its result: containerd takes the
layer as unpacked. A containerd on another disk than the cache cannot be served like this.
"""

from pathlib import Path

from e2e.cluster import paths
from e2e.cluster.images import catalogue, daemon, oci, store, vllm


def load_image(containerd: daemon.Containerd, archive: Path) -> None:
    """Imports an archive; where it is none of ours, containerd says what is wrong. Raises store.BuildError."""
    try:
        image = oci.read_archive(archive)
    except ValueError:
        image = None
    if image and (environment := image.labels.get(vllm.LABEL)):
        _ensure_environment(containerd, image, environment)
    containerd.import_image(archive)


def _ensure_environment(containerd: daemon.Containerd, image: oci.Image, name: str) -> None:
    base, marked = (oci.chain_id(image.diff_ids[:layers]) for layers in (1, 2))
    known = containerd.snapshots()
    if marked in known:
        return
    if base not in known:
        containerd.import_image(catalogue.archive("base"))
    source = paths.environments() / name
    if not source.exists() and source != vllm.environment():
        raise store.BuildError(f"{image.reference} needs {source}, which was replaced since: build the image anew")
    with containerd.new_snapshot(marked, parent=base) as folder:
        link_environment(source, folder)


def link_environment(source: Path, root: Path) -> None:
    """Makes the environment appear below `root` as it will in the image."""
    place = root / vllm.PLACE
    place.mkdir(parents=True)
    command = ("cp", "--archive", "--link", f"{source}/.", place)
    store.run(*command, what="linking the vLLM environment into containerd")
    (place / vllm.MARKER).write_text(f"{source.name}\n")
