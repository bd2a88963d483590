"""API keys: where they come from, and the ASGI middleware inside vLLM's API server that demands one of them.

Imports nothing but the standard library, so that it fits any version of the engine's libraries.
"""

import hashlib
import hmac
import logging
import os
import re
import stat
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from gptservice_runtime import asgi, contract, control, engine, kubelet

_log = logging.getLogger(__name__)

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_VISIBLE = re.compile(rb"[\x21-\x7e]+")
"""What every client can send after `Bearer`."""
_LONGEST_HEADER = 8192
"""Bytes of an Authorization header that is looked at."""


class UnusableKeysError(Exception):
    """There is no key that a client could send; the text says why and never what is in the files."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a directory holds."""

    keys: tuple[bytes, ...]
    """Sorted, each once."""
    ignored: int
    """Lines that no client could send as a key."""


def read(directory: Path) -> Found:
    """Every key in the directory's files, one a line.

    Raises:
        OSError: the directory or a file in it cannot be read.
    """
    return kubelet.read_whole(directory, _read)


def _read(folder: Path) -> Found:
    names = sorted(name for name in os.listdir(folder) if not name.startswith(kubelet.PREFIX))
    lines = [line for name in names for line in _lines(folder / name)]
    keys = {line for line in lines if _VISIBLE.fullmatch(line)}
    return Found(keys=tuple(sorted(keys)), ignored=sum(line not in keys for line in lines))


def _lines(file: Path) -> list[bytes]:
    """Lines without the white space around them, but for empty ones."""
    try:
        # Not a folder, and not a pipe, which would never end.
        content = file.read_bytes() if stat.S_ISREG(file.stat().st_mode) else b""
    except FileNotFoundError:
        return []  # a link to nothing
    stripped = (line.strip() for line in content.removeprefix(_BYTE_ORDER_MARK).splitlines())
    return [line for line in stripped if line]


def first_key(directory: Path) -> str:
    """A key for a request of our own; UnusableKeysError when there is none."""
    try:
        found = read(directory)
    except OSError as error:
        raise UnusableKeysError(_unreadable(directory, error)) from error
    if not found.keys:
        raise UnusableKeysError(_without_keys(directory, found))
    return found.keys[0].decode("ascii")


def _unreadable(directory: Path, error: OSError) -> str:
    return f"the API keys in {directory} cannot be read ({error.strerror}): check the Secret and its volume's mode"


def _without_keys(directory: Path, found: Found) -> str:
    told = f"; {_ignored(found)}" if found.ignored else ""
    return f"there is no API key in {directory}: put one into the Secret, one key per line{told}"


def _ignored(found: Found) -> str:
    return f"{found.ignored} line(s) with other than visible ASCII characters are no keys"


class KeyDirectory:
    """The keys of the mounted directory, read again at most once in KEYS_POLL_SECONDS; only their digests are kept."""

    def __init__(self, directory: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._directory = directory
        self._clock = clock
        self._next_read = float("-inf")
        self._content: bytes | None = None
        self._problem = ""
        self._digests: tuple[bytes, ...] = ()

    def accepts(self, key: bytes) -> bool:
        """Whether it is one of the keys. The time that takes does not tell how much of which key was right."""
        now = self._clock()
        if now >= self._next_read:
            self._next_read = now + contract.KEYS_POLL_SECONDS
            self._read()
        given = _digest(key)
        matches = [hmac.compare_digest(given, known) for known in self._digests]
        return any(matches)

    def _read(self) -> None:
        try:
            found = read(self._directory)
        except OSError as error:
            kept = len(self._digests)
            self._report(f"{_unreadable(self._directory, error)}; the {kept} key(s) known before stay")
            return
        content = _digest(b"\n".join(found.keys))
        if content != self._content:
            self._content = content
            self._digests = tuple(map(_digest, found.keys))
            _log.info("%d API key(s) in %s", len(found.keys), self._directory)
        if not found.keys:
            self._report(f"{_without_keys(self._directory, found)}; every request is refused")
        else:
            self._report(f"{self._directory}: {_ignored(found)}" if found.ignored else "")

    def _report(self, problem: str) -> None:
        """Log a problem when it comes or changes, not every time that it is seen."""
        if problem and problem != self._problem:
            _log.warning("%s", problem)
        self._problem = problem


def _digest(text: bytes) -> bytes:
    return hashlib.sha256(text).digest()


class KeyCheck:
    """Answers 401 to whatever does not show a key: every path, method and protocol, preflights too.

    Outside of all but the access log: what is refused is never in flight, its body is not read, and no route has seen
    it. No path is exempt (the probes have a port of their own), so that no spelling of a path can get around it.
    """

    def __init__(self, app: asgi.Application) -> None:
        self._app = app
        self._keys = KeyDirectory(Path(os.environ.get(engine.KEYS_DIRECTORY_ENV, contract.KEYS_DIRECTORY)))
        self._control = control.ControlBlock.of_supervisor()

    async def __call__(self, scope: asgi.Message, receive: asgi.Receive, send: asgi.Send) -> None:
        """One request."""
        if scope["type"] == "lifespan" or self._is_allowed(scope):
            await self._app(scope, receive, send)
            return
        self._control.count_refused("key")
        await asgi.refuse_any(scope, send, _UNAUTHORIZED)

    def _is_allowed(self, scope: asgi.Message) -> bool:
        key = presented(scope.get("headers", ()))
        return key is not None and self._keys.accepts(key)


def presented(headers: Iterable[asgi.Header]) -> bytes | None:
    """The key that a request shows; None without exactly one `Authorization: Bearer KEY`."""
    values = [value for name, value in headers if name.lower() == b"authorization"]
    if len(values) != 1 or len(values[0]) > _LONGEST_HEADER:
        return None
    scheme, _, key = values[0].strip().partition(b" ")
    return key.strip() if scheme.lower() == b"bearer" else None


_UNAUTHORIZED = asgi.Refusal(
    status=401,
    message="No valid API key was sent: use the header `Authorization: Bearer KEY` with a key of this service.",
    kind="invalid_request_error",
    code="invalid_api_key",
    # The body has not been read, so that the connection cannot be used again.
    headers=((b"www-authenticate", b"Bearer"), asgi.CLOSE),
)
