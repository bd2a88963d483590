"""CycloneDX lists of the Python packages in each image, as uv.lock pins them, with the hashes that uv demands."""

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from packaging.requirements import Requirement

from e2e.cluster.images import base, store
from release.version import ROOT

PYTHON = "3.11"
"""Of the images; what is locked for another one is not in them."""
IMAGES: Mapping[str, tuple[str, ...]] = {
    # As the Containerfiles install them.
    "gptservice-operator": ("--no-default-groups",),
    "gptservice-runtime": ("--only-group", "sources"),
    "gptservice-runtime-cpu": ("--no-default-groups", "--extra", "vllm", "--group", "sources"),
}
"""uv's choice of packages for each image; of gptservice-runtime, what is added to the vLLM image below it."""


def write(image: str, version: str, *, epoch: int, target: Path) -> Path:
    """Writes the list of one image. Raises store.BuildError, with the words of uv or cyclonedx-py."""
    made = target / f"{image}-{version}.cdx.json"
    about = ("--pyproject", ROOT / "pyproject.toml", "--mc-type", "application")
    command = ("requirements", "--output-reproducible", "--sv", "1.6", *about, "--output-file", made, "-")
    # Its time in the list is that of the release, and no variable of this machine is part of it.
    environment = {"SOURCE_DATE_EPOCH": str(epoch), "PATH": os.defpath}
    store.run(
        "env", "--ignore-environment", *(f"{name}={value}" for name, value in environment.items()),
        sys.executable, "-m", "cyclonedx_py", *command,
        what=f"listing the packages of {image}", stdin=requirements(IMAGES[image]),
    )  # fmt: skip
    return made


def requirements(choice: tuple[str, ...]) -> str:
    """What uv.lock pins for one image, in pip's form, without what is for other Pythons."""
    command = ("export", "--locked", "--no-emit-project", "--no-annotate", "--no-header", "--quiet", *choice)
    exported = store.run(base.uv_program(), *command, what="reading uv.lock", cwd=ROOT)
    return "".join(f"{line}\n" for line in _of_the_images(exported.replace("\\\n", " ")))


def _of_the_images(lines: str) -> Iterator[str]:
    environment = {"python_version": PYTHON, "python_full_version": f"{PYTHON}.0"}
    for line in lines.splitlines():
        pinned, *hashes = line.split(" --hash=")
        wanted = Requirement(pinned.strip())
        if wanted.marker is None or wanted.marker.evaluate(environment):
            yield " --hash=".join([f"{wanted.name}{wanted.specifier}", *(each.strip() for each in hashes)])
