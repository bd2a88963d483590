"""What a source is: it resolves a URI to a revision, lists its files, and says how one file is asked for."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from gptservice_runtime.transfer.digests import Digest

if TYPE_CHECKING:
    from gptservice_runtime.transfer.http import Http


@dataclass(frozen=True, kw_only=True)
class RemoteFile:
    """A file as its source announces it."""

    path: str
    """In the model's folder, with ``/``; of an archive, a name of its own."""
    size: int
    """Bytes."""
    digest: Digest | None
    """None where the source tells none that can be computed from the bytes."""
    name: str
    """By which people know it; no secret."""
    address: str
    """By which the source knows it."""
    version: str = ""
    """Of the file at its source, where it has one."""
    marks: Mapping[str, str] | None = None
    """Headers of an answer (``ETag``, ``Last-Modified``) that tell this content from another, as they were listed.

    None where the request names the content itself, so that no other can come.
    """
    is_archive: bool = False
    """A tar, perhaps compressed, with files of the model."""


@dataclass(frozen=True, kw_only=True)
class Listing:
    """What a URI is now, and those of its files that serving needs."""

    revision: str
    """Never means other files: a commit, a manifest's digest, or the hash of all names and versions."""
    files: tuple[RemoteFile, ...]


@dataclass(frozen=True, kw_only=True)
class Request:
    """How a file is asked for, from its beginning; a ``Range`` is added where it is gone on with."""

    url: str
    """As it goes over the wire, already quoted; may hold a signature, and is never logged."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """An answer that is no success."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""
    """Its beginning."""


class Source(Protocol):
    """One model at one place."""

    @property
    def uri(self) -> str:
        """As people write it, with the revision that was asked for."""
        ...

    @property
    def who(self) -> str:
        """Who answers, in a sentence: "the hub", "the registry"."""
        ...

    @property
    def shelf(self) -> str:
        """Name of its folder in the cache: every revision of it is there, and nothing else."""
        ...

    @property
    def reference(self) -> str:
        """What was asked for, which may mean another revision later: a branch, a tag."""
        ...

    @property
    def pinned(self) -> str | None:
        """The revision, if the URI itself names it."""
        ...

    @property
    def tls(self) -> ssl.SSLContext | None:
        """With what its certificate is checked; None for the authorities that the system trusts."""
        ...

    @property
    def ca_remedy(self) -> str:
        """What to do about a certificate of an authority that nobody knows."""
        ...

    def pin(self, revision: str, /) -> str | None:
        """The URI that means this revision and never another; None where no URI of this kind can name one."""
        ...

    async def listing(self, connection: "Http", /) -> Listing:
        """Ask what there is; models.ModelError or retrying.PassingError."""
        ...

    async def request(self, connection: "Http", file: RemoteFile, /) -> Request:
        """How to ask for a file now: signatures and tokens run out. models.ModelError or retrying.PassingError."""
        ...

    def fault(self, refusal: Refusal, what: str) -> Exception:
        """The exception for an answer that is no success: models.ModelError or retrying.PassingError."""
        ...
