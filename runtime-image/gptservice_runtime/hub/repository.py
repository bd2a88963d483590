"""A repository of a hub: how its URI is written, and what the hub says is in it. The only user of huggingface_hub."""

import asyncio
import logging
import re
from dataclasses import dataclass
from pathlib import PurePosixPath

import huggingface_hub
from huggingface_hub.errors import HfHubHTTPError, HFValidationError
from huggingface_hub.hf_api import RepoSibling

from gptservice_runtime import contract, models, selection
from gptservice_runtime.hub import answers, retrying

SCHEME = "hf://"
_WRITTEN = re.compile(r"hf://(?P<name>[\w.-]+/[\w.-]+)(?:@(?P<revision>[\w./-]+))?", re.ASCII)
_COMMIT = re.compile("[0-9a-f]{40}")
_SHA256 = re.compile("[0-9a-f]{64}")
_DEFAULT_REVISION = "main"
_LIBRARY = "gptservice-runtime"
_DEEPEST = 16
_LONGEST_NAME = 200
"""Bytes of one part of a path: file systems take 255, and a partial file has a longer name."""

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


@dataclass(frozen=True, kw_only=True)
class RemoteFile:
    """A file as the hub announces it: its name, its size in bytes, and one of two digests."""

    path: str
    size: int
    sha256: str | None
    git_sha1: str | None
    """Of files outside of LFS: git's hash of a blob."""


@dataclass(frozen=True, kw_only=True)
class Listing:
    """What a revision is, and those of its files that serving needs."""

    commit: str
    files: tuple[RemoteFile, ...]


def parse(uri: str) -> Repository:
    """Read ``hf://org/name[@revision]``; models.ModelError for anything else."""
    match = _WRITTEN.fullmatch(uri)
    if match is None or ".." in uri:
        raise models.ModelError(contract.REASON_INVALID_SPEC, f"cannot fetch {uri!r}: write hf://org/name[@revision]")
    return Repository(name=match["name"], revision=match["revision"] or _DEFAULT_REVISION)


class HuggingFaceHub:
    """A hub that speaks Hugging Face's API; at ``HF_ENDPOINT``, which the library reads itself."""

    def __init__(self, token: str | None, timeout: float) -> None:
        """`timeout` in seconds without an answer."""
        self.token = token
        self._timeout = timeout
        # False, not None: nothing is to be sent that was not asked for.
        self._api = huggingface_hub.HfApi(token=token or False, library_name=_LIBRARY)

    @property
    def headers(self) -> dict[str, str]:
        """Of a request for a file."""
        sent = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        return {"User-Agent": _LIBRARY, **sent}

    @staticmethod
    def url(repository: Repository, commit: str, path: str) -> str:
        """Where a file is."""
        return huggingface_hub.hf_hub_url(repository.name, path, revision=commit)

    async def listing(self, repository: Repository) -> Listing:
        """What the hub has; models.ModelError or retrying.PassingError."""
        return await asyncio.to_thread(self._listing, repository)

    def _listing(self, repository: Repository) -> Listing:
        what = f"{repository} at {self._api.endpoint}"
        try:
            info = self._api.model_info(
                repository.name, revision=repository.revision, files_metadata=True, timeout=self._timeout
            )
            siblings = {sibling.rfilename: sibling for sibling in info.siblings or ()}
            names = selection.needed(name for name in siblings if _is_usable(name))
            commit = _commit(repository, info.sha, what)
            files = tuple(self._announced(repository, commit, siblings[name]) for name in names)
        except HfHubHTTPError as error:
            raise answers.fault(error.response.status_code, error.response.headers, what, self.token) from None
        except (models.ModelError, retrying.PassingError):
            raise
        except HFValidationError as error:
            raise models.ModelError(contract.REASON_INVALID_SPEC, f"{what}: no hub has such a name: {error}") from None
        except Exception as error:
            # The HTTP library under huggingface_hub, and so the type of an error, changes with its versions.
            raise retrying.PassingError(
                contract.REASON_MODEL_DOWNLOAD_FAILED, f"{what}: no answer ({type(error).__name__}: {error})"
            ) from error
        return Listing(commit=commit, files=_servable(files, list(siblings), what))

    def _announced(self, repository: Repository, commit: str, sibling: RepoSibling) -> RemoteFile:
        """Mirrors leave the sizes out of the list; every hub has them in the answer to a HEAD of the file."""
        if isinstance(sibling.size, int) and (sibling.lfs is not None or sibling.blob_id is not None):
            sha256 = sibling.lfs.sha256 if sibling.lfs is not None else None
            git_sha1 = sibling.blob_id if sha256 is None else None
            return RemoteFile(path=sibling.rfilename, size=sibling.size, sha256=sha256, git_sha1=git_sha1)
        url = self.url(repository, commit, sibling.rfilename)
        head = self._api.get_hf_file_metadata(url=url, timeout=self._timeout)
        etag = head.etag or ""
        if head.size is None:
            raise retrying.PassingError(
                contract.REASON_MODEL_DOWNLOAD_FAILED, f"{url}: the hub does not say how large the file is"
            )
        return RemoteFile(
            path=sibling.rfilename,
            size=head.size,
            sha256=etag if _SHA256.fullmatch(etag) else None,
            git_sha1=etag if _COMMIT.fullmatch(etag) else None,
        )


def _is_usable(name: str) -> bool:
    """Whether a name leads to one place inside the folder, and is one line of the digest."""
    path = PurePosixPath(name)
    inside = not path.is_absolute() and ".." not in path.parts and str(path) == name
    return inside and name.isprintable() and len(path.parts) <= _DEEPEST and all(map(_is_short, path.parts))


def _is_short(part: str) -> bool:
    return len(part.encode()) <= _LONGEST_NAME


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
