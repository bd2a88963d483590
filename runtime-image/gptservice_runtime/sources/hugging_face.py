"""``hf://``: a repository of a hub, and what the hub says is in it. The only user of huggingface_hub."""

import asyncio
import logging
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass

import huggingface_hub
from huggingface_hub.errors import HfHubHTTPError, HFValidationError
from huggingface_hub.hf_api import RepoSibling

from gptservice_runtime import contract, models, selection, termination
from gptservice_runtime.sources import credentials
from gptservice_runtime.transfer import answers, http, retrying
from gptservice_runtime.transfer.digests import Digest
from gptservice_runtime.transfer.source import Listing, Refusal, RemoteFile, Request

SCHEME = "hf://"
_WRITTEN = re.compile(r"hf://(?P<name>[\w.-]+/[\w.-]+)(?:@(?P<revision>[\w./-]+))?", re.ASCII)
_COMMIT = re.compile("[0-9a-f]{40}")
_SHA256 = re.compile("[0-9a-f]{64}")
_DEFAULT_REVISION = "main"
_LIBRARY = "gptservice-runtime"
_GATED = "GatedRepo"
_MOST_QUOTED = 200
_NOT_TRUSTED = "CERTIFICATE_VERIFY_FAILED"
"""OpenSSL's word, which every library's error repeats."""

# They log every request at the level INFO.
for _noisy in ("httpx", "httpx2"):
    logging.getLogger(_noisy).setLevel(logging.WARNING)


@dataclass(frozen=True, kw_only=True)
class Repository:
    """What a URI names."""

    name: str
    revision: str

    @property
    def is_pinned(self) -> bool:
        """Whether the revision is a commit, which never means anything else."""
        return _COMMIT.fullmatch(self.revision) is not None

    def __str__(self) -> str:
        return f"{SCHEME}{self.name}@{self.revision}"


def parse(uri: str) -> Repository:
    """Read ``hf://org/name[@revision]``; models.ModelError for anything else."""
    match = _WRITTEN.fullmatch(uri)
    if match is None or ".." in uri:
        raise models.ModelError(contract.REASON_INVALID_SPEC, f"cannot fetch {uri!r}: write hf://org/name[@revision]")
    return Repository(name=match["name"], revision=match["revision"] or _DEFAULT_REVISION)


class HuggingFaceHub:
    """A repository of a hub that speaks Hugging Face's API; at ``HF_ENDPOINT``, which the library reads itself."""

    who = "the hub"
    ca_remedy = credentials.PLATFORM_CA_REMEDY
    tls: ssl.SSLContext | None = None
    """No Secret of a service has authorities of a hub; the platform's are the process's."""

    def __init__(self, repository: Repository, token: str | None, timeout: float) -> None:
        """`timeout` in seconds without an answer."""
        self._repository = repository
        self._token = token
        self._timeout = timeout
        # False, not None: nothing is to be sent that was not asked for.
        self._api = huggingface_hub.HfApi(token=token or False, library_name=_LIBRARY)

    @property
    def uri(self) -> str:
        """With the revision that was asked for."""
        return str(self._repository)

    @property
    def shelf(self) -> str:
        """As the hub's own cache names it."""
        return self._repository.name.replace("/", "--")

    @property
    def reference(self) -> str:
        """A branch, tag or commit."""
        return self._repository.revision

    @property
    def pinned(self) -> str | None:
        """The commit, if it is one that was asked for."""
        return self._repository.revision if self._repository.is_pinned else None

    def pin(self, revision: str) -> str | None:
        """At the commit."""
        return str(Repository(name=self._repository.name, revision=revision))

    async def request(self, _http: http.Http, file: RemoteFile) -> Request:
        """The hub's own address; it redirects large files to another host, which gets no token."""
        sent = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        return Request(url=file.address, headers={"User-Agent": _LIBRARY, **sent})

    async def listing(self, _http: http.Http) -> Listing:
        """What the hub has; models.ModelError or retrying.PassingError."""
        return await asyncio.to_thread(self._listing)

    def fault(self, refusal: Refusal, what: str) -> Exception:
        """What an answer means."""
        said = f"{what}: the hub answered {refusal.status}{_quote(refusal.headers, self._token)}"
        denied = _remedy(refusal.headers, self._token)
        missing = "check the organisation, the name and the revision"
        return answers.fault(refusal, said, denied=denied, missing=missing)

    def _listing(self) -> Listing:
        repository = self._repository
        what = f"{repository} at {self._api.endpoint}"
        try:
            info = self._api.model_info(
                repository.name, revision=repository.revision, files_metadata=True, timeout=self._timeout
            )
            siblings = {sibling.rfilename: sibling for sibling in info.siblings or ()}
            names = selection.needed(name for name in siblings if selection.is_usable(name))
            commit = _commit(repository, info.sha, what)
            files = tuple(self._announced(repository, commit, siblings[name]) for name in names)
        except HfHubHTTPError as error:
            answered = Refusal(status=error.response.status_code, headers=error.response.headers)
            raise self.fault(answered, what) from None
        except (models.ModelError, retrying.PassingError):
            raise
        except HFValidationError as error:
            raise models.ModelError(contract.REASON_INVALID_SPEC, f"{what}: no hub has such a name: {error}") from None
        except Exception as error:
            if _NOT_TRUSTED in str(error):
                said = f"{what}: its certificate is not trusted: {self.ca_remedy}"
                raise models.ModelError(contract.REASON_MODEL_DOWNLOAD_FAILED, said) from error
            # The HTTP library under huggingface_hub, and so the type of an error, changes with its versions.
            raise retrying.PassingError(
                contract.REASON_MODEL_DOWNLOAD_FAILED, f"{what}: no answer ({type(error).__name__}: {error})"
            ) from error
        return Listing(revision=commit, files=_servable(files, list(siblings), what))

    def _announced(self, repository: Repository, commit: str, sibling: RepoSibling) -> RemoteFile:
        """Mirrors leave the sizes out of the list; every hub has them in the answer to a HEAD of the file."""
        path = sibling.rfilename
        url = huggingface_hub.hf_hub_url(repository.name, path, revision=commit)
        if isinstance(sibling.size, int) and (sibling.lfs is not None or sibling.blob_id is not None):
            told, size = sibling.lfs.sha256 if sibling.lfs is not None else sibling.blob_id, sibling.size
        else:
            head = self._api.get_hf_file_metadata(url=url, timeout=self._timeout)
            if head.size is None:
                raise retrying.PassingError(
                    contract.REASON_MODEL_DOWNLOAD_FAILED, f"{url}: the hub does not say how large the file is"
                )
            told, size = head.etag, head.size
        return RemoteFile(path=path, size=size, digest=_digest(told or ""), name=url, address=url)


