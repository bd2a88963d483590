"""Authorities of a platform's own, which sign its mirrors, stores and proxies: all of this process trusts them.

Each library reads a file of authorities, and takes another one in its place. So each gets what it would have trusted
anyway, and the platform's behind it. The files are in memory: nothing is left behind.
"""

import logging
import os
import re
import ssl
from pathlib import Path

import certifi

from gptservice_runtime import contract, models
from gptservice_runtime.sources.credentials import PLATFORM_CA

_OF_THE_SYSTEM = "SSL_CERT_FILE"
"""Where Python's own ssl looks, and so aiohttp; and what is under the library of hubs."""
_OF_LIBRARIES = ("REQUESTS_CA_BUNDLE", "AWS_CA_BUNDLE")
"""Where google-auth's requests and botocore look, which otherwise take certifi's."""
_HASHED_NAME = re.compile(r"[0-9a-f]{8}\.[0-9]+")

_log = logging.getLogger(__name__)


def trust(bundle: Path) -> None:
    """Trust what the file holds; models.ModelError if that is no certificate. One that is not there holds nothing.

    To be called before the first connection: some libraries read their file once.
    """
    if not bundle.is_file():
        _log.warning("there is no %s, from %s: the system's authorities alone are trusted", bundle, PLATFORM_CA)
        return
    own = _checked(bundle)
    of_certifi = Path(certifi.where()).read_bytes()
    libraries = {name: _of_the_image(name) or of_certifi for name in _OF_LIBRARIES}
    for name, trusted in {_OF_THE_SYSTEM: _of_the_system() or of_certifi, **libraries}.items():
        os.environ[name] = _in_memory(name, trusted + b"\n" + own)


def _checked(bundle: Path) -> bytes:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=bundle)
    except ssl.SSLError:
        raise models.ModelError(
            contract.REASON_MODEL_ACCESS_DENIED, f"{PLATFORM_CA}: {bundle} holds no certificate in PEM"
        ) from None
    return bundle.read_bytes()


def _of_the_system() -> bytes:
    """What OpenSSL trusts by itself: a file, or a folder of files that are named by the hash of whom they are of."""
    paths = ssl.get_default_verify_paths()
    if paths.cafile:
        return Path(paths.cafile).read_bytes()
    files = sorted(Path(paths.capath).iterdir()) if paths.capath else []
    return b"\n".join(file.read_bytes() for file in files if _HASHED_NAME.fullmatch(file.name))


def _of_the_image(variable: str) -> bytes:
    """What whoever built the image has put in the place of certifi's."""
    path = Path(os.environ.get(variable, ""))
    return path.read_bytes() if path.is_file() else b""


def _in_memory(name: str, content: bytes) -> str:
    """The path of a file that is gone with the process."""
    descriptor = os.memfd_create(name)
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(content)
    return f"/proc/self/fd/{descriptor}"
