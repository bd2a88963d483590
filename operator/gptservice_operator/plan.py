"""What has to be written so that the cluster has the desired children: a pure comparison."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from . import child, replicas, revisions
from .actions import Chain, ChildKey, Delete, Manifest, child_key
from .api import kinds
from .api.body import section
from .store import Observed


def plan(
    desired: Sequence[Manifest],
    observed: Mapping[ChildKey, Observed],
    owner_uid: str,
    initial_replicas: int,
    in_use: Collection[ChildKey] = (),
) -> list[Chain]:
    """Return what to write, in the order of ``desired``; nothing where the live child already is as wanted.

    Args:
        desired: every child's manifest.
        observed: the live children by kind and name; each desired child that exists must be among them.
        owner_uid: UID of the GPTService.
        initial_replicas: the count that a Deployment begins with whose replicas an autoscaler will own.
        in_use: what is referred to, and stays though the spec asks for it no more.
    """
    manifests = {
        child_key(manifest): child.with_hash(replicas.held(manifest, observed.get(child_key(manifest))))
        for manifest in desired
    }
    scaled = _named(manifests, kinds.DEPLOYMENT)
    scaler = _named(manifests, kinds.HPA)
    ahead = _named(manifests, kinds.CONTROLLER_REVISION) if scaled is not None else None
    if ahead is not None and _keeps(ahead, observed, owner_uid):
        ahead = None
    chains: list[Chain] = []
    for key, manifest in manifests.items():
        if manifest is scaled:
            kept_first = child.chain(ahead, observed.get(child_key(ahead)), owner_uid) if ahead is not None else ()
            chains.append((*kept_first, *replicas.scaled(manifest, scaler, observed, owner_uid, initial_replicas)))
        elif manifest is scaler:
            chains.append(_also_in_the_way(scaled, manifest, observed, owner_uid))
        elif manifest is not ahead:
            chains.append(child.chain(manifest, observed.get(key), owner_uid))
    unwanted = _no_longer_wanted(manifests, observed, owner_uid)
    chains += [(deletion,) for deletion in unwanted if (deletion.kind, deletion.name) not in in_use]
    return [chain for chain in chains if chain]


def held_back(unknown: Iterable[ChildKey], desired: Iterable[ChildKey]) -> set[ChildKey]:
    """Return the children that cannot be dealt with while those of ``unknown`` could not be looked at.

    The Deployment and its autoscaler go together: which of them writes ``spec.replicas`` depends on both. And what the
    Deployment is to run has to be kept first.
    """
    keys = set(unknown)
    pair = {kinds.DEPLOYMENT.name, kinds.HPA.name}
    if {kind for kind, _ in keys} & {*pair, kinds.CONTROLLER_REVISION.name}:
        keys |= {key for key in desired if key[0] in pair}
    return keys


def _keeps(revision: Manifest, observed: Mapping[ChildKey, Observed], owner_uid: str) -> bool:
    """Whether what a revision is to keep is kept already, so that the Deployment need not wait for the write of it.

    Its marks count: a rollback that nothing remembers would be undone by the next pass.
    """
    live = observed.get(child_key(revision))
    if live is None or live.controller_uid != owner_uid:
        return False
    return live.body.get("data") == revision["data"] and revisions.marks(live.body) == revisions.marks(revision)


def _also_in_the_way(
    scaled: Manifest | None, scaler: Manifest, observed: Mapping[ChildKey, Observed], owner_uid: str
) -> Chain:
    """An autoscaler is dealt with beside its Deployment; where both names are taken, both are told."""
    live = observed.get(child_key(scaled)) if scaled is not None else None
    hpa = observed.get(child_key(scaler))
    if live is None or hpa is None or owner_uid in (live.controller_uid, hpa.controller_uid):
        return ()
    return (child.foreign(scaler, hpa),)


def _named(manifests: Mapping[ChildKey, Manifest], kind: kinds.Kind) -> Manifest | None:
    return next((manifest for key, manifest in manifests.items() if key[0] == kind.name), None)


def _no_longer_wanted(
    manifests: Mapping[ChildKey, Manifest], observed: Mapping[ChildKey, Observed], owner_uid: str
) -> Iterator[Delete]:
    """Yield the deletions of what the spec asks for no more.

    The autoscaler is dealt with beside its Deployment. What pods refer to by name stays while a rollout is under way:
    those of the older revision may have to start again.
    """
    deletable = {kind.name for kind in kinds.PRUNED} - {kinds.HPA.name}
    if not _is_rolled_out(manifests, observed):
        deletable -= {kind.name for kind in kinds.USED_BY_PODS}
    for key, live in sorted(observed.items()):
        if key[0] in deletable and key not in manifests and live.controller_uid == owner_uid:
            yield Delete(*key, live.uid)


def _is_rolled_out(manifests: Mapping[ChildKey, Manifest], observed: Mapping[ChildKey, Observed]) -> bool:
    """Whether the Deployment runs what is wanted, and nothing else; the pass that changes it begins a rollout."""
    wanted = _named(manifests, kinds.DEPLOYMENT)
    if wanted is None:
        return False  # it could not be looked at
    live = observed.get(child_key(wanted))
    if live is None:
        return True
    running, asked = (section(body, "spec", "template") for body in (live.body, wanted))
    same = revisions.key_of_template(running) == revisions.key_of_template(asked)
    return same and replicas.is_of_one_revision(live)
