"""Where a model comes from: what its uri comes to in the pod."""

from gptservice_runtime import contract

from .api import v1
from .config import Config
from .render.resolved import Hub, Source

HUB = "hf://"
SERVED_SCHEMES = (HUB, "pvc://", "file://")


def decide(uri: str, spec: v1.GPTServiceSpec, entry: v1.GPTModelSpec | None, config: Config) -> Source | str:
    """Return the source, or what is wrong with the uri.

    Args:
        uri: as the service or the catalogue entry writes it.
        spec: the service's.
        entry: the catalogue entry that it names, if it names one.
        config: the operator's configuration.
    """
    digest = spec.model_digest or (entry.digest if entry is not None else None)
    full = uri if "://" in uri else HUB + uri
    scheme, _, rest = full.partition("://")
    if full.startswith(HUB):
        token = spec.hugging_face_token_secret_ref or (entry.token_secret_ref if entry is not None else None)
        return Source(full, contract.FETCHED_MODEL, digest=digest, hub=Hub(config.hub_endpoint, token))
    if scheme == "file":
        return Source(full, rest, digest=digest) if rest.startswith("/") else f"{uri!r} must be file:///absolute/path"
    if scheme != "pvc":
        return f"this version serves models from {', '.join(SERVED_SCHEMES)} only, not from {uri!r}"
    claim, _, path = rest.partition("/")
    if not claim:
        return f"{uri!r} must be pvc://claim/path"
    return Source(full, f"{contract.SOURCE_ROOT}/{path}".rstrip("/"), claim=claim, digest=digest)
