"""The objects of ``ai.example.com/v1``: GPTService and GPTModel.

The docstrings are the descriptions in the CRDs: ``kubectl explain`` and this file are one text.
"""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from .access import Auth, SecretKeyRef, SecretRef, Tls
from .autoscaling import Autoscaling
from .base import SET, ApiModel, Rule, list_map, ruled
from .cache import Cache
from .engine import Engine, Gpu, ModelEngine, Resources
from .exposure import DisruptionBudget, Monitoring, NetworkPolicy, ServiceSpec, Tracing
from .quantity import quantity
from .rollout import Rollout, is_zero
from .scheduling import Scheduling
from .status import GPTServiceStatus
from .uri import IN_A_STORE, STORES, ModelName, ModelUri, is_in_a_store
from .words import Int32, Labels, Name, PodAnnotations, Quantity

# Printable, no comma, and no '-' in front: it would be taken for a flag.
ServedName = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[!-+.-~][!-+\--~]*$")]
ServedNames = Annotated[list[ServedName], Field(min_length=1, max_length=16), *SET]
Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$", max_length=71)]
MAX_NAME = 63
ContextLength = Annotated[int, Field(ge=1, le=16777216)]

_ONE_POD = (
    "has(self.cache) && has(self.cache.size) && "
    "(!has(self.cache.accessModes) || !self.cache.accessModes.exists(m, m == 'ReadWriteMany'))"
)


def _none_unavailable(spec: str) -> str:
    bound = f"{spec}.rollout.maxUnavailable"
    return f"has({spec}.rollout) && has({bound}) && ({bound} == 0 || {bound} == '0%')"


def _one_pod_at_a_time(spec: Any) -> bool:
    return spec.cache is not None and spec.cache.one_pod_at_a_time


def _most_replicas(spec: Any) -> int:
    counts: list[int] = [spec.replicas, spec.autoscaling.max_replicas if spec.autoscaling is not None else 1]
    return max(counts)


def _bounded(spec: Any) -> bool:
    rollout = spec.rollout
    return rollout is not None and (rollout.max_surge is not None or rollout.max_unavailable is not None)


_STORED = ", ".join(f"{scheme}://" for scheme in STORES)
_TOKEN_IS_FOR_A_HUB = f"is for hf:// models: use modelCredentialsSecretRef for {_STORED}"
_CREDENTIALS_ARE_FOR_A_STORE = (
    f"modelCredentialsSecretRef is for {_STORED} models: remove it; a hub's token has a field of its own, and what is "
    "mounted needs nothing"
)


def _spares(field: str) -> str:
    return f"has(old.{field}) && has(old.model) && old.model == self.model"


_SPEC_RULES = (
    Rule(
        "has(self.model) != has(self.modelRef)",
        "exactly one of model and modelRef must be set",
        lambda spec: (spec.model is None) != (spec.model_ref is None),
    ),
    Rule(
        "!(has(self.upgradeStrategy) && self.upgradeStrategy == 'Recreate' && has(self.rollout)) || "
        "!(has(self.rollout.maxSurge) || has(self.rollout.maxUnavailable))",
        "rollout.maxSurge and rollout.maxUnavailable cannot be combined with upgradeStrategy Recreate",
        lambda spec: spec.upgrade_strategy != "Recreate" or not _bounded(spec),
    ),
    Rule(
        f"!({_ONE_POD}) || self.replicas <= 1 && (!has(self.autoscaling) || self.autoscaling.maxReplicas <= 1)",
        "a cache without access mode ReadWriteMany can be used by one replica only: set replicas (and maxReplicas) "
        "to 1, or cache.accessModes to [ReadWriteMany]",
        lambda spec: not _one_pod_at_a_time(spec) or _most_replicas(spec) <= 1,
    ),
    Rule(
        f"!({_ONE_POD}) || !has(self.rollout) || !has(self.rollout.maxSurge)",
        "rollout.maxSurge needs a cache that two pods can use at a time: set cache.accessModes to [ReadWriteMany]",
        lambda spec: not _one_pod_at_a_time(spec) or spec.rollout is None or spec.rollout.max_surge is None,
    ),
    Rule(
        f"!({_ONE_POD} && {_none_unavailable('self')})",
        "rollout.maxUnavailable 0 starts the new pod beside the old one, which needs a cache that two pods can use at "
        "a time: set it to 1, or cache.accessModes to [ReadWriteMany]",
        lambda spec: not _one_pod_at_a_time(spec) or spec.rollout is None or not is_zero(spec.rollout.max_unavailable),
        # What a list in it holds may not be asked: the API server knows no bound of `old`, and so none of the cost.
        spares=f"has(old.cache) && has(old.cache.size) && {_none_unavailable('old')}",
    ),
    # Of a name of the catalogue, which has no '/', nothing is known here.
    Rule(
        f"!has(self.huggingFaceTokenSecretRef) || !has(self.model) || !self.model.{IN_A_STORE}",
        f"huggingFaceTokenSecretRef {_TOKEN_IS_FOR_A_HUB}",
        lambda spec: spec.hugging_face_token_secret_ref is None or not is_in_a_store(spec.model or ""),
        spares=_spares("huggingFaceTokenSecretRef"),
    ),
    Rule(
        "!has(self.modelCredentialsSecretRef) || !has(self.model) || !self.model.contains('/') || "
        f"self.model.{IN_A_STORE}",
        _CREDENTIALS_ARE_FOR_A_STORE,
        lambda spec: (
            spec.model_credentials_secret_ref is None or "/" not in (spec.model or "") or is_in_a_store(spec.model)
        ),
        spares=_spares("modelCredentialsSecretRef"),
    ),
)
"""One that is added after a release needs `Rule.spares`: else stored objects that break it cannot be edited."""


