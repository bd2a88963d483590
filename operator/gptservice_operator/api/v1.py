"""The objects of ``ai.example.com/v1``: GPTService and GPTModel.

The docstrings are the descriptions in the CRDs: ``kubectl explain`` and this file are one text.
"""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, model_validator

from .access import Auth, SecretKeyRef, SecretRef, Tls
from .autoscaling import Autoscaling
from .base import SET, ApiModel, Int32, LabelValue, Name, cel, list_map, rules
from .cache import Cache
from .engine import Engine, Gpu, ModelEngine, Resources
from .exposure import Annotations, DisruptionBudget, Monitoring, NetworkPolicy, ServiceSpec, Tracing
from .rollout import Rollout
from .scheduling import Scheduling
from .status import GPTServiceStatus

ModelUri = Annotated[
    str,
    Field(
        min_length=1,
        max_length=1024,
        pattern=r"^[^\s]+$",
        json_schema_extra=rules(cel("!self.contains('..')", "a path must not contain '..'")),
    ),
]
ServedName = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[^\s,]+$")]
ServedNames = Annotated[list[ServedName], Field(min_length=1, max_length=16, json_schema_extra=SET)]
Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$", max_length=71)]
ContextLength = Annotated[int, Field(ge=1, le=16777216)]
_ONE_POD = (
    "has(self.cache) && has(self.cache.size) && "
    "(!has(self.cache.accessModes) || !self.cache.accessModes.exists(m, m == 'ReadWriteMany'))"
)
_ONE_POD_REPLICAS = (
    "a cache without access mode ReadWriteMany can be used by one replica only: set replicas (and maxReplicas) to 1, "
    "or cache.accessModes to [ReadWriteMany]"
)
_ONE_POD_SURGE = (
    "rollout.maxSurge needs a cache that two pods can use at a time: set cache.accessModes to [ReadWriteMany]"
)
_RECREATE = "rollout.maxSurge and rollout.maxUnavailable cannot be combined with upgradeStrategy Recreate"
_ONE_MODEL = "exactly one of model and modelRef must be set"


def _no_parent_path(uri: str | None) -> None:
    if uri is not None and ".." in uri:
        raise ValueError("a path must not contain '..'")


def _no_duplicates(names: list[str] | None) -> None:
    if names is not None and len(set(names)) != len(names):
        raise ValueError("servedModelNames must not contain a name twice")


def _rollout_fits(strategy: str | None, rollout: Rollout | None) -> None:
    bounded = rollout is not None and (rollout.max_surge is not None or rollout.max_unavailable is not None)
    if strategy == "Recreate" and bounded:
        raise ValueError(_RECREATE)


