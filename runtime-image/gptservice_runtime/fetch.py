"""The init container: makes sure that the model is there, and reports what it is.

resolve -> download -> verify, and then whatever the files need before an engine can read them.
"""

import asyncio
import importlib
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import gptservice_runtime
from gptservice_runtime import contract, digest, memory, models
from gptservice_runtime.weights import at_rest

if TYPE_CHECKING:
    from gptservice_runtime.transfer.source import Source

_log = logging.getLogger(__name__)
_PACKAGES = Path(gptservice_runtime.__file__).parents[2] / "packages"


@dataclass(frozen=True, kw_only=True)
class DownloadOptions:
    """What only a download needs; seconds and bytes."""

    cache_root: Path = Path(contract.CACHE_ROOT)
    cache_limit: int | None = None
    token_directory: Path = Path(contract.HUB_TOKEN_DIRECTORY)
    credentials_directory: Path = Path(contract.MODEL_CREDENTIALS_DIRECTORY)
    ca_bundle: Path | None = None
    """Authorities that are trusted beside the system's."""
    link: Path = Path(contract.FETCHED_MODEL)
    metrics_port: int = contract.PROBE_PORT
    stall: float = 30.0
    pause: float = 1.0


@dataclass(frozen=True, kw_only=True)
class FetchOptions:
    """One fetch."""

    uri: str
    source_root: Path = Path(contract.SOURCE_ROOT)
    digest: str | None = None
    """Demanded of the model's files as they lie in the source: of encrypted ones, where they are encrypted."""
    memory_limit: int | None = None
    """Bytes that the engine may hold, where it holds the weights in memory."""
    decryption: at_rest.Decryption | None = None
    """None: the weights are not encrypted."""
    download: DownloadOptions = field(default_factory=DownloadOptions)


def fetch(options: FetchOptions) -> contract.FetchResult:
    """Have the model where the engine finds it; models.ModelError when it cannot be had or cannot be served."""
    # PID 1 ignores a signal that it does not handle; and nothing needs tidying up, whenever it ends.
    signal.signal(signal.SIGTERM, lambda number, _: os._exit(128 + number))
    started = time.monotonic()
    source = source_of(options)
    result = _fetch_mounted(options) if source is None else _download(options, source)
    _log.info("%s: %d bytes, revision %s, %s", result["uri"], result["bytes"], result["revision"], result["digest"])
    return {**result, "seconds": round(time.monotonic() - started, 3)}


def source_of(options: FetchOptions) -> "Source | None":
    """What a model is downloaded from; None for one that is mounted. models.ModelError for what cannot be asked."""
    if (open_source := _SOURCES.get(options.uri.partition("://")[0])) is None:
        return None
    _look_into_packages()
    try:
        if options.download.ca_bundle is not None:
            from gptservice_runtime.sources import authorities

            authorities.trust(options.download.ca_bundle)
        return open_source(options)
    except ValueError as error:
        # Of its host or its port, which the words of Python's libraries would tell with all of the address.
        uri = options.uri.partition("?")[0]
        raise models.ModelError(contract.REASON_INVALID_SPEC, f"{uri}: there is no such address: mend it") from error
    except ImportError as error:
        uri = options.uri.partition("?")[0]
        raise models.ModelError(
            contract.REASON_INVALID_IMAGE,
            f"the image cannot fetch {uri} ({error}): build it from the operator's own Containerfile",
        ) from error


def _fetch_mounted(options: FetchOptions) -> contract.FetchResult:
    """Nothing is copied, there is no revision, and hundreds of gigabytes are not read unasked."""
    location = models.locate(options.uri, options.source_root)
    # What is encrypted can be looked into only later, when it is not any more.
    if encrypted := at_rest.is_encrypted(location.path):
        models.refuse_escapes(location.path, location.root)
    size = 0 if encrypted else models.inspect(location.path, location.root)
    found = None
    if options.digest is not None:
        found = digest.of_path(location.path)
        digest.demand(options.uri, found, options.digest)
    model = at_rest.readable(location.path, options.decryption)
    if encrypted:
        size = models.inspect(model, model.parent)
        _link(options.download.link, model)
    return {"uri": options.uri, "revision": None, "digest": found, "bytes": size, "seconds": 0}


def check_image() -> None:
    """ImportError in an image that lacks what some source needs; for whoever builds one."""
    _look_into_packages()
    for name in ("authorities", "gcs", "hugging_face", "https", "oci", "s3"):
        importlib.import_module(f"gptservice_runtime.sources.{name}")
    importlib.import_module("gptservice_runtime.weights.in_memory")


def _look_into_packages() -> None:
    """Where the image has what vLLM does not bring; last, so that of what both have vLLM's is taken."""
    packages = str(_PACKAGES)
    if _PACKAGES.is_dir() and packages not in sys.path:
        sys.path.append(packages)


def _download(options: FetchOptions, source: "Source") -> contract.FetchResult:
    from gptservice_runtime.transfer import download, progress, retrying

    # The pods that share a cache share its group, not their user.
    os.umask(0o002)
    # What a web server's address has behind its path may be a signature.
    uri = options.uri.partition("?")[0]
    place = options.download
    downloader = download.Downloader(
        source,
        download.Place(cache_root=place.cache_root, limit=place.cache_limit),
        retrying.Patience(pause=place.pause, stall=place.stall),
        admit=lambda files: memory.demand(uri, files, options.memory_limit),
        demanded=options.digest,
    )

    async def run() -> download.Downloaded:
        async with progress.told(downloader.progress, place.metrics_port):
            return await downloader.run()

    done = asyncio.run(run())
    found = digest.of_model(done.files)
    digest.demand(uri, found, options.digest)
    model = at_rest.readable(done.model, options.decryption)
    models.inspect(model, done.folder if model == done.model else model)
    _link(place.link, model)
    size = sum(file.size for file in done.files)
    return {"uri": uri, "revision": done.revision, "digest": found, "bytes": size, "seconds": 0}


def _link(path: Path, target: Path) -> None:
    """Make a link, or point the one there is to something else."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target)
    fresh.replace(path)


# Each is imported when it is asked for: their libraries take tens of megabytes, and an image may lack some.


def _hugging_face(options: FetchOptions) -> "Source":
    from gptservice_runtime.sources import credentials, hugging_face

    token = credentials.hub_token(options.download.token_directory)
    return hugging_face.HuggingFaceHub(hugging_face.parse(options.uri), token, options.download.stall)


def _s3(options: FetchOptions) -> "Source":
    from gptservice_runtime.sources import s3

    return s3.S3(options.uri, options.download.credentials_directory)


def _gcs(options: FetchOptions) -> "Source":
    from gptservice_runtime.sources import gcs

    return gcs.GoogleCloudStorage(options.uri, options.download.credentials_directory)


def _oci(options: FetchOptions) -> "Source":
    from gptservice_runtime.sources import oci

    return oci.Registry(options.uri, options.download.credentials_directory)


def _https(options: FetchOptions) -> "Source":
    from gptservice_runtime.sources import https

    return https.WebServer(options.uri, options.download.credentials_directory)


_SOURCES: "dict[str, Callable[[FetchOptions], Source]]" = {
    "hf": _hugging_face,
    "s3": _s3,
    "gs": _gcs,
    "oci": _oci,
    "https": _https,
}
