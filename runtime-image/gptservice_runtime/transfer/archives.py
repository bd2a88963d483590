"""Models in tar archives: what of them is taken, and how it gets out without leading elsewhere.

Files are written by their bytes alone: no owner, no mode, no link and no device of an archive ever reaches the disk.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from gptservice_runtime import contract, models, selection
from gptservice_runtime.digest import FileDigest
from gptservice_runtime.transfer import layers, tar, writing

_PLAIN = ".tar"
_SUFFIXES = (_PLAIN, ".tar.gz", ".tgz")
_MOST_ENTRIES = 50_000
"""Of all archives of a model; an operating system in a model image has tens of thousands."""
_CONFIGURATION = "config.json"
_MOST_NAMED = 5


@dataclass(frozen=True, kw_only=True)
class Content:
    """What is to be taken out of archives."""

    origin: str
    """The model's URI."""
    places: dict[str, tuple[Path, str]]
    """By path in the model's folder: the archive, and the name in it."""
    sizes: dict[str, int]
    """By path in the model's folder: bytes."""


def is_archive(name: str) -> bool:
    """Whether a file is taken for an archive, by its name."""
    return name.endswith(_SUFFIXES)


def is_plain(name: str) -> bool:
    """Whether an archive says by its name that nothing in it is compressed, so that it is larger than its content."""
    return name.endswith(_PLAIN)


def look_into(archives: list[Path], origin: str) -> Content:
    """What of these archives is the model, later ones over earlier ones; models.ModelError where there is none."""
    found: dict[str, layers.Entry] = {}
    entries = 0
    for archive in archives:
        layer: dict[str, layers.Entry] = {}
        with _opened(archive, origin) as opened:
            for member in opened.entries():
                entries += 1
                if entries > _MOST_ENTRIES:
                    raise _refused(origin, f"it has more than {_MOST_ENTRIES} entries")
                layer[_inside(member.name, origin)] = layers.Entry.of(archive, member)
        found = layers.over(found, layer)
    return _chosen({name: entry for name, entry in found.items() if entry.kind != layers.FOLDER}, origin)


def unpack(content: Content, folder: Path, scratch: Path) -> list[FileDigest]:
    """Write the files into a folder, each moved there from `scratch` when it is whole."""
    written: dict[str, FileDigest] = {}
    by_archive: dict[Path, dict[str, str]] = {}
    for path, (archive, name) in content.places.items():
        by_archive.setdefault(archive, {})[name] = path
    with writing.Writer(scratch) as writer:
        for archive, wanted in by_archive.items():
            with _opened(archive, content.origin) as opened:
                for member in opened.entries():
                    name = _inside(member.name, content.origin)
                    if name in wanted and (source := opened.content(member)) is not None:
                        path = wanted[name]
                        sha256 = writer.write(source, folder / path)
                        written[path] = FileDigest(path=path, size=member.size, sha256=sha256)
    return list(written.values())


def _inside(name: str, origin: str) -> str:
    """The name without a leading ``./``; models.ModelError for one that leads out of the folder."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\0" in name:
        raise models.ModelError(
            contract.REASON_MODEL_ACCESS_DENIED, f"{origin}: the archive holds {name!r}, which leads out of its folder"
        )
    return str(path)


def _chosen(found: dict[str, layers.Entry], origin: str) -> Content:
    root, names = _model_of(list(found), origin)
    prefix = "" if root == "." else f"{root}/"
    places, sizes = dict[str, tuple[Path, str]](), dict[str, int]()
    for name in names:
        entry = found[prefix + name]
        if entry.kind != layers.FILE:
            raise models.ModelError(
                contract.REASON_MODEL_ACCESS_DENIED,
                f"{origin}: {prefix + name!r} is {entry.kind}: pack the file itself",
            )
        places[name], sizes[name] = (entry.archive, prefix + name), entry.size
    return Content(origin=origin, places=places, sizes=sizes)


def _model_of(names: list[str], origin: str) -> tuple[str, list[str]]:
    """The folder that is the model, and the names in it that serving needs."""
    roots = {str(PurePosixPath(name).parent) for name in names if PurePosixPath(name).name == _CONFIGURATION}
    models_found: dict[str, list[str]] = {}
    for root in sorted(roots):
        prefix = "" if root == "." else f"{root}/"
        below = [name.removeprefix(prefix) for name in names if name.startswith(prefix)]
        needed = selection.needed(name for name in below if selection.is_usable(name))
        if models.missing(needed) is None:
            models_found[root] = needed
    if not models_found and len(single := [name for name in names if models.is_single_file(name)]) == 1:
        path = PurePosixPath(single[0])
        return str(path.parent), [path.name]
    if len(models_found) != 1:
        named = ", ".join(root if root.isprintable() else repr(root) for root in [*models_found][:_MOST_NAMED])
        what = f"{len(models_found)} ({named})" if models_found else "none"
        raise models.ModelError(
            contract.REASON_MODEL_NOT_FOUND,
            f"{origin}: one folder with {_CONFIGURATION} and weights is needed, and the archive has {what}",
        )
    return next(iter(models_found.items()))


@contextmanager
def _opened(archive: Path, origin: str) -> Iterator[tar.Tar]:
    try:
        with tar.opened(archive) as opened:
            yield opened
    except tar.MalformedError as error:
        raise _refused(origin, f"{archive.name}: {error}") from error


def _refused(origin: str, what: str) -> models.ModelError:
    return models.ModelError(contract.REASON_MODEL_LOAD_FAILED, f"{origin}: {what}: pack the model again")
