"""Who writes a Deployment's ``spec.replicas``: the hand-overs between the operator and an autoscaler."""

from collections.abc import Iterator, Mapping

from . import child, names
from .actions import Action, Apply, Chain, ChildKey, Delete, Manifest, SetReplicas, child_key
from .api import kinds
from .api.body import section
from .store import Observed


def stop(name: str, live: Observed) -> Chain:
    """Return how a Deployment is stopped ahead of everything else that a pass does: nothing may keep GPUs busy.

    Neither a spec that is refused nor another child that cannot be written holds it up. An autoscaler leaves a count of
    0 alone, so that it may go later.
    """
    return (SetReplicas(name, 0),) if _count(live) != 0 else ()


def scaled(
    deployment: Manifest,
    scaler: Manifest | None,
    observed: Mapping[ChildKey, Observed],
    owner_uid: str,
    initial: int,
) -> Chain:
    """Return the steps for the Deployment and its autoscaler: at any time, ``spec.replicas`` has one writer.

    Args:
        deployment: its manifest, with its hash.
        scaler: the autoscaler's; None if none is wanted.
        observed: the live children.
        owner_uid: UID of the GPTService.
        initial: the count that a Deployment begins with whose replicas an autoscaler will own.
    """
    live = observed.get(child_key(deployment))
    if live is not None and live.controller_uid != owner_uid:
        return (child.foreign(deployment, live),)
    if scaler is None:
        hpa_key = (kinds.HPA.name, names.hpa(child.service_name(deployment)))
        return tuple(_taken_back(deployment, live, observed.get(hpa_key), owner_uid))
    hpa = observed.get(child_key(scaler))
    return (*_handed_over(deployment, live, hpa, owner_uid, initial), *child.chain(scaler, hpa, owner_uid))


def _taken_back(deployment: Manifest, live: Observed | None, hpa: Observed | None, owner_uid: str) -> Iterator[Action]:
    """Without an autoscaler: it has to be gone before the count is applied, or it would undo it."""
    if hpa is not None and hpa.controller_uid == owner_uid:
        yield Delete(kinds.HPA.name, names.hpa(child.service_name(deployment)), hpa.uid)
    yield from child.chain(deployment, live, owner_uid)
    if live is None:
        return
    name = deployment["metadata"]["name"]
    if names.REPLICAS_MANAGER in live.replicas_managers or (deployment["spec"]["replicas"] == 0 and stop(name, live)):
        yield SetReplicas(name, None)


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
    count = _count(live)
    ours = names.MANAGER in live.replicas_managers
    # A process died before it set the count; who scales a count that nobody owns does not come to own it.
    never_set = count == 1 and not live.replicas_managers and hpa is None
    wanted = initial if count == 0 or never_set else count
    if ours or wanted != count:
        yield SetReplicas(name, wanted)
    if ours or not child.is_as_wanted(deployment, live.body):
        yield child.apply(deployment, live)


def held(manifest: Manifest, live: Observed | None) -> Manifest:
    """Return a Deployment's manifest with the live count while it must not change; any other manifest as it is.

    With ``Recreate`` and pods of two revisions, Kubernetes neither scales nor goes on with the rollout once the count
    is another one. The rollout's end is an event, and the pass that it wakes applies the wanted count.
    """
    spec = manifest.get("spec", {})
    if manifest["kind"] != kinds.DEPLOYMENT.name or live is None or "replicas" not in spec:
        return manifest
    count = _count(live)
    if spec["strategy"]["type"] != "Recreate" or count == 0 or is_of_one_revision(live):
        return manifest
    return {**manifest, "spec": {**spec, "replicas": count}}


def is_of_one_revision(live: Observed) -> bool:
    """Return whether all pods are of the newest revision; numbers of an earlier generation say nothing about that."""
    status = section(live.body, "status")
    is_current = status.get("observedGeneration", 0) >= live.body["metadata"].get("generation", 0)
    return bool(is_current and status.get("updatedReplicas", 0) == status.get("replicas", 0))


def _count(live: Observed) -> int:
    return int(section(live.body, "spec").get("replicas", 1))
