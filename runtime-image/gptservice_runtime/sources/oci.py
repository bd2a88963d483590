"""``oci://registry/repository[:tag][@digest]``: artifacts (as ORAS pushes them) and model images of a registry."""

import asyncio
import hashlib
import re
import ssl
from pathlib import Path

from gptservice_runtime import contract, models, selection, termination
from gptservice_runtime.sources import docker_login, naming, oci_manifest
from gptservice_runtime.sources.credentials import Credentials
from gptservice_runtime.transfer import answers, http, retrying
from gptservice_runtime.transfer.digests import Digest
from gptservice_runtime.transfer.source import Listing, Refusal, RemoteFile, Request

SCHEME = "oci"
_WRITTEN = re.compile(
    r"oci://(?P<registry>[A-Za-z0-9][-A-Za-z0-9.]*(?::[0-9]{1,5})?)/(?P<name>[a-z0-9]+(?:[._/-]+[a-z0-9]+)*)"
    r"(?::(?P<tag>[A-Za-z0-9_][-A-Za-z0-9_.]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?",
    re.ASCII,
)
_DEFAULT_TAG = "latest"
_DOCKER_HUB = {"docker.io": "registry-1.docker.io", "index.docker.io": "registry-1.docker.io"}
_LOOPBACK = re.compile(r"(localhost|127\.[0-9.]+)(:[0-9]+)?")
_CODES = re.compile(rb'"(?:code|message)"\s*:\s*"([^"]{1,200})"')


class Registry:
    """One artifact or image of a registry."""

    who = "the registry"
    ca_remedy = Credentials.CA_REMEDY

    def __init__(self, uri: str, directory: Path) -> None:
        """`directory`: where the Secret is mounted; models.ModelError for what cannot be used."""
        match = _WRITTEN.fullmatch(uri)
        if match is None:
            raise models.ModelError(
                contract.REASON_INVALID_SPEC, f"cannot fetch {uri!r}: write oci://registry/repository[:tag][@sha256:…]"
            )
        self.uri = uri
        self._registry, self._name = match["registry"], match["name"]
        self.pinned: str | None = match["digest"]
        self.reference: str = self.pinned or match["tag"] or _DEFAULT_TAG
        given = Credentials(directory, docker_login.KEYS, SCHEME)
        self._login = docker_login.Login.of(self._registry, given)
        self._tls = given.tls()
        self._door = docker_login.Door(self.uri, f"repository:{self._name}:pull", self._login)
        self._opening = asyncio.Lock()

    @property
    def tls(self) -> ssl.SSLContext | None:
        """With what the registry's certificate is checked."""
        return self._tls

    @property
    def shelf(self) -> str:
        """By registry and repository."""
        return naming.shelf(SCHEME, f"{self._registry}/{self._name}")

    def pin(self, revision: str) -> str | None:
        """At the digest; a tag stays, for people."""
        return f"{self.uri.partition('@')[0]}@{revision}"

    async def listing(self, connection: http.Http) -> Listing:
        """The layers that are the model; the revision is the digest of what the tag names."""
        body, revision = await self._manifest(connection, self.reference)
        manifest = oci_manifest.read(body, self.uri)
        if (chosen := oci_manifest.of_index(manifest, self.uri)) is not None:
            body, _ = await self._manifest(connection, chosen)
            manifest = oci_manifest.read(body, self.uri)
        files = tuple(self._announced(layer) for layer in oci_manifest.layers(manifest, self.uri))
        return Listing(revision=revision, files=self._servable(files))

    async def request(self, connection: http.Http, file: RemoteFile) -> Request:
        """Registries redirect to stores, which get no credentials."""
        return Request(url=self._url("blobs", file.address), headers=await self._headers(connection))

    def fault(self, refusal: Refusal, what: str) -> Exception:
        """What an answer to the request of a layer means: a token that did for the manifest may have run out."""
        challenge = refusal.headers.get("WWW-Authenticate")
        if refusal.status == 401 and self._door.close(challenge):
            # The next try asks for another; whoever gives it has the last word.
            return answers.denied_for_now(self._said(refusal, what), self._door.remedy)
        return self._lasting(refusal, what)

    def _said(self, refusal: Refusal, what: str) -> str:
        """With the code that the registry puts into it."""
        quoted = termination.mask(
            " ".join(found.decode(errors="replace") for found in _CODES.findall(refusal.body)), []
        )
        return f"{what}: {self.who} answered {refusal.status}{f' ({quoted[:200]})' if quoted else ''}"

    def _lasting(self, refusal: Refusal, what: str) -> Exception:
        missing = "check registry, repository and tag or digest"
        return answers.fault(refusal, self._said(refusal, what), denied=self._door.remedy, missing=missing)

    def _url(self, kind: str, reference: str) -> str:
        scheme = "http" if _LOOPBACK.fullmatch(self._registry) else "https"
        host = _DOCKER_HUB.get(self._registry, self._registry)
        name = f"library/{self._name}" if host != self._registry and "/" not in self._name else self._name
        return f"{scheme}://{host}/v2/{name}/{kind}/{reference}"

    async def _headers(self, connection: http.Http) -> dict[str, str]:
        async with self._opening:
            return await self._door.headers(connection)

    async def _manifest(self, connection: http.Http, reference: str) -> tuple[bytes, str]:
        """Its bytes and their digest, which is the one that was asked for, if one was."""
        url, accept = self._url("manifests", reference), {"Accept": ", ".join(oci_manifest.MEDIA_TYPES)}
        answer = await connection.read(
            Request(url=url, headers={**await self._headers(connection), **accept}), self.uri
        )
        if answer.status == 401 and (challenge := answer.headers.get("WWW-Authenticate")) is not None:
            await self._door.open(connection, challenge)
            headers = {**await self._headers(connection), **accept}
            answer = await connection.read(Request(url=url, headers=headers), self.uri)
        if answer.status != 200:
            raise self._lasting(_refusal(answer), self.uri)
        found = f"sha256:{hashlib.sha256(answer.body).hexdigest()}"
        if reference.startswith("sha256:") and found != reference:
            raise retrying.PassingError(
                contract.REASON_CHECKSUM_MISMATCH, f"{self.uri}: the registry answers {reference} with {found}"
            )
        return answer.body, found

    def _announced(self, layer: oci_manifest.Layer) -> RemoteFile:
        return RemoteFile(
            path=layer.path,
            size=layer.size,
            digest=Digest(algorithm="sha256", value=layer.digest.removeprefix("sha256:")),
            name=f"{self._registry}/{self._name}@{layer.digest}",
            address=layer.digest,
            is_archive=layer.is_archive,
        )

    def _servable(self, files: tuple[RemoteFile, ...]) -> tuple[RemoteFile, ...]:
        """All archives, and what serving needs of the files that are not packed."""
        if any(file.is_archive for file in files):
            return files
        wanted = set(selection.needed(file.path for file in files))
        single = [file for file in files if models.is_single_file(file.path)]
        if models.missing(wanted) is not None and len(single) == 1:
            return (single[0],)
        if (lacking := models.missing(wanted)) is not None:
            raise models.ModelError(
                contract.REASON_MODEL_NOT_FOUND, f"{self.uri} is no model that can be served: {lacking}"
            )
        return tuple(file for file in files if file.path in wanted)


def _refusal(answer: http.Answer) -> Refusal:
    return Refusal(status=answer.status, headers=answer.headers, body=answer.body[:4096])
