"""The operator's image as an archive, built by buildah on the base image of the embedded cluster.

The runtime images are built from public base images, by the commands of docs/operations.md: the GPU one derives from
vLLM's, and the embedded cluster's own CPU one gets its engine from the node.
"""

import tempfile
from pathlib import Path

from e2e.cluster import paths
from e2e.cluster.images import buildah, catalogue

IMAGE = "gptservice-operator"


def operator(version: str, *, registry: str, epoch: int, target: Path, cached: bool = True) -> Path:
    """Builds the image into `target`, without `cached` from nothing but its base. Raises store.BuildError."""
    recipe = catalogue.RECIPES["operator"]
    made = target / f"{IMAGE}-{version}.oci.tar"
    with tempfile.TemporaryDirectory(prefix="gptservice-release-") as scratch:
        context = Path(scratch) / "context"
        catalogue.stage_context(paths.REPOSITORY, (recipe.containerfile, *recipe.inputs), context)
        bases = {argument: catalogue.archive(name) for argument, name in recipe.bases.items()}
        job = buildah.Build(context / recipe.containerfile, context, bases, {"VERSION": version}, epoch, cached)
        buildah.build(job, made, f"{registry}/{IMAGE}:{version}")
    return made
