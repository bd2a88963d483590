"""A containerd root with all images in it, made once for each set of images; every new cluster begins with it.

The vLLM environment in it consists of hard links to the files in the cache: seconds and no disk, where a real layer
costs minutes and twice its size (docs/decisions/2026-11-30-vllm-environment-in-pods.md). HAZARD: who edits such a
file in place edits all of them.
"""

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

from e2e.cluster import contents, files, paths, versions
from e2e.cluster.images import catalogue, daemon, keys, load, store

RECIPE = "1"  # raise it when this module makes something else of the same images
CONTENTS = "gptservice-images.json"
KEPT = 2
# containerd only ever adds to these and removes from them; everything else it changes in place.
SHARED = (
    Path("io.containerd.content.v1.content/blobs"),
    Path("io.containerd.snapshotter.v1.overlayfs/snapshots"),
)


def seed() -> Path:
    """The containerd root for the present images, filled if it is not there. Nothing may run on it or change it.

    Raises store.BuildError, also when it must be filled and this is not root.
    """
    wanted = {name: catalogue.key(name) for name in ("vllm-cpu", *catalogue.DEPLOYED)}
    target = paths.containerd_seeds() / key(wanted)
    if target.exists():
        return store.used(target)
    made = store.built(target, lambda unfinished: _fill(unfinished, wanted), what="containerd with all images")
    prune()
    return made


def key(wanted: Mapping[str, str]) -> str:
    """Changes with any image and with the version of containerd."""
    images = [f"{name}={image_key}" for name, image_key in sorted(wanted.items())]
    return keys.of(RECIPE, versions.go_module("containerd").key, *images)


def clone(source: Path, target: Path) -> None:
    """Makes a containerd root of its own out of a seed: images as hard links, databases as real copies.

    (With a hard-linked database a second containerd waits for the first one's lock for ever.)
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    store.run("cp", "--archive", "--link", "--no-target-directory", source, target, what=f"cloning {source}")
    for file in changing_files(target):
        copy = file.with_name(f"{file.name}.copy")
        shutil.copy2(file, copy)
        copy.replace(file)


def changing_files(root: Path) -> Iterator[Path]:
    """The files of a containerd root that containerd writes to after making them."""
    for folder, names, file_names in os.walk(root):
        here = Path(folder)
        names[:] = [name for name in names if (here / name).relative_to(root) not in SHARED]
        yield from (here / name for name in file_names)


def prune() -> list[Path]:
    """Removes what newer builds replaced: seeds that no cluster uses, archives, environments. Returns what went."""
    old = [entry for entry in _seeds_by_age()[KEPT:] if not contents.in_use(entry)]
    for entry in old:
        store.remove(entry)
    return old + catalogue.prune()


def _fill(root: Path, wanted: Mapping[str, str]) -> None:
    if os.geteuid() != 0:
        raise store.BuildError("containerd with all images can only be made by root: run it with sudo")
    archives = {name: catalogue.archive(name) for name in catalogue.DEPLOYED}
    had = _start_from_earlier_seed(root, wanted)
    with daemon.running(root) as containerd:
        for name, archive in archives.items():
            if had.get(name) != wanted[name]:
                load.load_image(containerd, archive)
    files.write(root / CONTENTS, json.dumps(wanted, indent=1) + "\n")


def _start_from_earlier_seed(root: Path, wanted: Mapping[str, str]) -> Mapping[str, str]:
    """Clones the latest seed with the same environment and returns its contents; without one `root` is empty."""
    for earlier in _seeds_by_age():
        had = read_contents(earlier)
        if had.get("vllm-cpu") == wanted["vllm-cpu"]:
            clone(earlier, root)
            return had
    root.mkdir(mode=0o711)
    return {}


def _seeds_by_age() -> list[Path]:
    folder = paths.containerd_seeds()
    seeds = [entry for entry in folder.iterdir() if not entry.name.startswith(".")] if folder.exists() else []
    return sorted(seeds, key=lambda entry: entry.stat().st_mtime, reverse=True)


def read_contents(root: Path) -> Mapping[str, str]:
    """Which image, by key, a seed holds; empty for a folder that is no seed."""
    try:
        return cast(dict[str, str], json.loads((root / CONTENTS).read_text()))
    except FileNotFoundError:
        return {}
