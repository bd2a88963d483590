"""What has to be written so that the cluster has the desired children: a pure comparison."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import contained, names, revisions
from .api import kinds
from .api.body import entries, section
from .store import Observed

Manifest = dict[str, Any]
ChildKey = tuple[str, str]
"""Kind and name."""


@dataclass(frozen=True, slots=True)
class Apply:
    """Apply a manifest by server-side apply. ``uid`` is that of the live child; None if none exists."""

    manifest: Manifest
    uid: str | None
    repair: bool = field(default=False, compare=False)
    """Whether this very manifest was applied before, and somebody else has changed the child since."""


@dataclass(frozen=True, slots=True)
class Foreign:
    """An object of that kind and name is not ours: nothing is sent. ``whose`` says what is known of its owner."""

    kind: str
    name: str
    whose: str


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete the object of that UID, and see it gone before anything that follows in its chain."""

    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class SetReplicas:
    """Apply a Deployment's ``spec.replicas``, and that alone, as the manager that hands it over to an autoscaler.

    ``count`` None takes back what that manager has applied.
    """

    name: str
    count: int | None


Action = Apply | Foreign | Delete | SetReplicas
Chain = tuple[Action, ...]
"""Actions in their order; where one fails, those behind it in the chain are left out."""


def child_key(manifest: Mapping[str, Any]) -> ChildKey:
    """Return the kind and name of a manifest."""
    return manifest["kind"], manifest["metadata"]["name"]


def repaired(chain: Chain) -> ChildKey | None:
    """Return the child that a chain does nothing but set right again; None if it does anything else."""
    match chain:
        case (Apply(manifest, _, True),):
            return child_key(manifest)
        case _:
            return None


def with_hash(manifest: Manifest) -> Manifest:
    """Return the manifest with the annotation that records what was applied."""
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()[:32]
    metadata = manifest["metadata"]
    annotations = {**metadata.get("annotations", {}), names.APPLIED_HASH: digest}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


def plan(
    desired: Sequence[Manifest], observed: Mapping[ChildKey, Observed], owner_uid: str, initial_replicas: int
) -> list[Chain]:
    """Return what to write, in the order of ``desired``; nothing where the live child already is as wanted.

    Args:
        desired: every child's manifest.
        observed: the live children by kind and name; each desired child that exists must be among them.
        owner_uid: UID of the GPTService.
        initial_replicas: the count that a Deployment begins with whose replicas an autoscaler will own.
    """
    manifests = {child_key(manifest): with_hash(_count_held(manifest, observed)) for manifest in desired}
    scaled = _named(manifests, kinds.DEPLOYMENT)
    scaler = _named(manifests, kinds.HPA)
    ahead = _named(manifests, kinds.CONTROLLER_REVISION) if scaled is not None else None
    if ahead is not None and _keeps(ahead, observed, owner_uid):
        ahead = None
    chains: list[Chain] = []
    for key, manifest in manifests.items():
        if manifest is scaled:
            kept_first = _one(ahead, observed.get(child_key(ahead)), owner_uid) if ahead is not None else ()
            chains.append((*kept_first, *_scaled(manifest, scaler, observed, owner_uid, initial_replicas)))
        elif manifest is not scaler and manifest is not ahead:
            chains.append(_one(manifest, observed.get(key), owner_uid))
    chains += _no_longer_wanted(manifests, observed, owner_uid)
    return [chain for chain in chains if chain]


def _count_held(manifest: Manifest, observed: Mapping[ChildKey, Observed]) -> Manifest:
    """Return a Deployment's manifest with the live count while it must not change.

    With ``Recreate`` and pods of two revisions, Kubernetes neither scales nor goes on with the rollout once the count
    is another one. The rollout's end is an event, and the pass that it wakes applies the wanted count.
    """
    live = observed.get(child_key(manifest))
    spec = manifest.get("spec", {})
    if manifest["kind"] != kinds.DEPLOYMENT.name or live is None or "replicas" not in spec:
        return manifest
    status, count = section(live.body, "status"), section(live.body, "spec").get("replicas", 1)
    two_revisions = status.get("updatedReplicas", 0) != status.get("replicas", 0)
    if spec["strategy"]["type"] != "Recreate" or not two_revisions or count == 0:
        return manifest
    return {**manifest, "spec": {**spec, "replicas": count}}


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
    """Whether what a revision is to keep is kept already, so that the Deployment need not wait for the write of it."""
    live = observed.get(child_key(revision))
    return live is not None and live.controller_uid == owner_uid and live.body.get("data") == revision["data"]


def _named(manifests: Mapping[ChildKey, Manifest], kind: kinds.Kind) -> Manifest | None:
    return next((manifest for key, manifest in manifests.items() if key[0] == kind.name), None)


def _one(manifest: Manifest, live: Observed | None, owner_uid: str) -> Chain:
    if live is None:
        return (Apply(manifest, None),)
    if live.controller_uid != owner_uid:
        return (_foreign(manifest, live),)
    return () if _is_as_wanted(manifest, live.body) else (_apply(manifest, live),)


def _apply(manifest: Manifest, live: Observed) -> Apply:
    return Apply(manifest, live.uid, repair=_recorded(live.body) == _recorded(manifest))


