"""The generated API key: its Secret is made once and never looked at again, as ``create`` is our only verb on Secrets.

So it is no child like the others: it is in no list of manifests, has no hash, and is neither compared nor removed. The
value exists in the request that makes it and nowhere else in the operator.
"""

import base64
import logging
import secrets
from collections.abc import Callable, Mapping
from typing import Any

from . import errors, names, wording
from .api import kinds
from .api.body import section
from .cluster import Cluster
from .render.resolved import Resolved
from .store import Observed

logger = logging.getLogger(__name__)

DATA_KEY = "api-key"
_BYTES = 32

Random = Callable[[int], str]
"""Returns so many random bytes as url-safe text."""


def is_missing(resolved: Resolved, deployment: Observed | None) -> bool:
    """Return whether the Secret may not have been made yet.

    The Deployment is written after it and says so in an annotation. Somebody else's Deployment says nothing, but ours
    cannot be made in its place either, so that no pod would want the key.
    """
    if resolved.api_keys is None or not resolved.api_keys.generated:
        return False
    if deployment is None:
        return True
    told = section(deployment.body, "metadata", "annotations").get(names.KEY_SECRET)
    return bool(deployment.controller_uid == resolved.uid and told != resolved.api_keys.secret)


def render_secret(resolved: Resolved, name: str, key: str) -> dict[str, Any]:
    """Return the Secret that holds a key. It stays editable: writing another value into it is the rotation."""
    return {
        "apiVersion": kinds.SECRET.api_version,
        "kind": kinds.SECRET.name,
        "metadata": resolved.metadata(name),
        "type": "Opaque",
        "data": {DATA_KEY: base64.b64encode(key.encode()).decode()},
    }


async def make(cluster: Cluster, resolved: Resolved, random: Random = secrets.token_urlsafe) -> None:
    """Make the Secret with a new key, unless it is there.

    Raises:
        errors.OperatorError: it could not be made; the text does not hold the key.
    """
    if resolved.api_keys is None or not resolved.api_keys.generated:
        return
    secret = render_secret(resolved, resolved.api_keys.secret, f"sk-{random(_BYTES)}")
    try:
        made = await cluster.create(secret)
    except errors.Transient as error:
        raise errors.Transient(_masked(error, secret), error.retry_after) from None
    except errors.OperatorError as error:
        raise type(error)(_masked(error, secret)) from None
    if made:
        logger.info("%s/%s: made Secret %s", resolved.namespace, resolved.name, resolved.api_keys.secret)


def _masked(error: errors.OperatorError, secret: Mapping[str, Any]) -> str:
    """An admission webhook may quote what it refuses."""
    encoded = secret["data"][DATA_KEY]
    return wording.without(str(error), [encoded, base64.b64decode(encoded).decode()])
