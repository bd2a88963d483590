"""The objects of ``ai.example.com/v1``: GPTService and GPTModel.

The docstrings are the descriptions in the CRDs: ``kubectl explain`` and this file are one text.
"""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, model_validator

from .base import SET, ApiModel, Int32, Name, cel, list_map, rules
from .engine import Engine, Gpu, ModelEngine, Resources
from .scheduling import Scheduling

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
ContextLength = Annotated[int, Field(ge=1, le=16777216)]
_ONE_MODEL = "exactly one of model and modelRef must be set"


def _no_parent_path(uri: str | None) -> None:
    if uri is not None and ".." in uri:
        raise ValueError("a path must not contain '..'")


def _no_duplicates(names: list[str] | None) -> None:
    if names is not None and len(set(names)) != len(names):
        raise ValueError("servedModelNames must not contain a name twice")


class GPTServiceSpec(ApiModel):
    """What is wanted: a model, how many replicas, and how they run."""

    model_config = ConfigDict(json_schema_extra=rules(cel("has(self.model) != has(self.modelRef)", _ONE_MODEL)))

    model: ModelUri | None = None
    """The model: a name of the catalogue (GPTModel), or a uri: pvc://claim/path, file:///path in the image."""
    model_ref: Name | None = None
    """Name of a GPTModel of the catalogue."""
    served_model_names: ServedNames | None = None
    """What clients put into "model"; the model as written and the object's name if absent."""
    replicas: Int32 = 1
    """Number of pods; 0 stops the service and frees its GPUs."""
    max_tokens: Annotated[int, Field(ge=1, le=16777216)] | None = None
    """Most tokens that one request may generate."""
    context_length: ContextLength | None = None
    """Most tokens of prompt and answer together; the model's own limit if absent."""
    max_inflight_requests: Annotated[int, Field(ge=1, le=1000000)] | None = None
    """Most requests that one replica works on at a time; further ones are answered 429. Changed without a restart."""
    upgrade_strategy: Literal["RollingUpdate", "Recreate"] | None = None
    """How a change is rolled out: RollingUpdate loses no request and needs room for one more pod; Recreate does not."""
    gpu: Gpu | None = None
    """GPUs of one replica."""
    resources: Resources | None = None
    """CPU, memory and local disk of one replica."""
    engine: Engine | None = None
    """The inference engine."""
    scheduling: Scheduling | None = None
    """Where pods may run."""
    startup_timeout_seconds: Annotated[int, Field(ge=10, le=86400)] = 1800
    """Longest time in seconds from a pod's start until the model answers."""
    drain_timeout_seconds: Annotated[int, Field(ge=0, le=3600)] = 60
    """Longest time in seconds that a stopping pod goes on with requests it has begun."""

    @model_validator(mode="after")
    def _cross_field_rules(self) -> "GPTServiceSpec":
        if (self.model is None) == (self.model_ref is None):
            raise ValueError(_ONE_MODEL)
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


class Condition(ApiModel):
    """One aspect of the state, in the form of the Kubernetes API conventions."""

    type: Annotated[str, Field(max_length=316)]
    """Accepted, Available, Progressing, Degraded or Ready."""
    status: Literal["True", "False", "Unknown"]
    """Whether it holds."""
    reason: Annotated[str, Field(min_length=1, max_length=128)]
    """Why, as one CamelCase word."""
    message: Annotated[str, Field(max_length=32768)]
    """Why, for people, with what to do."""
    observed_generation: Annotated[int, Field(ge=0, json_schema_extra={"format": "int64"})] | None = None
    """Generation of the spec that this speaks of."""
    last_transition_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})]
    """When the status last changed."""


class Effective(ApiModel):
    """What the layers (service, catalogue, operator) come to."""

    uri: str | None = None
    """Where the model is."""
    image: str | None = None
    """Runtime image."""
    gpu_count: int | None = None
    """GPUs of one replica."""
    gpu_resource_name: str | None = None
    """Extended resource that is requested."""
    served_model_names: list[str] | None = None
    """What clients put into "model"."""
    args_hash: str | None = None
    """Hash of the engine's arguments."""


class GPTServiceStatus(ApiModel):
    """What was observed."""

    phase: Literal["Pending", "Progressing", "Ready", "Degraded", "Stopped"] | None = None
    """Summary for people; programs read the conditions."""
    conditions: Annotated[list[Condition], Field(max_length=8, json_schema_extra=list_map("type"))] | None = None
    """Accepted, Available, Progressing, Degraded and Ready."""
    observed_generation: Annotated[int, Field(json_schema_extra={"format": "int64"})] | None = None
    """Generation of the spec that this status speaks of."""
    replicas: int | None = None
    """Pods that exist."""
    ready_replicas: int | None = None
    """Pods that answer."""
    available_replicas: int | None = None
    """Pods that have answered for a while."""
    updated_replicas: int | None = None
    """Pods of the newest revision."""
    selector: str | None = None
    """Label selector of the pods, for the scale subresource."""
    endpoint: str | None = None
    """URL under which the OpenAI API is served inside the cluster."""
    auth_secret: str | None = None
    """Secret that holds the API key, where one is asked for."""
    effective: Effective | None = None
    """What the layers come to."""
    last_sync_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """Start of the pass that last had something to say."""


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
