"""`python -m release [--registry R] [--output DIR] [--images]`: everything of a release, in one folder."""

import argparse
import logging
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from e2e.cluster import binaries
from e2e.cluster.images import store
from release import charts, checksums, images, manifests, sbom, version

REGISTRY = "registry.example.com/ai"


def main(arguments: Sequence[str] | None = None) -> int:
    """Makes the release and returns the exit status; the files are named on standard output."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    try:
        made = make(options.output, registry=options.registry, epoch=epoch(), with_images=options.images)
    except (store.BuildError, charts.UnexpectedValuesError) as error:
        print(error, file=sys.stderr)
        return 1
    for file in made:
        print(file)
    return 0


def make(target: Path, *, registry: str, epoch: int, with_images: bool) -> list[Path]:
    """Makes all files of the release in an empty `target`; `epoch` is the time they carry, in seconds since 1970."""
    target.mkdir(parents=True, exist_ok=True)
    current, helm = version.current(), binaries.ensure([binaries.HELM])[binaries.HELM]
    packaged = {
        name: charts.package(name, helm=helm, version=current, registry=registry, epoch=epoch, target=target)
        for name in charts.CHARTS
    }
    made = [
        *packaged.values(),
        manifests.crds(current, target),
        manifests.install(packaged["gptservice-operator"], current, helm=helm, target=target),
        *(sbom.write(image, current, epoch=epoch, target=target) for image in sbom.IMAGES),
    ]
    if with_images:
        made.append(images.operator(current, registry=registry, epoch=epoch, target=target))
    return [*made, checksums.write(made, target)]


def epoch() -> int:
    """SOURCE_DATE_EPOCH, or the time of the commit: what is made twice of one commit is the same."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    command = ["git", "log", "-1", "--format=%ct"]
    return int(subprocess.run(command, cwd=version.ROOT, capture_output=True, text=True, check=True).stdout)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m release", description=__doc__)
    parser.add_argument("--registry", default=REGISTRY, help="where its images will be (default: %(default)s)")
    parser.add_argument("--output", type=Path, default=version.ROOT / "dist", metavar="DIR", help="default: dist")
    parser.add_argument("--images", action="store_true", help="also build the operator's image (root, buildah)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
