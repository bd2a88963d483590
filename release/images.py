"""The operator's image as an archive, built by buildah on the base image of the embedded cluster.

The runtime images are built from public base images, by the commands of docs/operations.md: the GPU one derives from
vLLM's, and the embedded cluster's own CPU one gets its engine from the node.
"""

from pathlib import Path

from e2e.cluster.images import buildah, catalogue

IMAGE = "gptservice-operator"


def operator(version: str, *, registry: str, epoch: int, target: Path, cached: bool = True) -> Path:
    """Builds the image into `target`, without `cached` from nothing but its base. Raises store.BuildError."""
    made = target / f"{IMAGE}-{version}.oci.tar"
    settings = buildah.Settings({"VERSION": version}, epoch, cached)
    catalogue.build_recipe(catalogue.RECIPES["operator"], made, f"{registry}/{IMAGE}:{version}", settings)
    return made
