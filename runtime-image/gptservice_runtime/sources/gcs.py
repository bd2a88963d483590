"""``gs://bucket/path``: objects of Google Cloud Storage.

google-auth finds credentials (of the Secret, of the pod's own identity); the requests are the runtime's.
"""

import asyncio
import json
import os
import re
import ssl
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote, urlencode

import google.auth
import google.auth.exceptions
import google.auth.transport.requests

from gptservice_runtime import contract, models, termination
from gptservice_runtime.sources import naming
from gptservice_runtime.sources.credentials import Credentials
from gptservice_runtime.transfer import answers, archives, digests, http, retrying
from gptservice_runtime.transfer.digests import Digest
from gptservice_runtime.transfer.source import Listing, Refusal, RemoteFile, Request

SCHEME = "gs"
_WRITTEN = re.compile(r"gs://(?P<bucket>[a-z0-9][-a-z0-9_.]+)(?:/(?P<path>.*))?", re.ASCII)
_KEY = "GOOGLE_APPLICATION_CREDENTIALS"
_ENDPOINT = "STORAGE_EMULATOR_HOST"
_PUBLIC = "https://storage.googleapis.com"
_SCOPES = ("https://www.googleapis.com/auth/devstorage.read_only",)
_THROTTLED = re.compile(rb'"(userR|r)ateLimitExceeded"')
"""Reasons in an answer that is 403."""
_SIZE = re.compile("[0-9]{1,18}")
_FIELDS = "name,size,generation,md5Hash,crc32c,contentEncoding"


