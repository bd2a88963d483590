"""Looks at single objects that the watches do not show."""

from collections.abc import Mapping, Sequence

from . import extract
from .api import kinds
from .cluster import Cluster
from .plan import ChildKey, Manifest, child_key
from .store import Observed, Store


async def complete(
    cluster: Cluster,
    store: Store,
    desired: Sequence[Manifest],
    known: Mapping[ChildKey, Observed],
    owner_uid: str,
) -> dict[ChildKey, Observed]:
    """Return the live object of every desired child that exists.

    The watches are filtered by our label, so that a child missing from the store may be there all the same: somebody
    else's, or ours with its label taken off. A forced apply would merge into it, so it is looked at first.
    """
    observed = dict(known)
    for manifest in desired:
        key = child_key(manifest)
        if key in observed:
            continue
        kind = kinds.BY_NAME[key[0]]
        body = await cluster.get(kind, manifest["metadata"]["namespace"], key[1])
        if body is None:
            continue
        entry = extract.entry(kind, body)
        if entry.controller_uid == owner_uid:
            store.put(entry)
        observed[key] = Observed(entry.uid, entry.controller_uid, entry.body())
    return observed
