"""What a GPTService comes to once catalogue and configuration have been consulted: the input of rendering."""

from dataclasses import dataclass
from typing import Any, Literal

from gptservice_operator import names
from gptservice_operator.api.access import SecretKeyRef, SecretRef
from gptservice_operator.api.autoscaling import Autoscaling
from gptservice_operator.api.conditions import Reason
from gptservice_operator.api.engine import EnvVar
from gptservice_operator.api.quantity import quantity
from gptservice_operator.api.scheduling import Scheduling


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a service cannot be rendered as it is; what runs is left alone."""

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """Through what models are downloaded; an empty URL is none for that scheme."""

    http: str
    https: str
    exceptions: tuple[str, ...]
    """Hosts, and ends of names, that are reached without it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    """How the pods reach a model that they download."""

    hub_endpoint: str = ""
    """Of an ``hf://`` model; empty is Hugging Face's own."""
    hub_token: SecretKeyRef | None = None
    """Of an ``hf://`` model."""
    credentials: SecretRef | None = None
    """Of any other; without them the pods' own identity has to do."""
    proxy: Proxy | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """Where a model is. ``claim`` is the PersistentVolumeClaim of a ``pvc://`` uri; ``path`` is absolute in the pod."""

    uri: str
    path: str
    claim: str | None = None
    digest: str | None = None
    """Demanded of its files."""
    download: Download | None = None
    """None for a model that is mounted, or in the image."""


@dataclass(frozen=True, slots=True)
class Decryption:
    """Encrypted weights: the key's Secret, and how much memory there is for what is decrypted."""

    key: SecretKeyRef
    volume_bytes: int


@dataclass(frozen=True, slots=True)
class ResolvedGpu:
    """GPUs of one replica; ``count`` 0 means CPU."""

    count: int
    resource_name: str
    product: str | None


@dataclass(frozen=True, slots=True)
class ResolvedRollout:
    """How a change reaches the pods; the bounds are numbers or percentages and count for RollingUpdate only."""

    strategy: Literal["RollingUpdate", "Recreate"]
    max_surge: int | str
    max_unavailable: int | str
    is_chosen: bool = True
    """Whether the user, or the cache, has chosen it; else it may be switched where there is no spare GPU."""
    surge_wait_seconds: int = 60
    auto_rollback: bool = True
    ready_latency_milliseconds: int | None = None
    """Within which a new pod must answer a small request before it takes traffic; None for any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodDetails:
    """What the user adds to every pod; reserved keys are left out already."""

    labels: dict[str, str]
    annotations: dict[str, str]
    service_account_name: str
    image_pull_secrets: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheClaim:
    """A PersistentVolumeClaim of ours for the cache. ``size`` is never below that of the live one."""

    size: str
    storage_class_name: str | None
    access_modes: tuple[str, ...]
    """In alphabetical order: the API server takes another order for a change, which it refuses."""


@dataclass(frozen=True, slots=True)
class Issuer:
    """The cert-manager issuer of the service's certificate."""

    name: str
    kind: str
    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Companions:
    """What is there beside the pods, the Service and the limits; what is not wanted is None or False."""

    makes_service_account: bool
    has_disruption_budget: bool
    scrapers: tuple[str, ...] | None
    """Namespaces that may reach the pods' metrics; None means that there is no NetworkPolicy at all."""
    cache_claim_name: str | None
    """The claim at the cache's path, ours or the user's; None means a volume of the node's disk."""
    cache_claim: CacheClaim | None
    issuer: Issuer | None
    """Who issues a certificate; None also where the cluster has no cert-manager."""
    certificate_secret: str
    """The Secret into which one is issued."""
    has_pod_monitor: bool
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Exposure:
    """The Kubernetes Service; reserved annotations are left out already."""

    type: Literal["ClusterIP", "NodePort", "LoadBalancer"]
    port: int
    annotations: dict[str, str]


@dataclass(frozen=True, slots=True)
class Origin:
    """What a revision of the pods is known by, and what it is made from."""

    key: str
    """Tells it from the service's other revisions."""
    patch: list[dict[str, Any]]
    """JSON patch that brings its spec back."""
    model: dict[str, Any] | None
    """Name and spec of the catalogue entry; None if the service names none."""
    rerender: str | None
    """Value of the annotation that asked for it."""


@dataclass(frozen=True, slots=True)
class ApiKeys:
    """The Secret in the service's namespace whose keys clients must show; whether it is we who make it."""

    secret: str
    generated: bool


@dataclass(frozen=True, slots=True)
class ServingTls:
    """The Secrets in the service's namespace with what TLS needs."""

    secret: str
    client_ca: SecretKeyRef | None
    """None if clients need no certificate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """One service, every field decided."""

    namespace: str
    name: str
    uid: str
    origin: Origin
    source: Source
    decryption: Decryption | None
    """None unless the weights have to be encrypted."""
    served_model_names: tuple[str, ...]
    replicas: int
    """As asked for; under autoscaling the count before it acts."""
    autoscaling: Autoscaling | None
    """None also for a stopped service: an autoscaler cannot hold 0."""
    guaranteed_replicas: int
    """The count below which nothing but a fault takes the service."""
    rollout: ResolvedRollout
    max_tokens: int | None
    context_length: int | None
    max_inflight_requests: int | None
    otlp_endpoint: str | None
    """Where the engine sends traces; None for nowhere."""
    gpu: ResolvedGpu
    tensor_parallel_size: int
    requests: dict[str, str]
    limits: dict[str, str]
    image: str
    image_pull_policy: str
    engine_args: tuple[str, ...]
    env: tuple[EnvVar, ...]
    scheduling: Scheduling
    pod: PodDetails
    exposure: Exposure
    api_keys: ApiKeys | None
    """None if nobody is asked for a key."""
    tls: ServingTls | None
    """None for plain HTTP."""
    companions: Companions
    ca_bundle: str
    """Authorities in PEM that downloads trust beside the system's; empty for none."""
    cache_size: str
    """Of a cache on the node's disk."""
    startup_timeout_seconds: int
    drain_timeout_seconds: int
    fs_group: int | None
    warnings: tuple[str, ...]
    """What the user asked for and does not get, or gets in another way."""

    @property
    def scheme(self) -> Literal["http", "https"]:
        """What the serving port speaks."""
        return "http" if self.tls is None else "https"

    @property
    def initial_replicas(self) -> int:
        """The count that a Deployment begins with: as asked for, within the autoscaler's bounds."""
        if self.autoscaling is None:
            return self.replicas
        return min(max(self.replicas, self.autoscaling.least_replicas), self.autoscaling.max_replicas)

    @property
    def cache_bytes(self) -> int:
        """``cache_size`` as a number."""
        return int(quantity(self.cache_size) or 0)

    @property
    def memory_bytes(self) -> int:
        """The pods' limit of memory as a number."""
        return int(quantity(self.limits.get("memory", "")) or 0)

    @property
    def endpoint(self) -> str:
        """The URL of the OpenAI API inside the cluster."""
        return f"{self.scheme}://{names.k8s_service(self.name)}.{self.namespace}.svc:{self.exposure.port}"

    def metadata(self, name: str) -> dict[str, Any]:
        """Return the metadata of a child called ``name``."""
        return {
            "name": name,
            "namespace": self.namespace,
            "labels": names.labels(self.name),
            "ownerReferences": [names.owner_reference(self.name, self.uid)],
        }
