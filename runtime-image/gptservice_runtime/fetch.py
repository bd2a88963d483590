"""The init container: makes sure that the model is there, and reports what it is."""

import logging
import time
from pathlib import Path

from gptservice_runtime import contract, models

_log = logging.getLogger(__name__)


def fetch(uri: str, source_root: Path) -> contract.FetchResult:
    """Check a model that is already mounted; models.ModelError when it cannot be served.

    Nothing is copied: ``pvc://`` and ``file://`` models are served from where they are. They have no
    revision, and hundreds of gigabytes are not hashed unasked.
    """
    started = time.monotonic()
    location = models.locate(uri, source_root)
    size = models.inspect(location.path, location.root)
    seconds = round(time.monotonic() - started, 3)
    _log.info("%s is at %s: %d bytes", uri, location.path, size)
    return {"uri": uri, "revision": None, "digest": None, "bytes": size, "seconds": seconds}
