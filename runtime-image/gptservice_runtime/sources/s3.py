"""``s3://bucket/path``: objects of Amazon S3 and what speaks its protocol.

botocore finds credentials (of the Secret, of the pod's own identity) and signs; the requests are the runtime's, so that
they fail, wait and go on as those to every other source do.
"""

import asyncio
import os
import re
import ssl
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote_plus

import botocore.config
import botocore.exceptions
import botocore.session
from botocore import UNSIGNED

from gptservice_runtime import contract, models, termination
from gptservice_runtime.sources import naming
from gptservice_runtime.sources.credentials import Credentials
from gptservice_runtime.transfer import answers, archives, digests, http, retrying
from gptservice_runtime.transfer.digests import Digest
from gptservice_runtime.transfer.source import Listing, Refusal, RemoteFile, Request

SCHEME = "s3"
_WRITTEN = re.compile(r"s3://(?P<bucket>[a-z0-9][-a-z0-9_.]+)(?:/(?P<path>.*))?", re.ASCII)
_KEYS = (
    "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL",
)  # fmt: skip
_ANY_REGION = "us-east-1"
_REGION_HEADER = "x-amz-bucket-region"
_VALID_SECONDS = 3600
"""Of a signature: longer than any pause between two tries."""
_AT_A_TIME = 8
_MD5 = re.compile("[0-9a-f]{32}")
_MD5_OF_PARTS = re.compile("[0-9a-f]{32}-[0-9]+")
_SLOWER = frozenset(
    {
        "SlowDown", "RequestLimitExceeded", "Throttling", "ThrottlingException", "ThrottledException",
        "RequestThrottled", "RequestThrottledException", "TooManyRequestsException", "BandwidthLimitExceeded",
    }
)  # fmt: skip
_OVER_SOON = frozenset(
    {"IDPCommunicationError", "ExpiredTokenException", "InternalFailure", "InternalError", "RequestTimeout",
     "RequestTimeoutException", "ServiceUnavailable", "TransientError"}
)  # fmt: skip
"""Codes of who gives credentials that are no word about them: the kubelet renews a token that ran out."""
_WHOLE = {"x-amz-checksum-mode": "ENABLED"}


