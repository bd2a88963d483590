"""The images there are, what each is made from, and the one way to get at its archive."""

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import paths
from e2e.cluster.images import base, buildah, keys, store, vllm

DEPLOYED = ("pause", "operator", "standin", "runtime-cpu")
"""The images that containers run. The others are what these are built on and with."""


@dataclass(frozen=True)
class Recipe:
    """A Containerfile: the files that it may copy, and which image each of its build arguments names."""

    containerfile: str
    inputs: tuple[str, ...]
    bases: Mapping[str, str]


_PROJECT = ("pyproject.toml", "uv.lock")
_RUNTIME = ("runtime-image/gptservice-runtime", "runtime-image/gptservice_runtime")
_FROM_BASE = {"BASE": "base", "UV_IMAGE": "uv"}
RECIPES: Mapping[str, Recipe] = {
    "operator": Recipe(
        "operator/Containerfile",
        (*_PROJECT, "README.md", "operator/gptservice_operator", "runtime-image/gptservice_runtime"),
        _FROM_BASE,
    ),
    "runtime-cpu": Recipe(
        "runtime-image/Containerfile.cpu", (*_PROJECT, *_RUNTIME), {"BASE": "vllm-cpu", "UV_IMAGE": "uv"}
    ),
    "standin": Recipe(
        "e2e/standin/Containerfile",
        (*_PROJECT, *_RUNTIME, "e2e/standin/bin", "e2e/standin/standin_engine"),
        _FROM_BASE,
    ),
    # On the stand-in engine where users put vLLM's own image, which no CPU runs.
    "runtime": Recipe(
        "runtime-image/Containerfile", (*_PROJECT, *_RUNTIME), {"VLLM_BASE": "standin", "UV_IMAGE": "uv"}
    ),
}
NAMES = ("base", "uv", "vllm-cpu", *DEPLOYED, "runtime")
KEPT = 3  # archives of an image: branches change back, and someone else's command may be about to read one


def reference(name: str) -> str:
    """The full name of an image, as a pod's manifest has it."""
    return f"localhost/gptservice-{name}:dev"


def key(name: str) -> str:
    """Changes when the image must be built anew. Raises KeyError for an unknown name."""
    if name in RECIPES:
        return _recipe_key(RECIPES[name])
    if name == "vllm-cpu":
        return keys.of(key("base"), vllm.key())
    return {"base": base.base_key, "pause": base.pause_key, "uv": base.uv_key}[name]()


def _recipe_key(recipe: Recipe) -> str:
    inputs = keys.of_files(paths.REPOSITORY, (recipe.containerfile, *recipe.inputs))
    return keys.of(inputs, *(f"{argument}={key(name)}" for argument, name in recipe.bases.items()))


def archive_path(name: str) -> Path:
    """Where the image's archive is or will be."""
    return paths.images() / f"{name}-{key(name)}.oci.tar"


def archive(name: str) -> Path:
    """The image's archive, built if its inputs changed. Raises store.BuildError."""
    path = archive_path(name)
    if path.exists():
        return store.used(path)
    store.built(path, lambda unfinished: _build(name, unfinished), what=f"image {name}")
    store.prune(paths.images(), f"{name}-*.oci.tar", keep=KEPT)
    return path


def _build(name: str, unfinished: Path) -> None:
    if name in RECIPES:
        build_recipe(RECIPES[name], unfinished, reference(name))
    elif name == "vllm-cpu":
        vllm.build_marker_image(unfinished, reference(name), archive("base"))
    else:
        builders = {"base": base.build_base, "pause": base.build_pause, "uv": base.build_uv}
        builders[name](unfinished, reference(name))


def build_recipe(recipe: Recipe, target: Path, full_name: str, settings: buildah.Settings = buildah.PLAIN) -> None:
    """Builds an image into the archive `target`. Raises store.BuildError."""
    bases = {argument: archive(base_name) for argument, base_name in recipe.bases.items()}
    with tempfile.TemporaryDirectory(prefix="gptservice-context-") as context:
        stage_context(paths.REPOSITORY, (recipe.containerfile, *recipe.inputs), Path(context))
        job = buildah.Build(Path(context) / recipe.containerfile, Path(context), bases, settings)
        buildah.build(job, target, full_name)


def stage_context(root: Path, inputs: tuple[str, ...], context: Path) -> None:
    """Copies exactly the inputs that the key covers: what is not declared is not there to be copied by
    accident.
    """
    for file in keys.files(root, inputs):
        target = context / file.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, target, follow_symlinks=False)


def prune() -> list[Path]:
    """Removes archives and environments that newer ones replaced; returns what went."""
    gone = [entry for name in NAMES for entry in store.prune(paths.images(), f"{name}-*.oci.tar", keep=KEPT)]
    return gone + store.prune(paths.environments(), "vllm-*", keep=1)
