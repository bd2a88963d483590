"""Which files of a model are needed to serve it; the digest is that of these files. Pure."""

import re
from collections.abc import Iterable
from pathlib import PurePosixPath

_WEIGHT_SUFFIXES = (".safetensors", ".bin", ".pt", ".pth")
"""The first of these that a folder has is taken; the others hold the same weights once more."""
_OTHER_SUFFIXES = frozenset({".json", ".jinja", ".model", ".py", ".tiktoken", ".txt", ".yaml"})
"""Configuration, tokenizer, chat templates and the code that some models bring along."""
_NO_WEIGHTS = frozenset({"training_args.bin", "optimizer.bin", "scheduler.bin", "optimizer.pt", "scheduler.pt"})
_OTHER_FORMATS = frozenset({"coreml", "flax", "gguf", "metal", "onnx", "openvino", "original", "tensorrt"})
"""Folders with the same model for other engines."""
_MODULE = re.compile(r"\d+_")
"""Folders of sentence-transformers' modules; vLLM leaves one without weights out, and says so in its log alone."""
INDEX = ".index.json"
"""End of the names of files that tell which weights are in which shard."""
_CONSOLIDATED = "consolidated"
"""Mistral's second copy of the weights in one piece, beside those that ``config.json`` speaks of."""

_DEEPEST = 16
_LONGEST_NAME = 200
"""Bytes of one part of a path: file systems take 255, and a partial file has a longer name."""


def needed(names: Iterable[str]) -> list[str]:
    """The names to take, sorted; paths are relative to the model's folder, with ``/``."""
    visible = [path for name in names if not _is_hidden(path := PurePosixPath(name))]
    folders = {path.parent for path in visible if len(path.parts) == 1 or _MODULE.match(path.parts[0])}
    weights = [path for folder in folders for path in _weights([path for path in visible if path.parent == folder])]
    others = [path for path in visible if _is_other(path) and _is_of_these(path, weights)]
    return sorted(str(path) for path in [*weights, *others])


def is_usable(name: str) -> bool:
    """Whether a name that a source tells leads to one place inside the folder, and is one line of the digest."""
    path = PurePosixPath(name)
    inside = not path.is_absolute() and ".." not in path.parts and str(path) == name
    return (
        inside
        and name != "."
        and name.isprintable()
        and len(path.parts) <= _DEEPEST
        and all(map(_is_short, path.parts))
    )


def _is_short(part: str) -> bool:
    return len(part.encode()) <= _LONGEST_NAME


def _is_hidden(path: PurePosixPath) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _is_other(path: PurePosixPath) -> bool:
    return path.suffix in _OTHER_SUFFIXES and path.parts[0] not in _OTHER_FORMATS


def _is_of_these(path: PurePosixPath, weights: list[PurePosixPath]) -> bool:
    """Whether it is no index, or the one of weights that are taken: of the others it names files that are not there."""
    if not path.name.endswith(INDEX):
        return True
    whole = PurePosixPath(path.name.removesuffix(INDEX))
    beside = [weight for weight in weights if weight.parent == path.parent]
    return any(weight.suffix == whole.suffix and weight.name.startswith(whole.stem) for weight in beside)


def _weights(paths: list[PurePosixPath]) -> list[PurePosixPath]:
    for suffix in _WEIGHT_SUFFIXES:
        found = [path for path in paths if path.suffix == suffix and path.name not in _NO_WEIGHTS]
        if found:
            return [path for path in found if not path.name.startswith(_CONSOLIDATED)] or found
    return []