class GoogleCloudStorage:
    """Objects below a path of a bucket, or one object."""

    who = "the object store"
    ca_remedy = Credentials.CA_REMEDY
    reference = "latest"
    pinned: str | None = None

    def __init__(self, uri: str, directory: Path) -> None:
        """`directory`: where the Secret is mounted; models.ModelError for what cannot be used."""
        self.uri = uri
        self._bucket, self._path = naming.place_of(uri, _WRITTEN, SCHEME)
        given = Credentials(directory, (_KEY, _ENDPOINT), SCHEME)
        self._endpoint = _url(given.word(_ENDPOINT) or os.environ.get(_ENDPOINT) or _PUBLIC)
        self._tls = given.tls()
        self._is_own = (text := given.text(_KEY)) is not None
        self._credentials: Any = _of_key(text, given) if text is not None else None
        self._asks_nobody = self._endpoint != _PUBLIC and not self._is_own
        self._is_anonymous = self._asks_nobody
        self._looks_again = False

    @property
    def tls(self) -> ssl.SSLContext | None:
        """With what the endpoint's certificate is checked."""
        return self._tls

    @property
    def shelf(self) -> str:
        """By endpoint, bucket and path."""
        endpoint = "" if self._endpoint == _PUBLIC else self._endpoint
        return naming.shelf(SCHEME, "/".join(filter(None, (endpoint, self._bucket, self._path))))

    def pin(self, _revision: str) -> str | None:
        """Its URIs have no place for a revision."""
        return None

    async def listing(self, connection: http.Http) -> Listing:
        """The objects that serving needs, each with its generation and digest."""
        if naming.is_whole_model(self._path):
            item = await self._read(connection, f"{self._objects}/{quote(self._path, safe='')}?fields={_FIELDS}")
            return naming.listing([self._announced(self._path.rpartition("/")[2], item)], self.uri)
        prefix = f"{self._path}/" if self._path else ""
        items = {str(item.get("name", "")): item for item in await self._items(connection, prefix)}
        wanted = naming.needed(items, prefix)
        return naming.listing([self._announced(path, items[name]) for path, name in wanted.items()], self.uri)

    async def request(self, _connection: http.Http, file: RemoteFile) -> Request:
        """Of the generation that was listed: another content cannot come."""
        query = urlencode({"alt": "media", "generation": file.version})
        url = f"{self._endpoint}/download{self._path_of_objects}/{quote(file.address, safe='')}?{query}"
        # Some tools mark a .tar.gz as stored with Content-Encoding gzip: only this brings the bytes as they are stored.
        as_stored = {"Accept-Encoding": "gzip"} if file.is_archive else {}
        return Request(url=url, headers={**await self._headers(), **as_stored})

    def fault(self, refusal: Refusal, what: str) -> Exception:
        """What an answer means, with the message that Google puts into it."""
        quoted = termination.mask(_message(refusal.body), [])
        said = f"{what}: {self.who} answered {refusal.status}{f' ({quoted})' if quoted else ''}"
        if self._shows_another(refusal.status):
            return answers.denied_for_now(said, self._remedy())
        return answers.fault(
            refusal,
            said,
            denied=self._remedy(),
            missing="check bucket and path",
            throttled=_THROTTLED.search(refusal.body) is not None,
        )

    def _shows_another(self, status: int) -> bool:
        """Whether the next try shows something else than what was refused."""
        if status == 401 and self._credentials is not None:
            self._credentials.token = None
            return True
        if status in (401, 403) and self._is_anonymous and not self._asks_nobody:
            # Whoever gives credentials may only have been out of reach: google-auth tells that like having none.
            self._looks_again = True
            return True
        return False

    def _remedy(self) -> str:
        if self._is_anonymous:
            return (
                f"neither modelCredentialsSecretRef nor the pod's service account has given credentials: name a Secret "
                f"with {_KEY}, or bind the service account to one of Google's"
            )
        whose = "of modelCredentialsSecretRef" if self._is_own else "of the pod's service account"
        return f"the credentials {whose} may not list the bucket and read its objects (roles/storage.objectViewer)"

    @property
    def _path_of_objects(self) -> str:
        return f"/storage/v1/b/{self._bucket}/o"

    @property
    def _objects(self) -> str:
        return f"{self._endpoint}{self._path_of_objects}"

    async def _items(self, connection: http.Http, prefix: str) -> list[dict[str, Any]]:
        items, more = list[dict[str, Any]](), dict[str, str]()
        while True:
            query = urlencode({"prefix": prefix, "fields": f"items({_FIELDS}),nextPageToken", **more})
            listed = await self._read(connection, f"{self._objects}?{query}")
            items += self._dicts(listed.get("items") or [])
            if len(items) > naming.MOST_OBJECTS:
                raise models.ModelError(
                    contract.REASON_MODEL_NOT_FOUND,
                    f"{self.uri} has more than {naming.MOST_OBJECTS} objects: name the model's own folder",
                )
            if not listed.get("nextPageToken"):
                return items
            more = {"pageToken": listed["nextPageToken"]}

    def _announced(self, path: str, item: dict[str, Any]) -> RemoteFile:
        key, size, generation = (str(item.get(field, "")) for field in ("name", "size", "generation"))
        if not (key and _SIZE.fullmatch(size) and generation):
            raise self._odd_list(f"it does not tell size and generation of {key or path!r}")
        name, is_archive = f"gs://{self._bucket}/{key}", key == self._path and archives.is_archive(path)
        if item.get("contentEncoding") and not is_archive:
            raise models.ModelError(
                contract.REASON_MODEL_DOWNLOAD_FAILED,
                f"{name}: it is stored with contentEncoding {item['contentEncoding']}, and would come as something "
                "else than its size and digest say: upload it as it is",
            )
        return RemoteFile(
            path=path,
            size=int(size),
            digest=_digest(item),
            name=name,
            address=key,
            version=generation,
            is_archive=is_archive,
        )

    def _dicts(self, items: object) -> list[dict[str, Any]]:
        listed = cast("list[object]", items) if isinstance(items, list) else [items]
        described = [cast("dict[str, Any]", item) for item in listed if isinstance(item, dict)]
        if len(described) != len(listed):
            raise self._odd_list("its items are no objects")
        return described

    def _odd_list(self, what: str) -> models.ModelError:
        return models.ModelError(
            contract.REASON_MODEL_DOWNLOAD_FAILED, f"{self.uri}: {self.who} lists it as no Google Cloud Storage: {what}"
        )

    async def _read(self, connection: http.Http, url: str) -> dict[str, Any]:
        answer = await connection.read(Request(url=url, headers=await self._headers()), self.uri)
        if answer.status != 200:
            raise self.fault(Refusal(status=answer.status, headers=answer.headers, body=answer.body), self.uri)
        try:
            read = json.loads(answer.body)
        except ValueError:
            read = None
        if not isinstance(read, dict):
            raise retrying.PassingError(contract.REASON_MODEL_DOWNLOAD_FAILED, f"{self.uri}: the list is no JSON")
        return cast("dict[str, Any]", read)

    async def _headers(self) -> dict[str, str]:
        return await asyncio.to_thread(self._headers_now)

    def _headers_now(self) -> dict[str, str]:
        """A token that is still good for some minutes."""
        asked = _Asked()
        try:
            if self._credentials is None and (self._looks_again or not self._is_anonymous):
                self._looks_again = False
                self._credentials = _of_the_pod()
                self._is_anonymous = False
            if self._is_anonymous:
                return {}
            credentials: Any = self._credentials
            if not credentials.valid:
                credentials.refresh(asked)
        except google.auth.exceptions.DefaultCredentialsError:
            # A public bucket asks for none.
            self._is_anonymous = True
            return {}
        except google.auth.exceptions.RefreshError as error:
            if asked.is_unanswered or getattr(error, "retryable", False):
                raise self._no_token(error) from error
            said = termination.mask(str(error.args[0]) if error.args else "", [])
            raise models.ModelError(
                contract.REASON_MODEL_ACCESS_DENIED, f"{self.uri}: Google gives no token ({said}): {self._remedy()}"
            ) from error
        except google.auth.exceptions.GoogleAuthError as error:
            raise self._no_token(error) from error
        return {"Authorization": f"Bearer {credentials.token}"}

    def _no_token(self, error: Exception) -> retrying.PassingError:
        what = f"{self.uri}: cannot reach who gives tokens ({type(error).__name__})"
        return retrying.PassingError(contract.REASON_MODEL_DOWNLOAD_FAILED, what)


