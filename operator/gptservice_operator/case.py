"""The facts that a revision's fate is decided on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from . import pod_state, revisions
from .api.body import Body, entries, section
from .cause import Complaint
from .extract import Entry
from .render.resolved import ResolvedRollout
from .revisions import Kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What a revision's fate is decided on."""

    service: Body
    current: Kept
    """The revision of the spec, kept or about to be."""
    known: Mapping[str, Kept]
    stable: Kept | None
    """The last one that proved stable; it may be the current one."""
    deployment: Body | None
    """The live one, if it is the service's."""
    pods: Sequence[Body]
    rollout: ResolvedRollout
    replicas: int
    """How many are asked for; 0 for a stopped service."""
    startup_timeout: int
    """Seconds within which a pod is to serve."""
    complaints: Mapping[str, Complaint] = field(default_factory=dict[str, Complaint])
    """What Events said lately of pods that do not start, by pod UID."""
    waiting: Sequence[Sequence[Entry]] = ()
    """The pods of each other service of which one has no node."""

    @property
    def running(self) -> str | None:
        """The key that the Deployment's template carries."""
        return revisions.key_of_template(section(self.deployment or {}, "spec", "template"))

    @property
    def wanted(self) -> int:
        """How many pods the Deployment is to have at present."""
        count = section(self.deployment or {}, "spec").get("replicas")
        return count if isinstance(count, int) else self.replicas

    @property
    def placed(self) -> int:
        """How many pods have a node."""
        return sum(map(pod_state.has_node, self.present()))

    @property
    def containers(self) -> frozenset[str]:
        """The names of the containers that the current revision has; any others in its pods are somebody else's."""
        spec = section(self.current.data, "template", "spec")
        listed = entries(spec, "initContainers") + entries(spec, "containers")
        return frozenset(str(container.get("name")) for container in listed)

    @property
    def way_back(self) -> Kept | None:
        """What the current revision can be rolled back to."""
        stable = self.stable
        return stable if stable is not None and stable.key != self.current.key else None

    def present(self) -> list[Body]:
        """Return the pods of the Deployment that stay; those that the kubelet has given up do nothing any more."""
        return [pod for pod in pod_state.of_deployment(self.pods, self.deployment) if not pod_state.has_failed(pod)]

    def of_revision(self, key: str | None) -> list[Body]:
        """Return those of one revision."""
        return [pod for pod in self.present() if revisions.key_of_template(pod) == key]

    def newest(self) -> list[Body]:
        """Return those of the Deployment's template as it is now."""
        return pod_state.of_newest_replica_set(self.of_revision(self.running), self.deployment)

    def older(self) -> list[Body]:
        """Return those of any other template: another revision's, or this one's of before a restart."""
        newest = [pod["metadata"]["name"] for pod in self.newest()]
        return [pod for pod in self.present() if pod["metadata"]["name"] not in newest]

    def given_up(self, key: str) -> list[Body]:
        """Return the pods of one revision that the kubelet has refused or evicted, the oldest first."""
        made = pod_state.of_deployment(self.pods, self.deployment)
        return [pod for pod in made if pod_state.has_failed(pod) and revisions.key_of_template(pod) == key]
