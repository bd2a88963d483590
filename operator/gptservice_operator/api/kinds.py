"""The kinds of object that the operator reads or writes, and their REST paths."""

from dataclasses import dataclass

GROUP = "ai.example.com"
VERSION = "v1"
API_VERSION = f"{GROUP}/{VERSION}"


@dataclass(frozen=True, slots=True)
class Kind:
    """One resource type. ``api_version`` is ``v1`` or ``group/version``; ``plural`` is the REST name."""

    api_version: str
    name: str
    plural: str
    namespaced: bool = True

    @property
    def version_path(self) -> str:
        """Return the REST path of the group and version, where the API server tells what it has of them."""
        return f"/{'apis' if '/' in self.api_version else 'api'}/{self.api_version}"

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """Return the REST path of the collection, of one object, or of a subresource of it."""
        parts = [self.version_path]
        if self.namespaced and namespace is not None:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        parts += [part for part in (name, subresource) if part is not None]
        return "/".join(parts)


GPT_SERVICE = Kind(API_VERSION, "GPTService", "gptservices")
GPT_MODEL = Kind(API_VERSION, "GPTModel", "gptmodels", namespaced=False)
DEPLOYMENT = Kind("apps/v1", "Deployment", "deployments")
SERVICE = Kind("v1", "Service", "services")
CONFIG_MAP = Kind("v1", "ConfigMap", "configmaps")
CONTROLLER_REVISION = Kind("apps/v1", "ControllerRevision", "controllerrevisions")
HPA = Kind("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers")
SERVICE_ACCOUNT = Kind("v1", "ServiceAccount", "serviceaccounts")
PERSISTENT_VOLUME_CLAIM = Kind("v1", "PersistentVolumeClaim", "persistentvolumeclaims")
POD_DISRUPTION_BUDGET = Kind("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets")
NETWORK_POLICY = Kind("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies")
CERTIFICATE = Kind("cert-manager.io/v1", "Certificate", "certificates")
POD_MONITOR = Kind("monitoring.coreos.com/v1", "PodMonitor", "podmonitors")
POD = Kind("v1", "Pod", "pods")
SECRET = Kind("v1", "Secret", "secrets")
"""Only ever created."""
EVENT = Kind("v1", "Event", "events")
"""Listed for single pods, never watched."""

LEASE = Kind("coordination.k8s.io/v1", "Lease", "leases")
"""By which replicas of the operator agree on who writes."""

OWN: tuple[Kind, ...] = (GPT_SERVICE, GPT_MODEL)
"""Watched in full."""

CHILDREN: tuple[Kind, ...] = (
    SERVICE_ACCOUNT,
    PERSISTENT_VOLUME_CLAIM,
    CONFIG_MAP,
    CERTIFICATE,
    CONTROLLER_REVISION,
    DEPLOYMENT,
    SERVICE,
    HPA,
    POD_DISRUPTION_BUDGET,
    NETWORK_POLICY,
    POD_MONITOR,
)
"""Written by us; watched by our label. The order is the order in which a pass writes them."""

PRUNED: tuple[Kind, ...] = (SERVICE_ACCOUNT, CERTIFICATE, HPA, POD_DISRUPTION_BUDGET, NETWORK_POLICY, POD_MONITOR)
"""Children that are deleted once the spec asks for them no more; the others are there as long as their service."""

USED_BY_PODS: tuple[Kind, ...] = (SERVICE_ACCOUNT, CERTIFICATE)
"""Children that pods refer to by name: they are not deleted while a rollout is under way."""

OPTIONAL: tuple[Kind, ...] = (CERTIFICATE, POD_MONITOR)
"""Children of kinds that come with other operators: a cluster may lack them, and get or lose them at any time."""

WATCHED: tuple[Kind, ...] = (*OWN, *CHILDREN, POD)
BY_NAME: dict[str, Kind] = {kind.name: kind for kind in WATCHED}
