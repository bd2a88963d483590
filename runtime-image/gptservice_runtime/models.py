"""What a model on a file system must look like before an engine is started on it."""

import errno
import json
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from gptservice_runtime import contract, selection

_CONFIGURATION = "config.json"
_WEIGHTS = frozenset({".safetensors", ".bin", ".pt", ".pth"})
_SINGLE_FILE = ".gguf"


class ModelError(Exception):
    """The model cannot be served; the text says what is wrong with which path and what to do."""

    def __init__(self, reason: contract.TerminationReason, message: str) -> None:
        super().__init__(message)
        self.reason: contract.TerminationReason = reason


@dataclass(frozen=True, kw_only=True)
class Location:
    """Where a URI's model is, and the folder that it must not lead out of."""

    path: Path
    root: Path


def is_single_file(name: str) -> bool:
    """Whether a model can be this one file."""
    return name.endswith(_SINGLE_FILE)


def is_weights(name: str) -> bool:
    """Whether a file of a model holds weights, by its name."""
    return PurePosixPath(name).suffix in {*_WEIGHTS, _SINGLE_FILE}


def locate(uri: str, source_root: Path) -> Location:
    """Where a ``pvc://`` or ``file://`` model is mounted; ModelError for any other URI and for ``..``."""
    scheme, separator, rest = uri.partition("://")
    if not separator or scheme not in {"pvc", "file"}:
        raise ModelError(
            contract.REASON_INVALID_SPEC,
            f"cannot fetch {uri!r}: it serves hf://, s3://, gs://, oci://, https://, pvc:// and file:/// only",
        )
    if ".." in PurePosixPath(rest).parts or "\0" in rest:
        raise ModelError(contract.REASON_INVALID_SPEC, f"cannot fetch {uri!r}: '..' is not allowed in a path")
    if scheme == "file":
        if not rest.startswith("/"):
            raise ModelError(
                contract.REASON_INVALID_SPEC,
                f"cannot fetch {uri!r}: write file:///absolute/path, with three slashes",
            )
        return Location(path=Path(rest), root=Path("/"))
    claim, _, inside = rest.partition("/")
    if not claim:
        raise ModelError(contract.REASON_INVALID_SPEC, f"cannot fetch {uri!r}: write pvc://claim/path")
    return Location(path=source_root / inside.strip("/"), root=source_root)


def root_of(path: Path) -> Path:
    """The folder that a model given as a path must not lead out of."""
    source_root = Path(contract.SOURCE_ROOT)
    return source_root if path.is_relative_to(source_root) else Path("/")


def inspect(path: Path, root: Path) -> int:
    """Size in bytes of a model that an engine can be started on; ModelError when it is none."""
    with explained(path):
        return _inspect(path, root)


def refuse_escapes(path: Path, root: Path) -> None:
    """Refuse a model that leads out of its folder or claim, whatever its files are: ModelError."""
    with explained(path):
        _refuse_escape(path, root)
        if path.is_dir():
            for _ in _files(path, root):
                pass


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """ModelError for what the file system answers; `path` is of the model, where the system names no file."""
    try:
        yield
    except PermissionError as error:
        raise ModelError(
            contract.REASON_MODEL_ACCESS_DENIED,
            f"UID {os.getuid()} may not read {error.filename or path}: let everyone or the pod's fsGroup read it",
        ) from error
    except OSError as error:
        what = f"cannot read {error.filename or path}: {error.strerror}"
        raise ModelError(contract.REASON_MODEL_NOT_FOUND, what) from error


def _inspect(path: Path, root: Path) -> int:
    if not path.exists():
        raise ModelError(contract.REASON_MODEL_NOT_FOUND, f"there is no {path}{_nearest(path, root)}")
    _refuse_escape(path, root)
    if path.is_dir():
        return _inspect_folder(path, root)
    if path.suffix != _SINGLE_FILE:
        raise ModelError(
            contract.REASON_MODEL_NOT_FOUND, f"{path} is a file: name a model folder or a {_SINGLE_FILE} file"
        )
    return _nonempty(path)


def _inspect_folder(folder: Path, root: Path) -> int:
    files = list(_files(folder, root))
    names = {file.name for file in files if file.parent == folder}
    if (lacking := missing(names)) is not None:
        hint = f"; name one of its {_SINGLE_FILE} files" if any(n.endswith(_SINGLE_FILE) for n in names) else ""
        raise ModelError(contract.REASON_MODEL_NOT_FOUND, f"{folder} is no model folder: {lacking}{hint}")
    weights = [file for file in files if file.parent == folder and file.suffix in _WEIGHTS]
    _refuse_missing_shards(folder, names)
    for file in weights:
        _nonempty(file)
    return sum(_readable(file).stat().st_size for file in files)


def missing(names: Collection[str]) -> str | None:
    """What a model folder with these files lacks; None if it has all that an engine cannot do without."""
    if _CONFIGURATION not in names:
        return f"it has no {_CONFIGURATION}"
    if not any(PurePosixPath(name).suffix in _WEIGHTS for name in names if "/" not in name):
        return f"it has no weights: none of its files ends in {', '.join(sorted(_WEIGHTS))}"
    return None


def _files(folder: Path, root: Path) -> Iterator[Path]:
    for entry in sorted(folder.iterdir()):
        _refuse_escape(entry, root)
        if entry.is_dir() and not entry.is_symlink():
            # A closed folder is none of the model's: the root of an ext4 volume has its lost+found.
            if os.access(entry, os.R_OK | os.X_OK):
                yield from _files(entry, root)
        elif entry.is_file():
            yield entry


def _refuse_escape(path: Path, root: Path) -> None:
    """A claim written by somebody else must not make the engine read the container's own files."""
    target = _resolved(path)
    if not target.is_relative_to(root.resolve()):
        raise ModelError(
            contract.REASON_MODEL_ACCESS_DENIED,
            f"{path} leads out of {root}, to {target}: copy the file instead",
        )


def _resolved(path: Path) -> Path:
    """Where it leads; of a link that leads to itself, which is no file for anybody, the link."""
    try:
        return path.resolve()
    except RuntimeError:  # of Python before 3.13
        return path.parent.resolve() / path.name


def _refuse_missing_shards(folder: Path, names: set[str]) -> None:
    for index in (name for name in selection.needed(names) if name.endswith(selection.INDEX)):
        try:
            shards = set(json.loads((folder / index).read_bytes())["weight_map"].values())
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ModelError(
                contract.REASON_MODEL_LOAD_FAILED,
                f"{folder / index} is no weight index ({error}): copy it again",
            ) from error
        if missing := sorted(shards - names):
            raise ModelError(
                contract.REASON_MODEL_NOT_FOUND,
                f"{folder} is incomplete: {index} names {len(shards)} files, and {missing[0]} "
                f"({len(missing)} in all) is missing: copy the model again",
            )


def _readable(file: Path) -> Path:
    if not os.access(file, os.R_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(file))
    return file


def _nonempty(file: Path) -> int:
    if (size := _readable(file).stat().st_size) == 0:
        raise ModelError(contract.REASON_MODEL_LOAD_FAILED, f"{file} is empty: copy the model again")
    return size


def _nearest(path: Path, root: Path) -> str:
    """What there is instead: the names in the deepest folder of the path that exists."""
    for parent in path.parents:
        if not parent.is_relative_to(root):
            break
        if parent.is_dir():
            names = sorted(entry.name for entry in parent.iterdir())[:10]
            return f": {parent} holds {', '.join(names) or 'nothing'}"
    return f": {root} does not exist either"
