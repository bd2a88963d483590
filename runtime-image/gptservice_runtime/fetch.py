"""The init container: makes sure that the model is there, and reports what it is."""

import asyncio
import logging
import os
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

from gptservice_runtime import contract, digest, models
from gptservice_runtime.weights import at_rest

_log = logging.getLogger(__name__)
_HUB = "hf://"


@dataclass(frozen=True, kw_only=True)
class HubOptions:
    """What only a download needs; seconds and bytes."""

    cache_root: Path = Path(contract.CACHE_ROOT)
    cache_limit: int | None = None
    token_directory: Path = Path(contract.HUB_TOKEN_DIRECTORY)
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
    decryption: at_rest.Decryption | None = None
    """None: the weights are not encrypted."""
    hub: HubOptions = field(default_factory=HubOptions)


def fetch(options: FetchOptions) -> contract.FetchResult:
    """Have the model where the engine finds it; models.ModelError when it cannot be had or cannot be served."""
    # PID 1 ignores a signal that it does not handle; and nothing needs tidying up, whenever it ends.
    signal.signal(signal.SIGTERM, lambda number, _: os._exit(128 + number))
    started = time.monotonic()
    result = _fetch_from_hub(options) if options.uri.startswith(_HUB) else _fetch_mounted(options)
    _log.info("%s: %d bytes, revision %s, %s", result["uri"], result["bytes"], result["revision"], result["digest"])
    return {**result, "seconds": round(time.monotonic() - started, 3)}


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
        _link(options.hub.link, model)
    return {"uri": options.uri, "revision": None, "digest": found, "bytes": size, "seconds": 0}


def _fetch_from_hub(options: FetchOptions) -> contract.FetchResult:
    try:
        from gptservice_runtime.hub import download, repository, retrying, token
    except ImportError as error:
        raise models.ModelError(
            contract.REASON_INVALID_IMAGE, f"the image cannot fetch from a hub ({error}): it needs huggingface_hub"
        ) from error
    # The pods that share a cache share its group, not their user.
    os.umask(0o002)
    wanted = repository.parse(options.uri)
    patience = retrying.Patience(pause=options.hub.pause, stall=options.hub.stall)
    downloader = download.Downloader(
        wanted,
        download.Place(cache_root=options.hub.cache_root, limit=options.hub.cache_limit),
        repository.HuggingFaceHub(token.read(options.hub.token_directory), patience.stall),
        patience,
        thorough=options.digest is not None,
    )

    async def run() -> download.Downloaded:
        async with download.told(downloader.progress, options.hub.metrics_port):
            return await downloader.run()

    done = asyncio.run(run())
    found = digest.of_model(done.files)
    digest.demand(options.uri, found, options.digest)
    model = at_rest.readable(done.folder, options.decryption)
    models.inspect(model, model)
    _link(options.hub.link, model)
    size = sum(file.size for file in done.files)
    return {"uri": options.uri, "revision": done.commit, "digest": found, "bytes": size, "seconds": 0}


def _link(path: Path, target: Path) -> None:
    """Make a link, or point the one there is to something else."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target)
    fresh.replace(path)