class _Asked:
    """How google-auth asks; remembers whether whoever gives tokens was out of reach, which its errors seldom tell."""

    def __init__(self) -> None:
        self._request: Any = google.auth.transport.requests.Request()
        self.session: Any = self._request.session
        """Into which google-auth puts its certificates."""
        self.is_unanswered = False
        """Whether what was asked last brought no answer, or one that may be another a moment later."""

    def __call__(self, *positional: Any, **named: Any) -> Any:
        self.is_unanswered = True
        answer = self._request(*positional, **named)
        self.is_unanswered = answer.status in (408, 429) or answer.status >= 500
        return answer


def _url(endpoint: str) -> str:
    return (endpoint if "://" in endpoint else f"http://{endpoint}").rstrip("/")


def _of_the_pod() -> Any:
    find = cast("Any", google.auth.default)  # pyright: ignore[reportUnknownMemberType] - it has no types
    return find(scopes=_SCOPES)[0]


def _of_key(text: str, given: Credentials) -> Any:
    try:
        load = cast("Any", google.auth.load_credentials_from_dict)  # pyright: ignore[reportUnknownMemberType] - it has no types
        credentials, _ = load(json.loads(text), scopes=_SCOPES)
    except (ValueError, TypeError, AttributeError, google.auth.exceptions.GoogleAuthError):
        # Its text may hold a part of the key.
        raise given.unusable(f"key {_KEY} is no JSON of Google's credentials: put the key file into it") from None
    return credentials


def _digest(item: dict[str, Any]) -> Digest | None:
    """Objects that were composed of others have no MD5."""
    if md5 := digests.from_base64(str(item.get("md5Hash", ""))):
        return Digest(algorithm="md5", value=md5)
    crc32c = digests.from_base64(str(item.get("crc32c", "")))
    return Digest(algorithm="crc32c", value=crc32c) if crc32c else None


def _message(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"]["message"])[:200]
    except (ValueError, KeyError, TypeError):
        return ""
