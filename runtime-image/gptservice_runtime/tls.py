"""The serving certificate and the client CA: whether they can be used, and reading them again when they change.

Imports nothing but the standard library, so that it fits any version of the engine's libraries.
"""

import hashlib
import logging
import re
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gptservice_runtime import contract, kubelet

_log = logging.getLogger(__name__)

LEAST_VERSION = ssl.TLSVersion.TLSv1_2
_HANDSHAKE_TURNS = 4
_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)


class UnusableCertificateError(Exception):
    """No client could or should connect; the text says why, and never what is in the key."""


@dataclass(frozen=True, kw_only=True)
class Directories:
    """Mount points of the Secrets."""

    certificate: Path
    client_ca: Path | None
    """None where no client certificate is demanded."""


@dataclass(frozen=True, kw_only=True)
class _Files:
    certificate: Path
    key: Path
    client_ca: Path | None

    @property
    def content(self) -> bytes:
        """A hash of all of it; OSError."""
        read = (file.read_bytes() for file in (self.certificate, self.key, self.client_ca) if file is not None)
        return hashlib.sha256(b"\0".join(hashlib.sha256(each).digest() for each in read)).digest()


def usable(directories: Directories) -> ssl.SSLContext:
    """What a server needs to serve with what is in the directories; UnusableCertificateError."""
    files = _files(directories)
    try:
        return _context(files)
    except FileNotFoundError as error:
        missing = Path(error.filename or files.certificate)
        raise UnusableCertificateError(f"there is no {missing.name} in {missing.parent}: {_remedy(missing)}") from error
    except (OSError, ValueError) as error:
        raise UnusableCertificateError(_unusable(directories, error)) from error


def _files(directories: Directories) -> _Files:
    certificate = kubelet.current(directories.certificate)
    return _Files(
        certificate=certificate / contract.TLS_CERTIFICATE_FILE,
        key=certificate / contract.TLS_KEY_FILE,
        client_ca=_client_ca(kubelet.current(directories.client_ca)) if directories.client_ca is not None else None,
    )


def _client_ca(directory: Path) -> Path:
    named = directory / contract.CLIENT_CA_FILE
    others = list(directory.glob("[!.]*"))
    return others[0] if len(others) == 1 and not named.exists() else named


def _context(files: _Files) -> ssl.SSLContext:
    """ssl.SSLError, which is an OSError, where the files are no use."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = LEAST_VERSION
    for file in (files.certificate, files.key):
        file.read_bytes()  # OpenSSL does not say which one it misses.
    # An empty password: a key that needs another one must not ask for it at a terminal.
    context.load_cert_chain(files.certificate, files.key, password="")
    _shake_hands(context, _certificates(files.certificate))
    if files.client_ca is not None:
        context.load_verify_locations(cadata=_certificates(files.client_ca))
        if not context.get_ca_certs():
            raise ssl.SSLError(f"no certificate in {files.client_ca.name} is one of a CA")
        context.verify_mode = ssl.CERT_REQUIRED
    forbid_tickets(context)
    return context


def _certificates(file: Path) -> str:
    """The certificates in a PEM file, without the comments between them, which may be in any encoding."""
    found = _CERTIFICATE.findall(file.read_bytes())
    if not found:
        raise ssl.SSLError(f"there is no certificate in {file.name}")
    return b"\n".join(found).decode("ascii")


def forbid_tickets(context: ssl.SSLContext) -> None:
    """A session that is resumed is not verified again: a client would outlive its CA, and of tickets none knows."""
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0


def _shake_hands(server: ssl.SSLContext, certificate: str) -> None:
    """Connect as a client that trusts this one certificate: that finds out about its dates and its purpose."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    client.load_verify_locations(cadata=certificate)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (client.wrap_bio(to_client, to_server), server.wrap_bio(to_server, to_client, server_side=True))
    done: set[ssl.SSLObject] = set()
    for _ in range(_HANDSHAKE_TURNS):
        for end in ends:
            try:
                end.do_handshake()
                done.add(end)
            except ssl.SSLWantReadError:
                continue
    if len(done) < len(ends):
        raise ssl.SSLError("no handshake comes about with it")


def _unusable(directories: Directories, error: Exception) -> str:
    told = (getattr(error, name, "") for name in ("verify_message", "reason", "strerror"))
    detail = next(filter(None, told), str(error))
    places = ", ".join(str(each) for each in (directories.certificate, directories.client_ca) if each is not None)
    return f"the certificates in {places} cannot be used ({detail}): put valid ones, in PEM, into the Secret"


def _remedy(missing: Path) -> str:
    if missing.name not in {contract.TLS_CERTIFICATE_FILE, contract.TLS_KEY_FILE}:
        return "put the client CA, in PEM, into the Secret that tls.clientCASecretRef names"
    return "put a certificate and its key into the Secret, of type kubernetes.io/tls"


class Certificates:
    """What is mounted, read again at most once in TLS_POLL_SECONDS; what cannot be used changes nothing."""

    def __init__(self, directories: Directories, clock: Callable[[], float] = time.monotonic) -> None:
        """UnusableCertificateError."""
        self._directories = directories
        self._clock = clock
        self._content = _files(directories).content
        self._context = usable(directories)
        self._next_read = clock() + contract.TLS_POLL_SECONDS
        self._problem = ""
        self.changed_at = 0.0
        """Unix time of the last change; 0 if there was none."""

    def current(self) -> ssl.SSLContext:
        """What counts for a connection that is made now."""
        now = self._clock()
        if now >= self._next_read:
            self._next_read = now + contract.TLS_POLL_SECONDS
            self._read()
        return self._context

    def _read(self) -> None:
        try:
            content = _files(self._directories).content
            if content == self._content:
                self._problem = ""
                return
            self._context = usable(self._directories)
        except (OSError, UnusableCertificateError) as error:
            if str(error) != self._problem:
                _log.warning("%s; the certificate known before stays", error)
            self._problem = str(error)
            return
        self._content, self._problem, self.changed_at = content, "", time.time()
        _log.warning("the certificates in %s have changed and are used from now on", self._directories.certificate)