def _foreign(manifest: Manifest, live: Observed) -> Foreign:
    metadata = live.body["metadata"]
    labels = section(metadata, "labels")
    wanted: dict[str, str] = manifest["metadata"]["labels"]
    nobody: dict[str, Any] = {}
    owner = next((one for one in entries(metadata, "ownerReferences") if one.get("controller")), nobody)
    if "deletionTimestamp" in metadata:
        held = ", ".join(metadata.get("finalizers", [])) or "none"
        whose = f"is being deleted (finalizers: {held}); the service goes on once it is gone"
    elif owner.get("kind") == kinds.GPT_SERVICE.name and owner.get("name") == _service_name(manifest):
        whose = "belongs to an earlier GPTService, and is deleted with it by Kubernetes"
    elif owner:
        whose = f"belongs to {owner.get('kind')} {owner.get('name')}"
    elif wanted.items() <= labels.items():
        whose = "has our labels and no owner: it was disowned, or left over from a GPTService deleted without children"
    else:
        whose = "belongs to somebody else"
    return Foreign(*child_key(manifest), whose)


def _scaled(
    deployment: Manifest,
    scaler: Manifest | None,
    observed: Mapping[ChildKey, Observed],
    owner_uid: str,
    initial: int,
) -> Chain:
    """Return the steps for the Deployment and its autoscaler: at any time, ``spec.replicas`` has one writer."""
    live = observed.get(child_key(deployment))
    if live is not None and live.controller_uid != owner_uid:
        return (_foreign(deployment, live),)
    if scaler is None:
        hpa_key = (kinds.HPA.name, names.hpa(_service_name(deployment)))
        return tuple(_taken_back(deployment, live, observed.get(hpa_key), owner_uid))
    hpa = observed.get(child_key(scaler))
    return (*_handed_over(deployment, live, hpa, owner_uid, initial), *_one(scaler, hpa, owner_uid))


def _taken_back(deployment: Manifest, live: Observed | None, hpa: Observed | None, owner_uid: str) -> Iterator[Action]:
    """Without an autoscaler: it has to be gone before the count is applied, or it would undo it."""
    if hpa is not None and hpa.controller_uid == owner_uid:
        yield Delete(kinds.HPA.name, names.hpa(_service_name(deployment)), hpa.uid)
    yield from _one(deployment, live, owner_uid)
    if live is not None and names.REPLICAS_MANAGER in live.replicas_managers:
        yield SetReplicas(live.body["metadata"]["name"], None)


def _handed_over(
    deployment: Manifest, live: Observed | None, hpa: Observed | None, owner_uid: str, initial: int
) -> Iterator[Action]:
    """With an autoscaler: another manager holds the count before ours lets go of it, or it would drop to 1.

    An autoscaler leaves a count of 0 alone for ever, so that a live 0 is raised here.
    """
    name = deployment["metadata"]["name"]
    if live is None:
        yield Apply(deployment, None)
        # The API server says 1 where nobody says anything.
        if initial != 1:
            yield SetReplicas(name, initial)
        return
    count = section(live.body, "spec").get("replicas", 1)
    ours = names.MANAGER in live.replicas_managers
    # A process died before it set the count; who scales a count that nobody owns does not come to own it.
    never_set = count == 1 and not live.replicas_managers and hpa is None
    wanted = initial if count == 0 or never_set else count
    if ours or wanted != count:
        yield SetReplicas(name, wanted)
    if ours or not _is_as_wanted(deployment, live.body):
        yield _apply(deployment, live)


def _service_name(manifest: Manifest) -> str:
    return str(manifest["metadata"]["labels"][names.SERVICE_LABEL])


def _no_longer_wanted(
    manifests: Mapping[ChildKey, Manifest], observed: Mapping[ChildKey, Observed], owner_uid: str
) -> Iterator[Chain]:
    """Yield the deletions of what the spec asks for no more.

    The autoscaler is dealt with beside its Deployment. What pods refer to by name stays while a rollout is under way:
    those of the older revision may have to start again.
    """
    deletable = {kind.name for kind in kinds.PRUNED} - {kinds.HPA.name}
    if not _is_rolled_out(manifests, observed):
        deletable -= {kind.name for kind in kinds.USED_BY_PODS}
    for key, live in sorted(observed.items()):
        if key[0] in deletable and key not in manifests and live.controller_uid == owner_uid:
            yield (Delete(*key, live.uid),)


def _is_rolled_out(manifests: Mapping[ChildKey, Manifest], observed: Mapping[ChildKey, Observed]) -> bool:
    """Whether the Deployment runs what is wanted, and nothing else; the pass that changes it begins a rollout."""
    wanted = _named(manifests, kinds.DEPLOYMENT)
    if wanted is None:
        return False  # it could not be looked at
    live = observed.get(child_key(wanted))
    if live is None:
        return True
    status = section(live.body, "status")
    return (
        revisions.key_of_template(section(live.body, "spec", "template"))
        == revisions.key_of_template(section(wanted, "spec", "template"))
        and status.get("observedGeneration", 0) >= live.body["metadata"].get("generation", 0)
        and status.get("updatedReplicas", 0) == status.get("replicas", 0)
    )


def _is_as_wanted(manifest: Manifest, live: Mapping[str, Any]) -> bool:
    """Whether an apply would change nothing: the same manifest was applied last, and all of it is still there.

    The hash finds what has left the manifest since; containment finds what others have changed.
    """
    return _recorded(live) == _recorded(manifest) and contained.contains(live, manifest)


def was_applied(manifest: Manifest, live: Mapping[str, Any]) -> bool:
    """Return whether exactly this manifest was applied last to a live object, whatever others did to it since."""
    return _recorded(live) == _recorded(with_hash(manifest))


def _recorded(body: Mapping[str, Any]) -> str | None:
    return section(body, "metadata", "annotations").get(names.APPLIED_HASH)