def _digest(told: str) -> Digest | None:
    """Of LFS files the sha256, of the others git's hash of a blob."""
    if _SHA256.fullmatch(told):
        return Digest(algorithm="sha256", value=told)
    return Digest(algorithm="git-sha1", value=told) if _COMMIT.fullmatch(told) else None


def _commit(repository: Repository, answered: object, what: str) -> str:
    """The commit that the hub names: a folder of the cache is called so, and a pinned one can be no other."""
    commit = answered if isinstance(answered, str) else ""
    if repository.is_pinned and commit in ("", repository.revision):
        return repository.revision
    if _COMMIT.fullmatch(commit) is None or repository.is_pinned:
        raise models.ModelError(
            contract.REASON_MODEL_NOT_FOUND,
            f"{what}: the hub answers with {answered!r}, which is not the commit asked for",
        )
    return commit


def _servable(files: tuple[RemoteFile, ...], names: list[str], what: str) -> tuple[RemoteFile, ...]:
    """Nothing is downloaded of a model that could not be served."""
    missing = models.missing([file.path for file in files])
    if missing is None:
        return files
    hint = "; GGUF files have to be named one by one, as pvc://claim/path/file.gguf" if _has_gguf(names) else ""
    raise models.ModelError(contract.REASON_MODEL_NOT_FOUND, f"{what} is no model that can be served: {missing}{hint}")


def _has_gguf(names: list[str]) -> bool:
    return any(name.endswith(".gguf") for name in names)


def _quote(headers: Mapping[str, str], token: str | None) -> str:
    message = headers.get("X-Error-Message")
    if message is None:
        return ""
    return f" ({termination.mask(message, [token] if token else [])[:_MOST_QUOTED]})"


def _remedy(headers: Mapping[str, str], token: str | None) -> str:
    """Hugging Face's own hub answers 401 for a repository that does not exist, too, so as not to tell."""
    gated = headers.get("X-Error-Code") == _GATED
    if token is None:
        first = "it is gated" if gated else "it is private or gated, or does not exist"
        return f"{first}, and no token was sent: name a Secret with one in huggingFaceTokenSecretRef"
    if gated:
        return "it is gated, and the token's owner has not been let in: ask for access on the repository's page"
    return (
        "the token of huggingFaceTokenSecretRef is not valid, or may not read it: mend the Secret, or ask for access "
        "if the repository is gated"
    )