class GPTServiceSpec(ApiModel):
    """What is wanted: a model, how many replicas, and how they run."""

    rules: ClassVar[tuple[Rule, ...]] = _SPEC_RULES

    model: ModelName | None = None
    """The model: a name of the catalogue (GPTModel), or a uri: hf://org/name[@revision], s3://bucket/path,
    gs://bucket/path, oci://registry/repository[:tag], https://host/path, pvc://claim/path, or file:///path in the
    image."""
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
    """Secret with the token for the hub of an hf:// model."""
    model_credentials_secret_ref: SecretRef | None = None
    """Secret with what opens the model's object store, registry or web server; the pods' own identity if absent."""
    decryption_key_secret_ref: SecretKeyRef | None = None
    """Secret with the key of encrypted weights (model-weights-v1), which are decrypted into memory; weights that are
    not encrypted are refused then."""
    tls: Tls | None = None
    """TLS on the serving port."""
    cache: Cache | None = None
    """Where downloaded weights are kept."""
    service: ServiceSpec | None = None
    """The Kubernetes Service in front of the pods."""
    scheduling: Scheduling | None = None
    """Where pods may run."""
    pod_labels: Labels | None = None
    """Further labels of the pods; they never replace the operator's own."""
    pod_annotations: PodAnnotations | None = None
    """Further annotations of the pods; they never replace the operator's own."""
    service_account_name: Name | None = None
    """ServiceAccount of the pods, whose token is not mounted; one of their own if absent."""
    image_pull_secrets: Annotated[list[SecretRef], Field(max_length=8), *list_map("name")] | None = None
    """Secrets with which the runtime image is pulled."""
    startup_timeout_seconds: Annotated[int, Field(ge=10, le=86400)] = 1800
    """Longest time in seconds from the start of the engine's container until the model answers. What the init container
    does before, such as a download, is not in it."""
    drain_timeout_seconds: Annotated[int, Field(ge=0, le=3600)] = 60
    """Longest time in seconds that a stopping pod goes on with requests it has begun."""

    priority: Literal["Low", "Normal", "High"] | None = None
    """The pods' annotation inference.ai/priority, in lower case, for schedulers and proxies of yours that read it.
    Neither this operator nor Kubernetes does: what preempts is scheduling.priorityClassName."""
    disruption_budget: DisruptionBudget | None = None
    """PodDisruptionBudget of the pods."""
    network_policy: NetworkPolicy | None = None
    """NetworkPolicy of the pods."""
    monitoring: Monitoring | None = None
    """Who may scrape the pods."""
    tracing: Tracing | None = None
    """Traces of requests."""

    @property
    def guaranteed_replicas(self) -> int:
        """How many replicas there are at the least; a stopped service has none, with or without autoscaling."""
        if self.autoscaling is None or self.replicas == 0:
            return self.replicas
        return self.autoscaling.least_replicas


SIZE_OF_WEIGHTS = Rule(
    "!quantity(string(self)).isLessThan(quantity('1k')) && !quantity(string(self)).isGreaterThan(quantity('100Ti'))",
    "must be the weights' size in bytes, 1k to 100Ti",
    lambda value: 1000 <= (quantity(value) or 0) <= 100 << 40,
)


class GPTModelSpec(ApiModel):
    """A catalogue entry: where a model is and how it is best served."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self == oldSelf",
            "a GPTModel cannot be changed: make a new one under another name and point modelRef to it",
            lambda _: True,
        ),
        Rule(
            f"!has(self.tokenSecretRef) || !self.uri.{IN_A_STORE}",
            f"tokenSecretRef {_TOKEN_IS_FOR_A_HUB}",
            lambda spec: spec.token_secret_ref is None or not is_in_a_store(spec.uri),
        ),
        Rule(
            f"!has(self.modelCredentialsSecretRef) || self.uri.{IN_A_STORE}",
            _CREDENTIALS_ARE_FOR_A_STORE,
            lambda spec: spec.model_credentials_secret_ref is None or is_in_a_store(spec.uri),
        ),
    )

    uri: ModelUri
    """Where the model is: hf://org/name[@revision], s3://bucket/path, gs://bucket/path,
    oci://registry/repository[:tag], https://host/path, pvc://claim/path in the service's namespace, or file:///path
    in the image."""
    served_model_names: ServedNames | None = None
    """What clients put into "model", unless the service says so itself."""
    digest: Digest | None = None
    """Digest that the model's files must have, as sha256:… ."""
    weights_size: Annotated[Quantity, *ruled(SIZE_OF_WEIGHTS)] | None = None
    """Size of the weights' files, where it is known; `gptservice-runtime inspect` asks the model's source. A service
    that says nothing of memory then gets what they need, and one whose memory cannot hold them is refused before there
    is a pod."""
    token_secret_ref: SecretKeyRef | None = None
    """Secret with the hub's token, in the namespace of the service that uses the model."""
    model_credentials_secret_ref: SecretRef | None = None
    """Secret with what opens the model's object store, registry or web server, in the namespace of the service that
    uses the model."""
    context_length: ContextLength | None = None
    """Most tokens of prompt and answer together."""
    gpu: Gpu | None = None
    """GPUs of one replica."""
    engine: ModelEngine | None = None
    """Engine defaults."""


class GPTService(ApiModel):
    """A language model served by vLLM behind the OpenAI API."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "size(self.metadata.name) <= 63",
            "metadata.name must be no more than 63 characters: it becomes a label of the pods",
            lambda service: len(service.metadata.get("name", "")) <= MAX_NAME,
        ),
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
