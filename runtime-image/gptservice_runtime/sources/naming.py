"""What sources that are no hub have in common: names in the cache, revisions of what has none, single files."""

import hashlib
import re
from collections.abc import Iterable

from gptservice_runtime import contract, models, selection
from gptservice_runtime.transfer import archives
from gptservice_runtime.transfer.source import Listing, RemoteFile

_LONGEST = 80
MOST_OBJECTS = 10_000
"""Below one prefix; a model has hundreds at most."""


def place_of(uri: str, written: re.Pattern[str], scheme: str) -> tuple[str, str]:
    """Bucket and path of a URI of an object store; models.ModelError for what is none."""
    match = written.fullmatch(uri)
    if match is None:
        raise models.ModelError(contract.REASON_INVALID_SPEC, f"cannot fetch {uri!r}: write {scheme}://bucket/path")
    return match["bucket"], (match["path"] or "").strip("/")


def shelf(scheme: str, place: str) -> str:
    """Name of a folder for one place: readable, and one place's alone."""
    readable = re.sub("[^A-Za-z0-9.-]+", "--", place).strip("-.")[:_LONGEST]
    return f"{scheme}--{readable}--{hashlib.sha256(place.encode()).hexdigest()[:12]}"


def is_whole_model(path: str) -> bool:
    """Whether a path names the one file that the model is, or comes in."""
    return archives.is_archive(path) or models.is_single_file(path)


def listing(files: Iterable[RemoteFile], what: str) -> Listing:
    """The listing of files whose versions, together, are the revision; models.ModelError for what cannot be served."""
    taken = sorted(files, key=lambda file: file.path.encode())
    if (odd := next((file.path for file in taken if not selection.is_usable(file.path)), None)) is not None:
        raise models.ModelError(
            contract.REASON_INVALID_SPEC, f"{what}: no file can be called {odd[:100]!r} here: store it by another name"
        )
    if not any(file.is_archive or models.is_single_file(file.path) for file in taken):
        lacking = models.missing([file.path for file in taken])
        if lacking is not None:
            raise models.ModelError(
                contract.REASON_MODEL_NOT_FOUND, f"{what} is no model that can be served: {lacking}"
            )
    lines = "".join(f"{file.path}  {file.size}  {file.version}\n" for file in taken)
    return Listing(revision=hashlib.sha256(lines.encode()).hexdigest(), files=tuple(taken))


def needed(names: Iterable[str], prefix: str) -> dict[str, str]:
    """By path in the model's folder: the names that serving needs, of those below a prefix."""
    below = {name.removeprefix(prefix): name for name in names if name.startswith(prefix)}
    return {path: below[path] for path in selection.needed(path for path in below if selection.is_usable(path))}
