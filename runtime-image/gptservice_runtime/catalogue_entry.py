"""What a listing says of a model, as the spec of a GPTModel. Pure."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gptservice_runtime import digest, models, units
from gptservice_runtime.digest import FileDigest
from gptservice_runtime.transfer import archives
from gptservice_runtime.transfer.source import RemoteFile


@dataclass(frozen=True, kw_only=True)
class Found:
    """What there is at a URI now."""

    uri: str
    """Without secrets; with the revision where a URI can name it."""
    is_pinned: bool
    """Whether the URI can mean no other files later."""
    revision: str | None
    """None where the source has none."""
    files: Sequence[RemoteFile]
    """Those that serving needs."""
    hidden_query: bool = False
    """Whether what was asked for had something behind a question mark, which the URI leaves out."""


def spec(found: Found) -> str:
    """The YAML: facts that no field holds are comments."""
    return "".join(f"{line}\n" for line in _lines(found))


def weights_size(files: Sequence[RemoteFile]) -> int | None:
    """Bytes of the weights, counted as `memory.demand` does, at the most; None where an archive is compressed."""
    packed = [file for file in files if file.is_archive]
    if not all(archives.is_plain(file.path) for file in packed):
        return None
    return sum(file.size for file in files if file.is_archive or models.is_weights(file.path))


def _lines(found: Found) -> Iterator[str]:
    yield f"# {_count(found.files)}, {f'revision {found.revision}' if found.revision else 'without a revision'}"
    yield "spec:"
    if found.hidden_query:
        yield "  # What was behind its '?' is left out: it may be a signature, and everybody can read a catalogue."
    if not found.is_pinned:
        yield "  # It cannot name its revision: demand a digest, or give what is changed a path of its own."
    yield f"  uri: {json.dumps(found.uri)}"
    if (known := _digest(found.files)) is not None:
        yield f"  digest: {known}"
    yield from _size(found.files)


def _count(files: Sequence[RemoteFile]) -> str:
    packed = sum(file.is_archive for file in files)
    kind = "archive" if packed == len(files) else "file"
    total = sum(file.size for file in files)
    return f"{len(files)} {kind}{'s' if len(files) != 1 else ''}, {units.size(total)} ({total} bytes)"


def _size(files: Sequence[RemoteFile]) -> Iterator[str]:
    size = weights_size(files)
    if size is None:
        yield "  # weightsSize is not known: the archive is compressed, and what is in it is seen when it is unpacked."
        return
    if any(file.is_archive for file in files):
        yield "  # Of the archive alone, which is all that is known before it is unpacked: the weights are no larger."
    # A string: Helm, through whose values a catalogue may go, makes a float of a number.
    yield f'  weightsSize: "{size}"'


def _digest(files: Sequence[RemoteFile]) -> str | None:
    """The model's, where the source has told the sha256 of every file of it."""
    told = [
        FileDigest(path=file.path, size=file.size, sha256=file.digest.value)
        for file in files
        if file.digest is not None and file.digest.algorithm == "sha256" and not file.is_archive
    ]
    return digest.of_model(told) if len(told) == len(files) else None
