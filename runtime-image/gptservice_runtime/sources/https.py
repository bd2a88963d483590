"""``https://host/path``: one file or one archive of any web server."""

import base64
import re
import ssl
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from gptservice_runtime import contract, models
from gptservice_runtime.sources import naming
from gptservice_runtime.sources.credentials import Credentials
from gptservice_runtime.transfer import answers, archives, digests, http
from gptservice_runtime.transfer.digests import Digest
from gptservice_runtime.transfer.source import Listing, Refusal, RemoteFile, Request

SCHEME = "https"
_NO_HEAD = frozenset({403, 405, 501})
"""Refusals that may be the method's: an address that was signed is signed for GET alone."""
_MARKS = ("ETag", "Last-Modified")
"""What tells one content from another; the first that there is is the version."""
_SHA256 = re.compile(r"sha-256=:([A-Za-z0-9+/=]+):")


class WebServer:
    """What is at one address."""

    who = "the server"
    ca_remedy = Credentials.CA_REMEDY
    reference = "latest"
    pinned: str | None = None

    def __init__(self, uri: str, directory: Path) -> None:
        """`directory`: where the Secret is mounted; models.ModelError for what cannot be used."""
        parts = urlsplit(uri)
        # What is behind a question mark may be a signature.
        self.uri = parts._replace(query="", fragment="").geturl()
        self._file = unquote(parts.path).rpartition("/")[2]
        if parts.scheme != SCHEME or not parts.hostname or parts.username is not None:
            raise self._refused("write https://host/path")
        if not naming.is_whole_model(self._file):
            raise self._refused("name one .tar, .tar.gz, .tgz or .gguf file: a web server lists no folders")
        self._url = parts._replace(fragment="").geturl()
        given = Credentials(directory, ("token", "username", "password"), SCHEME)
        self._token = given.word("token")
        self._login = given.together("username", "password")
        if self._token is not None and self._login is not None:
            raise given.unusable("the Secret has token, username and password: leave token or the others")
        self._tls = given.tls()

    @property
    def tls(self) -> ssl.SSLContext | None:
        """With what the server's certificate is checked."""
        return self._tls

    @property
    def shelf(self) -> str:
        """By address."""
        return naming.shelf(SCHEME, self.uri.removeprefix("https://"))

    def pin(self, _revision: str) -> str | None:
        """Its URIs have no place for a revision."""
        return None

    async def listing(self, connection: http.Http) -> Listing:
        """The one file, as the head of an answer describes it."""
        head = await self._head(connection)
        size = head.get("Content-Length", "")
        if not size.isdigit():
            raise models.ModelError(
                contract.REASON_MODEL_DOWNLOAD_FAILED,
                f"{self.uri}: the server does not say how large it is (no Content-Length): serve it as a file",
            )
        marks = {name: mark for name in _MARKS if (mark := head.get(name, ""))}
        file = RemoteFile(
            path=self._file,
            size=int(size),
            digest=_digest(head.get("Repr-Digest", "")),
            name=self.uri,
            address=self._url,
            version=next(iter(marks.values()), ""),
            marks=marks,
            is_archive=archives.is_archive(self._file),
        )
        return naming.listing([file], self.uri)

    async def _head(self, connection: http.Http) -> Mapping[str, str]:
        request = Request(url=self._url, headers=self._headers)
        answer = await connection.read(request, self.uri, "HEAD")
        if answer.status == 200:
            return answer.headers
        if answer.status not in _NO_HEAD:
            raise self.fault(Refusal(status=answer.status, headers=answer.headers), self.uri)
        async with connection.get(request, self.uri) as response:
            if response.status != 200:
                raise self.fault(await http.refusal(response, self.uri, connection.stall), self.uri)
            return response.headers

    async def request(self, _connection: http.Http, file: RemoteFile) -> Request:
        """A file that was replaced comes from its beginning; no server may be asked by a weak tag."""
        strong = next((mark for mark in (file.marks or {}).values() if not mark.startswith("W/")), None)
        return Request(url=self._url, headers={**self._headers, **({"If-Range": strong} if strong else {})})

    def fault(self, refusal: Refusal, what: str) -> Exception:
        """What an answer means."""
        said = f"{what}: {self.who} answered {refusal.status}"
        has_any = self._token is not None or self._login is not None
        denied = (
            "what modelCredentialsSecretRef holds is not accepted"
            if has_any
            else "nothing was sent that opens it: name a Secret with token, or username and password, in "
            "modelCredentialsSecretRef"
        )
        return answers.fault(refusal, said, denied=denied, missing="check the path")

    def _refused(self, what: str) -> models.ModelError:
        return models.ModelError(contract.REASON_INVALID_SPEC, f"cannot fetch {self.uri!r}: {what}")

    @property
    def _headers(self) -> dict[str, str]:
        if self._token is not None:
            return {"Authorization": f"Bearer {self._token}"}
        if self._login is not None:
            pair = f"{self._login['username']}:{self._login['password']}".encode()
            return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}
        return {}


def _digest(header: str) -> Digest | None:
    """RFC 9530; few servers send it."""
    found = _SHA256.search(header)
    value = digests.from_base64(found[1]) if found is not None else ""
    return Digest(algorithm="sha256", value=value) if value else None
