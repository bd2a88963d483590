"""How many pods there are, as the Deployment counts them, and whether that is what is asked for."""

from dataclasses import dataclass

from . import revisions
from .api.body import Body, section
from .render.resolved import Refusal, Resolved


@dataclass(frozen=True, slots=True)
class Counts:
    """The pods of a service. Those that are over or leave are in no number."""

    desired: int
    """As many as are asked for: by the spec, or by the autoscaler."""
    needed: int
    """As many as have to answer."""
    scaled: bool
    """Whether an autoscaler says how many: it may have asked for further ones that are starting."""
    replicas: int
    updated: int
    ready: int
    available: int
    current: bool
    """Whether the numbers speak of the Deployment as it was last applied."""

    @property
    def complete(self) -> bool:
        """Whether every pod is of the newest revision and answers, and no other is left."""
        return (
            self.current
            and (self.scaled or self.updated == self.desired)
            and self.replicas == self.updated
            and self.ready >= self.needed
        )


def count(service: Body, resolved: Resolved | Refusal, deployment: Body | None) -> Counts:
    """Return the numbers of a service.

    Args:
        service: the service.
        resolved: what its spec comes to.
        deployment: the live Deployment, if it is ours.
    """
    desired = section(service, "spec").get("replicas", 1)
    wanted = needed = desired if isinstance(desired, int) else 0
    scaled = isinstance(resolved, Resolved) and resolved.autoscaling is not None
    if isinstance(resolved, Resolved) and scaled:
        wanted, needed = resolved.initial_replicas, resolved.guaranteed_replicas
    if deployment is None:
        return Counts(wanted, needed, scaled, 0, 0, 0, 0, current=wanted == 0)
    live = section(deployment, "status")
    return Counts(
        desired=section(deployment, "spec").get("replicas", 1) if scaled else wanted,
        needed=needed,
        scaled=scaled,
        replicas=live.get("replicas", 0),
        updated=live.get("updatedReplicas", 0) if _is_of_revision(deployment, resolved) else 0,
        ready=live.get("readyReplicas", 0),
        available=live.get("availableReplicas", 0),
        current=not is_behind(deployment),
    )


def _is_of_revision(deployment: Body, resolved: Resolved | Refusal) -> bool:
    """Return whether a Deployment runs what the spec comes to: its own newest may be older, if writing it was refused.

    Of a spec that is refused no revision is known.
    """
    if isinstance(resolved, Refusal):
        return True
    return revisions.key_of_template(section(deployment, "spec", "template")) == resolved.origin.key


def is_behind(deployment: Body) -> bool:
    """Return whether the numbers in a Deployment's status still speak of what it was before its last change."""
    seen = section(deployment, "status").get("observedGeneration", 0)
    return bool(seen < deployment["metadata"].get("generation", 0))


def is_told_already(service: Body, deployment: Body) -> bool:
    """Return whether a status was written for this spec, and the Deployment's numbers are about to change.

    An autoscaler's step would otherwise show for a moment as a service that is not Ready.
    """
    told = section(service, "status").get("observedGeneration") == service["metadata"].get("generation")
    return bool(told and is_behind(deployment))