class S3:
    """Objects below a path of a bucket, or one object."""

    who = "the object store"
    ca_remedy = Credentials.CA_REMEDY
    reference = "latest"
    pinned: str | None = None

    def __init__(self, uri: str, directory: Path) -> None:
        """`directory`: where the Secret is mounted; models.ModelError for what cannot be used."""
        self.uri = uri
        self._bucket, self._path = naming.place_of(uri, _WRITTEN, SCHEME)
        given = Credentials(directory, _KEYS, SCHEME)
        self._keys = given.together("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
        self._session_token = given.word("AWS_SESSION_TOKEN")
        self._endpoint = given.word("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL") or _environment(*_KEYS[5:])
        self._region = given.word("AWS_REGION", "AWS_DEFAULT_REGION") or _environment("AWS_REGION") or _ANY_REGION
        self._tls = given.tls()
        self._is_anonymous = False
        self._client: Any = None

    @property
    def tls(self) -> ssl.SSLContext | None:
        """With what the endpoint's certificate is checked."""
        return self._tls

    @property
    def shelf(self) -> str:
        """By endpoint, bucket and path."""
        return naming.shelf(SCHEME, "/".join(filter(None, (self._endpoint, self._bucket, self._path))))

    def pin(self, _revision: str) -> str | None:
        """Its URIs have no place for a revision."""
        return None

    async def listing(self, connection: http.Http) -> Listing:
        """The objects that serving needs, each with its version and the digest that is known of it."""
        if naming.is_whole_model(self._path):
            keys = {self._path.rpartition("/")[2]: self._path}
        else:
            prefix = f"{self._path}/" if self._path else ""
            keys = naming.needed(await self._names(connection, prefix), prefix)
        slots = asyncio.Semaphore(_AT_A_TIME)

        async def one(path: str, key: str) -> RemoteFile:
            async with slots:
                return await self._announced(connection, path, key)

        return naming.listing(await asyncio.gather(*(one(path, key) for path, key in keys.items())), self.uri)

    async def request(self, _connection: http.Http, file: RemoteFile) -> Request:
        """Signed anew: credentials and signatures run out. Another content than the one listed is refused by S3."""
        etag, _, version = file.version.partition(" ")
        named = {"VersionId": version} if version else {}
        url = await self._signed("get_object", {"Key": file.address, **named})
        return Request(url=url, headers={"If-Match": etag} if etag else {})

    def fault(self, refusal: Refusal, what: str) -> Exception:
        """What an answer means, with the code and the message that S3 puts into it."""
        code, message = _error(refusal.body)
        quoted = termination.mask(" ".join(filter(None, (code, message))), [])
        said = f"{what}: {self.who} answered {refusal.status}{f' ({quoted})' if quoted else ''}"
        if self._is_anonymous and refusal.status in (401, 403):
            # Whoever gives credentials may only have been busy: botocore tells that like having none.
            self._client = None
            return answers.denied_for_now(said, self._remedy())
        return answers.fault(
            refusal,
            said,
            denied=self._remedy(),
            missing="check bucket and path; modelCredentialsSecretRef names region and endpoint",
            throttled=code in _SLOWER,
        )

    def _remedy(self) -> str:
        if self._is_anonymous:
            return (
                "neither modelCredentialsSecretRef nor the pod's service account has given credentials: name a Secret "
                "with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the service account a role"
            )
        whose = "of modelCredentialsSecretRef" if self._keys else "of the pod's service account"
        return f"the credentials {whose} are not valid, or may not list the bucket and read its objects"

    async def _names(self, connection: http.Http, prefix: str) -> list[str]:
        names, more = list[str](), dict[str, str]()
        while True:
            url = await self._signed("list_objects_v2", {"Prefix": prefix, **more})
            listed = _parsed((await self._answer(connection, Request(url=url), self.uri)).body, self.uri)
            # botocore asks for it, as XML cannot hold every character that a key can; not every store does it.
            plain = unquote_plus if listed.findtext("EncodingType") == "url" else str
            names += [plain(key) for entry in listed.iter("Contents") if (key := entry.findtext("Key"))]
            if len(names) > naming.MOST_OBJECTS:
                raise models.ModelError(
                    contract.REASON_MODEL_NOT_FOUND,
                    f"{self.uri} has more than {naming.MOST_OBJECTS} objects: name the model's own folder",
                )
            token = listed.findtext("NextContinuationToken")
            if token is None:
                return names
            more = {"ContinuationToken": token}

    async def _announced(self, connection: http.Http, path: str, key: str) -> RemoteFile:
        name = f"s3://{self._bucket}/{key}"
        headers = await self._head(connection, name, {"Key": key, "ChecksumMode": "ENABLED"})
        etag, version = headers.get("ETag", ""), headers.get("x-amz-version-id", "")
        return RemoteFile(
            path=path,
            size=int(headers["Content-Length"]),
            digest=await self._digest(connection, name, key, headers),
            name=name,
            address=key,
            version=f"{etag} {version if version != 'null' else ''}".strip(),
            marks={"ETag": etag} if etag else {},
            is_archive=key == self._path and archives.is_archive(path),
        )

    async def _digest(self, connection: http.Http, name: str, key: str, headers: Mapping[str, str]) -> Digest | None:
        """A checksum of the whole object; else its ETag, which is one unless it is encrypted with a key of KMS."""
        checksum = digests.from_base64(headers.get("x-amz-checksum-sha256", ""))
        if checksum and headers.get("x-amz-checksum-type", "FULL_OBJECT") == "FULL_OBJECT":
            return Digest(algorithm="sha256", value=checksum)
        checksum = digests.from_base64(headers.get("x-amz-checksum-crc32c", ""))
        if checksum and headers.get("x-amz-checksum-type") == "FULL_OBJECT":
            return Digest(algorithm="crc32c", value=checksum)
        etag = headers.get("ETag", "").strip('"')
        if headers.get("x-amz-server-side-encryption", "AES256") != "AES256":
            return None
        if _MD5.fullmatch(etag):
            return Digest(algorithm="md5", value=etag)
        if not _MD5_OF_PARTS.fullmatch(etag):
            return None
        first = await self._head(connection, name, {"Key": key, "PartNumber": 1})
        # Who does not know of parts answers for the whole object.
        size = int(first["Content-Length"])
        if first.get("x-amz-mp-parts-count") != etag.rpartition("-")[2]:
            return None
        return Digest(algorithm="md5-of-parts", value=etag, part_size=size)

    async def _head(self, connection: http.Http, name: str, parameters: dict[str, Any]) -> Mapping[str, str]:
        url = await self._signed("head_object", parameters)
        headers = _WHOLE if "ChecksumMode" in parameters else {}
        answer = await self._answer(connection, Request(url=url, headers=headers), name, "HEAD")
        if not answer.headers.get("Content-Length", "").isdigit():
            raise retrying.PassingError(
                contract.REASON_MODEL_DOWNLOAD_FAILED, f"{name}: {self.who} does not say how large it is"
            )
        return answer.headers

    async def _answer(self, connection: http.Http, request: Request, what: str, method: str = "GET") -> http.Answer:
        """An answer that is a success; the refusal of another region says which one it is."""
        answer = await connection.read(request, what, method)
        if answer.status in (200, 206):
            return answer
        region = answer.headers.get(_REGION_HEADER, self._region)
        if region != self._region:
            self._region, self._client = region, None
            raise retrying.PassingError(
                contract.REASON_MODEL_DOWNLOAD_FAILED, f"{what}: the bucket is in {region}", retry_after=0
            )
        raise self.fault(Refusal(status=answer.status, headers=answer.headers, body=answer.body[:4096]), what)

    async def _signed(self, operation: str, parameters: dict[str, Any]) -> str:
        return await asyncio.to_thread(self._signed_now, operation, {"Bucket": self._bucket, **parameters})

    def _signed_now(self, operation: str, parameters: dict[str, Any]) -> str:
        try:
            client = self._client or self._new_client()
            url = self._signed_by(client, operation, parameters)
            if self._client is None:
                self._client, self._is_anonymous = client, False
        except botocore.exceptions.NoCredentialsError:
            # A public bucket asks for none.
            self._client, self._is_anonymous = self._new_client(is_anonymous=True), True
            return self._signed_by(self._client, operation, parameters)
        except botocore.exceptions.ClientError as error:
            raise self._no_credentials(error) from error
        except (botocore.exceptions.BotoCoreError, OSError, RuntimeError) as error:
            # Of a token that is not mounted, and of credentials that have run out when they come.
            raise retrying.PassingError(
                contract.REASON_MODEL_DOWNLOAD_FAILED, f"{self.uri}: cannot sign requests ({error})"
            ) from error
        return url

    def _signed_by(self, client: Any, operation: str, parameters: dict[str, Any]) -> str:
        url: str = client.generate_presigned_url(operation, Params=parameters, ExpiresIn=_VALID_SECONDS)
        return url

    def _no_credentials(self, error: botocore.exceptions.ClientError) -> Exception:
        """What the refusal of who gives credentials means: most of them are of the moment."""
        answer: Any = error.response
        code, status = str(answer["Error"].get("Code")), answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        if code in _SLOWER or status == 429:
            said = f"{self.uri}: no credentials for the pod's identity yet: {error}"
            return retrying.PassingError(contract.REASON_HUB_THROTTLED, said)
        if code in _OVER_SOON or status >= 500:
            said = f"{self.uri}: no credentials for the pod's identity: {error}"
            return retrying.PassingError(contract.REASON_MODEL_DOWNLOAD_FAILED, said)
        said = f"{self.uri}: the pod's identity is not accepted: {error}"
        return models.ModelError(contract.REASON_MODEL_ACCESS_DENIED, said)

    def _new_client(self, *, is_anonymous: bool = False) -> Any:
        session: Any = botocore.session.Session()
        if self._keys is not None:
            session.set_credentials(
                self._keys["AWS_ACCESS_KEY_ID"], self._keys["AWS_SECRET_ACCESS_KEY"], self._session_token
            )
        signature: Any = UNSIGNED if is_anonymous else "s3v4"
        # Stores of one's own seldom have a name for each bucket.
        style = {"addressing_style": "path" if self._endpoint else "auto"}
        config = botocore.config.Config(signature_version=signature, s3=style)
        return session.create_client("s3", region_name=self._region, endpoint_url=self._endpoint, config=config)


def _environment(*names: str) -> str | None:
    return next((value for name in names if (value := os.environ.get(name))), None)


def _parsed(body: bytes, what: str) -> ElementTree.Element:
    """A list, without the namespace that some stores leave out."""
    try:
        parsed = ElementTree.fromstring(body)  # noqa: S314 - expat bounds the expansion of entities; the size is bounded
    except ElementTree.ParseError as error:
        raise retrying.PassingError(
            contract.REASON_MODEL_DOWNLOAD_FAILED, f"{what}: the list of objects is no XML ({error})"
        ) from error
    for element in parsed.iter():
        element.tag = element.tag.rpartition("}")[2]
    return parsed


def _error(body: bytes) -> tuple[str, str]:
    code, message = (re.search(rb"<%s>([^<]{1,200})</%s>" % (tag, tag), body) for tag in (b"Code", b"Message"))
    return tuple(found[1].decode(errors="replace") if found else "" for found in (code, message))  # type: ignore[return-value]