class GPTServiceSpec(ApiModel):
    """What is wanted: a model, how many replicas, and how they run."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            cel("has(self.model) != has(self.modelRef)", _ONE_MODEL),
            cel(
                "!(has(self.upgradeStrategy) && self.upgradeStrategy == 'Recreate' && has(self.rollout)) || "
                "!(has(self.rollout.maxSurge) || has(self.rollout.maxUnavailable))",
                _RECREATE,
            ),
            cel(
                f"!({_ONE_POD}) || self.replicas <= 1 && (!has(self.autoscaling) || self.autoscaling.maxReplicas <= 1)",
                _ONE_POD_REPLICAS,
            ),
            cel(f"!({_ONE_POD}) || !has(self.rollout) || !has(self.rollout.maxSurge)", _ONE_POD_SURGE),
        )
    )

    model: ModelUri | None = None
    """The model: a name of the catalogue (GPTModel), or a uri: pvc://claim/path, file:///path in the image."""
    model_ref: Name | None = None
    """Name of a GPTModel of the catalogue."""
    served_model_names: ServedNames | None = None
    """What clients put into "model"; the model as written and the object's name if absent."""
    model_digest: Digest | None = None
    """Digest that the model's files must have, as sha256:… ."""
    replicas: Int32 = 1
    """Number of pods; 0 stops the service and frees its GPUs. With autoscaling, the count before it acts."""
    autoscaling: Autoscaling | None = None
    """Have the number of replicas follow the load."""
    max_tokens: Annotated[int, Field(ge=1, le=16777216)] | None = None
    """Most tokens that one request may generate."""
    context_length: ContextLength | None = None
    """Most tokens of prompt and answer together; the model's own limit if absent."""
    max_inflight_requests: Annotated[int, Field(ge=1, le=1000000)] | None = None
    """Most requests that one replica works on at a time; further ones are answered 429. Changed without a restart."""
    upgrade_strategy: Literal["RollingUpdate", "Recreate"] | None = None
    """How a change is rolled out: RollingUpdate loses no request and needs room for one more pod; Recreate does not."""
    rollout: Rollout | None = None
    """Details of how a change is rolled out."""
    gpu: Gpu | None = None
    """GPUs of one replica."""
    resources: Resources | None = None
    """CPU, memory and local disk of one replica."""
    engine: Engine | None = None
    """The inference engine."""
    auth: Auth | None = None
    """What a client must show; a generated key if absent."""
    hugging_face_token_secret_ref: SecretKeyRef | None = None
    """Secret with the token for the Hugging Face hub."""
    model_credentials_secret_ref: SecretRef | None = None
    """Secret with the credentials for the model's object store or registry."""
    decryption_key_secret_ref: SecretKeyRef | None = None
    """Secret with the key that unwraps the key of encrypted weights."""
    tls: Tls | None = None
    """TLS on the serving port."""
    cache: Cache | None = None
    """Where downloaded weights are kept."""
    service: ServiceSpec | None = None
    """The Kubernetes Service in front of the pods."""
    scheduling: Scheduling | None = None
    """Where pods may run."""
    pod_labels: Annotated[dict[str, LabelValue], Field(max_length=32)] | None = None
    """Further labels of the pods; they never replace the operator's own."""
    pod_annotations: Annotations | None = None
    """Further annotations of the pods; they never replace the operator's own."""
    service_account_name: Name | None = None
    """ServiceAccount of the pods; its token is not mounted."""
    image_pull_secrets: Annotated[list[SecretRef], Field(max_length=8, json_schema_extra=list_map("name"))] | None = (
        None
    )
    """Secrets with which the runtime image is pulled."""
    startup_timeout_seconds: Annotated[int, Field(ge=10, le=86400)] = 1800
    """Longest time in seconds from a pod's start until the model answers."""
    drain_timeout_seconds: Annotated[int, Field(ge=0, le=3600)] = 60
    """Longest time in seconds that a stopping pod goes on with requests it has begun."""

    priority: Literal["Low", "Normal", "High"] | None = None
    """How important the service is; also the pods' annotation inference.ai/priority."""
    disruption_budget: DisruptionBudget | None = None
    """PodDisruptionBudget of the pods."""
    network_policy: NetworkPolicy | None = None
    """NetworkPolicy of the pods."""
    monitoring: Monitoring | None = None
    """Who may scrape the pods."""
    tracing: Tracing | None = None
    """Traces of requests."""

    @model_validator(mode="after")
    def _cross_field_rules(self) -> "GPTServiceSpec":
        if (self.model is None) == (self.model_ref is None):
            raise ValueError(_ONE_MODEL)
        _rollout_fits(self.upgrade_strategy, self.rollout)
        if self.cache is not None and self.cache.one_pod_at_a_time:
            if max(self.replicas, self.autoscaling.max_replicas if self.autoscaling is not None else 1) > 1:
                raise ValueError(_ONE_POD_REPLICAS)
            if self.rollout is not None and self.rollout.max_surge is not None:
                raise ValueError(_ONE_POD_SURGE)
        _no_parent_path(self.model)
        _no_duplicates(self.served_model_names)
        return self


class GPTModelSpec(ApiModel):
    """A catalogue entry: where a model is and how it is best served."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            cel("self == oldSelf", "a GPTModel cannot be changed; make a new one and point modelRef to it")
        )
    )

    uri: ModelUri
    """Where the model is: pvc://claim/path in the service's namespace, or file:///path in the image."""
    served_model_names: ServedNames | None = None
    """What clients put into "model", unless the service says so itself."""
    digest: Digest | None = None
    """Digest that the model's files must have, as sha256:… ."""
    token_secret_ref: SecretKeyRef | None = None
    """Secret with the hub's token, in the namespace of the service that uses the model."""
    context_length: ContextLength | None = None
    """Most tokens of prompt and answer together."""
    gpu: Gpu | None = None
    """GPUs of one replica."""
    engine: ModelEngine | None = None
    """Engine defaults."""

    @model_validator(mode="after")
    def _cross_field_rules(self) -> "GPTModelSpec":
        _no_parent_path(self.uri)
        _no_duplicates(self.served_model_names)
        return self


class GPTService(ApiModel):
    """A language model served by vLLM behind the OpenAI API."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            cel(
                "size(self.metadata.name) <= 63",
                "metadata.name must be no more than 63 characters: it becomes a label of the pods",
            )
        )
    )

    metadata: dict[str, Any] = Field(default_factory=dict)
    """Standard object metadata."""
    spec: GPTServiceSpec
    """What is wanted."""
    status: GPTServiceStatus | None = None
    """What was observed."""


class GPTModel(ApiModel):
    """An entry of the catalogue of models that a platform team keeps."""

    metadata: dict[str, Any] = Field(default_factory=dict)
    """Standard object metadata."""
    spec: GPTModelSpec
    """Where the model is and how it is best served."""
