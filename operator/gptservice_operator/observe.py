"""Looks at single objects that the watches do not show."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from . import errors, extract
from .actions import ChildKey
from .api import kinds
from .api.body import Body
from .cluster import Cluster
from .store import Observed, Store, observed


@dataclass(slots=True)
class View:
    """The desired children as they are in the cluster."""

    observed: dict[ChildKey, Observed]
    absent: set[ChildKey] = field(default_factory=set[ChildKey])
    unknown: dict[ChildKey, errors.OperatorError] = field(default_factory=dict[ChildKey, errors.OperatorError])
    """Children that could not be looked at, and why: nothing may be written to them."""


def assumed(desired: Sequence[ChildKey]) -> View:
    """Return the view in which none of the desired children exists."""
    return View({}, absent=set(desired))


async def complete(
    cluster: Cluster,
    store: Store,
    desired: Sequence[ChildKey],
    known: Mapping[ChildKey, Observed],
    service: Body,
    also: Sequence[ChildKey] = (),
) -> View:
    """Return every desired child's live object, or that there is none; and those of ``also`` that exist.

    The watches are filtered by our label, so that a child missing from the store may be there all the same: somebody
    else's, or ours with its label taken off. A forced apply would merge into it, so it is looked at first.
    """
    view = View(dict(known))
    for key in (*desired, *also):
        if key in view.observed:
            continue
        try:
            found = await _look(cluster, store, key, service)
        except errors.OperatorError as error:
            view.unknown[key] = error
            continue
        if found is not None:
            view.observed[key] = found
        elif key not in also:
            view.absent.add(key)
    return view


async def _look(cluster: Cluster, store: Store, key: ChildKey, service: Body) -> Observed | None:
    kind, owner = kinds.BY_NAME[key[0]], service["metadata"]
    body = await cluster.get(kind, owner["namespace"], key[1])
    if body is None:
        return None
    entry = extract.entry(kind, body)
    if entry.controller_uid == owner["uid"]:
        store.put(entry)
    return observed(entry)


async def is_live(cluster: Cluster, namespace: str, name: str, uid: str) -> bool:
    """Return whether the GPTService still exists.

    Asked before a child is made: where a watch missed the deletion, the child would belong to nobody, be collected,
    and be made again.
    """
    body = await cluster.get(kinds.GPT_SERVICE, namespace, name)
    return body is not None and body["metadata"]["uid"] == uid and "deletionTimestamp" not in body["metadata"]
