"""`gptservice-runtime inspect`: for people, what a model is before there is a pod, as the spec of a GPTModel.

It asks the model's source for what it lists, and nothing else: no file is downloaded, and nothing is written.
"""

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from gptservice_runtime import catalogue_entry, contract, fetch, models, selection, termination
from gptservice_runtime.catalogue_entry import Found
from gptservice_runtime.transfer import retrying
from gptservice_runtime.transfer.source import Listing, RemoteFile, Source
from gptservice_runtime.weights import at_rest

COMMAND = "inspect"
_HUB = "hf://"
_TRIES = 3
_LONGEST_SECONDS = 120.0
"""For all tries: somebody is waiting."""


def main(argv: Sequence[str]) -> int:
    """Run the command; the exit code: 0, 1 with the reason on stderr, or 2 for wrong arguments."""
    options = _parser().parse_args(argv)
    try:
        found = _inspect(options)
    except models.ModelError as error:
        text = termination.mask(str(error), termination.secret_values(os.environ))
        sys.stderr.write(f"{contract.COMMAND} {COMMAND}: {error.reason}: {text}\n")
        return contract.EXIT_FAILURE
    except OSError as error:
        sys.stderr.write(f"{contract.COMMAND} {COMMAND}: {error.filename}: {error.strerror}\n")
        return contract.EXIT_FAILURE
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    sys.stdout.write(catalogue_entry.spec(found))
    return contract.EXIT_OK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"{contract.COMMAND} {COMMAND}", description=__doc__, allow_abbrev=False)
    parser.add_argument("command", choices=[COMMAND], help=argparse.SUPPRESS)
    unset = fetch.DownloadOptions()
    uris = "as spec.model has it: hf://, org/name, s3://, gs://, oci://, https://, pvc:// or file:///"
    parser.add_argument(contract.URI_FLAG, required=True, help=uris)
    root = "folder that stands for the claim of a pvc:// model (default: %(default)s)"
    parser.add_argument(contract.SOURCE_ROOT_FLAG, type=Path, default=Path(contract.SOURCE_ROOT), help=root)
    token = "folder with one file, which holds the hub's token (default: %(default)s)"  # noqa: S105 - a help text
    parser.add_argument("--token-directory", type=_folder, default=unset.token_directory, help=token)
    others = "folder with a file for each key of modelCredentialsSecretRef (default: %(default)s)"
    parser.add_argument("--credentials-directory", type=_folder, default=unset.credentials_directory, help=others)
    trusted = "file of authorities, PEM, that are trusted beside the system's"
    parser.add_argument(contract.CA_BUNDLE_FLAG, type=_file, help=trusted)
    parser.add_argument("--stall", type=float, default=unset.stall, help="seconds without an answer (default: 30)")
    parser.add_argument("--pause", type=float, default=unset.pause, help=argparse.SUPPRESS)
    return parser


def _folder(text: str) -> Path:
    """One that is there: without it nothing would be shown to the source, as if it was meant to be public."""
    if not (path := Path(text)).is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {text}")
    return path


def _file(text: str) -> Path:
    """One that is there."""
    if not (path := Path(text)).is_file():
        raise argparse.ArgumentTypeError(f"there is no file {text}")
    return path


def _inspect(options: argparse.Namespace) -> Found:
    asked = fetch.FetchOptions(
        uri=options.uri if "://" in options.uri else f"{_HUB}{options.uri}",
        source_root=options.source_root,
        download=fetch.DownloadOptions(
            token_directory=options.token_directory,
            credentials_directory=options.credentials_directory,
            ca_bundle=options.ca_bundle,
            stall=options.stall,
            pause=options.pause,
        ),
    )
    bare, question, _ = asked.uri.partition("?")
    if question and not bare.startswith("https://"):
        said = f"{bare}: only an https:// address has something behind a '?', which may be a signature: leave it out"
        raise models.ModelError(contract.REASON_INVALID_SPEC, said)
    if (source := fetch.source_of(asked)) is None:
        return _mounted(asked)
    patience = retrying.Patience(tries=_TRIES, pause=options.pause, stall=options.stall)
    listing = asyncio.run(_listing(source, patience))
    pinned = source.pin(listing.revision)
    return Found(
        uri=pinned or source.uri,
        is_pinned=pinned is not None,
        revision=listing.revision,
        files=listing.files,
        hidden_query="?" in asked.uri and "?" not in source.uri,
    )


async def _listing(source: Source, patience: retrying.Patience) -> Listing:
    from gptservice_runtime.transfer import http

    async with http.connected(source, patience.stall) as connection:
        try:
            async with asyncio.timeout(_LONGEST_SECONDS):
                return await retrying.retrying(lambda: source.listing(connection), patience, lambda: None)
        except TimeoutError as error:
            said = f"{source.uri}: {source.who} has not answered within {_LONGEST_SECONDS:.0f} s: try again later"
            raise models.ModelError(contract.REASON_MODEL_DOWNLOAD_STALLED, said) from error


def _mounted(asked: fetch.FetchOptions) -> Found:
    """Of a folder that is here, the names and sizes; the weights are not read."""
    location = models.locate(asked.uri, asked.source_root)
    if at_rest.is_encrypted(location.path):
        models.refuse_escapes(location.path, location.root)
    else:
        models.inspect(location.path, location.root)
    files = [_on_disk(path, name) for name, path in sorted(_needed(location.path).items())]
    return Found(uri=asked.uri, is_pinned=False, revision=None, files=files)


def _needed(model: Path) -> dict[str, Path]:
    if model.is_file():
        return {model.name: model}
    names = [path.relative_to(model).as_posix() for path in model.rglob("*") if path.is_file()]
    return {name: model / name for name in selection.needed(names)}


def _on_disk(path: Path, name: str) -> RemoteFile:
    return RemoteFile(path=name, size=path.stat().st_size, digest=None, name=name, address=name)
