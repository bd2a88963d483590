"""Where a model comes from: what its uri comes to in the pod, and what opens it."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from gptservice_runtime import contract

from .api import v1
from .api.uri import SINGLE_FILE, STORES
from .config import Config
from .render.resolved import Download, Proxy, Source

HUB = "hf://"
_MOUNTED = ("pvc", "file")
_NEVER_BY_PROXY = (
    "localhost", "127.0.0.1", ".svc", ".cluster.local", "169.254.169.254", "169.254.170.23", "metadata.google.internal",
)  # fmt: skip
"""What is on the node or in the cluster, where clouds tell a pod who it is: a proxy would be told who the proxy is."""


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
    if (misfit := _misfit(scheme, spec)) is not None:
        return misfit
    if vllm_version == contract.VLLM_VERSION and _path_of(uri).endswith(SINGLE_FILE):
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
    if scheme in STORES:
        of_entry = entry.model_credentials_secret_ref if entry is not None else None
        return Download(credentials=spec.model_credentials_secret_ref or of_entry, proxy=_proxy(config))
    token = spec.hugging_face_token_secret_ref or (entry.token_secret_ref if entry is not None else None)
    return Download(hub_endpoint=config.hub_endpoint, hub_token=token, proxy=_proxy(config))


def _proxy(config: Config) -> Proxy | None:
    if not config.runtime_http_proxy and not config.runtime_https_proxy:
        return None
    exceptions = tuple(dict.fromkeys([*config.runtime_no_proxy, *_NEVER_BY_PROXY]))
    return Proxy(http=config.runtime_http_proxy, https=config.runtime_https_proxy, exceptions=exceptions)


def _misfit(scheme: str, spec: v1.GPTServiceSpec) -> str | None:
    """Return what is wrong with a Secret of the service that can open no model of this scheme.

    Of a uri that is in the same object as the Secret, the object's own rules say it.
    """
    if scheme in STORES:
        if spec.hugging_face_token_secret_ref is None:
            return None
        use = "use modelCredentialsSecretRef"
        return f"spec.huggingFaceTokenSecretRef: is for hf:// models, and this is {scheme}://: {use}"
    if spec.model_credentials_secret_ref is None:
        return None
    use = "nothing opens it" if scheme in _MOUNTED else "use huggingFaceTokenSecretRef"
    stores = ", ".join(f"{store}://" for store in STORES)
    return f"spec.modelCredentialsSecretRef: is for {stores} models, and this is {scheme}://: {use}"


def _path_of(uri: str) -> str:
    """Return it without what a web server's address may have behind its path."""
    return urlsplit(uri).path if uri.startswith("https://") else uri
