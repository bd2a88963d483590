"""Where a model comes from: what its uri comes to in the pod, and what opens it."""

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from gptservice_runtime import contract

from .api import v1
from .config import Config
from .render.resolved import Download, Source

HUB = "hf://"
_MOUNTED = ("pvc", "file")
_STORES = ("s3", "gs", "oci", "https")
"""Schemes of what ``modelCredentialsSecretRef`` opens."""
_ARCHIVES = (".tar", ".tar.gz", ".tgz")
_SINGLE_FILE = ".gguf"


@dataclass(frozen=True, slots=True)
class Written:
    """A model's uri, and the field that it is in."""

    uri: str
    field: str


def decide(
    written: Written,
    spec: v1.GPTServiceSpec,
    entry: v1.GPTModelSpec | None,
    config: Config,
    *,
    vllm_version: str | None,
) -> Source | str:
    """Return the source, or what is wrong, with the field's path.

    Args:
        written: as the service or the catalogue entry has it.
        spec: the service's.
        entry: the catalogue entry that it names, if it names one.
        config: the operator's configuration.
        vllm_version: of the engine that will load it; None if it is not known, or loads it already.
    """
    uri = written.uri if "://" in written.uri else HUB + written.uri
    scheme, _, rest = uri.partition("://")
    misfit = next(_misfits(scheme, written, spec, entry), None)
    if misfit is not None:
        return misfit
    if vllm_version == contract.VLLM_VERSION and _path_of(uri).endswith(_SINGLE_FILE):
        return (
            f"{written.field}: {written.uri!r} is a GGUF file, which vLLM {vllm_version} does not read: convert it to "
            "safetensors (transformers: from_pretrained(..., gguf_file=...).save_pretrained(...)), or set "
            "spec.engine.image to an image whose vLLM does"
        )
    digest = spec.model_digest or (entry.digest if entry is not None else None)
    if scheme == "file":
        return Source(uri, rest, digest=digest)
    if scheme == "pvc":
        claim, _, path = rest.partition("/")
        return Source(uri, f"{contract.SOURCE_ROOT}/{path}".rstrip("/"), claim=claim, digest=digest)
    return Source(uri, contract.FETCHED_MODEL, digest=digest, download=_download(scheme, spec, entry, config))


def _download(scheme: str, spec: v1.GPTServiceSpec, entry: v1.GPTModelSpec | None, config: Config) -> Download:
    if scheme in _STORES:
        of_entry = entry.model_credentials_secret_ref if entry is not None else None
        return Download(credentials=spec.model_credentials_secret_ref or of_entry)
    token = spec.hugging_face_token_secret_ref or (entry.token_secret_ref if entry is not None else None)
    return Download(hub_endpoint=config.hub_endpoint, hub_token=token)


def _misfits(scheme: str, written: Written, spec: v1.GPTServiceSpec, entry: v1.GPTModelSpec | None) -> Iterator[str]:
    """Yield what is wrong with the uri, and with references to Secrets that can open no model of its scheme."""
    yield from _wrong_forms(scheme, written)
    of_entry = written.field.removesuffix("uri")
    if scheme in _STORES:
        instead = f"is for hf:// models, and this is {scheme}://: use modelCredentialsSecretRef"
        if spec.hugging_face_token_secret_ref is not None:
            yield f"spec.huggingFaceTokenSecretRef: {instead}"
        if entry is not None and entry.token_secret_ref is not None:
            yield f"{of_entry}tokenSecretRef: {instead}"
        return
    use = "nothing opens it" if scheme in _MOUNTED else "use huggingFaceTokenSecretRef"
    instead = f"is for {', '.join(f'{store}://' for store in _STORES)} models, and this is {scheme}://: {use}"
    if spec.model_credentials_secret_ref is not None:
        yield f"spec.modelCredentialsSecretRef: {instead}"
    if entry is not None and entry.model_credentials_secret_ref is not None:
        yield f"{of_entry}modelCredentialsSecretRef: {instead}"


def _wrong_forms(scheme: str, written: Written) -> Iterator[str]:
    """Yield what the schema's pattern lets pass; a cluster's schema may also be older than this operator."""
    said, rest = f"{written.field}: {written.uri!r}", written.uri.partition("://")[2]
    if scheme == "file" and not rest.startswith("/"):
        yield f"{said} must be file:///absolute/path"
    if scheme == "pvc" and not rest.partition("/")[0]:
        yield f"{said} must be pvc://claim/path"
    if scheme == "https" and not _path_of(written.uri).endswith((*_ARCHIVES, _SINGLE_FILE)):
        yield f"{said} must name one {', '.join(_ARCHIVES)} or {_SINGLE_FILE} file: a web server lists no folders"
    if scheme not in (HUB.removesuffix("://"), *_MOUNTED, *_STORES):
        schemes = ", ".join(f"{known}://" for known in ("hf", *_STORES, *_MOUNTED))
        yield f"{said}: this version serves models from {schemes} only"


def _path_of(uri: str) -> str:
    """Return it without what a web server's address may have behind its path."""
    return urlsplit(uri).path if uri.startswith("https://") else uri
