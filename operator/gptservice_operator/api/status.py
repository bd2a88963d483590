"""What was observed: the status of a GPTService. Programs read the conditions."""

from typing import Annotated, Literal

from pydantic import Field

from .base import ApiModel, list_map


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
    revision: str | None = None
    """Commit of the model that was fetched from a hub."""
    digest: str | None = None
    """Digest of the model's files, where they were fetched or modelDigest asks for it."""
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


class LastFailure(ApiModel):
    """The last failure that was seen; kept until the service has been stable for a while."""

    reason: str | None = None
    """Reason, as in the conditions."""
    message: str | None = None
    """What was seen."""
    exit_code: int | None = None
    """Exit code of the container."""
    pod: str | None = None
    """Pod in which it was seen."""
    time: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """When it was seen first."""


class GPTServiceStatus(ApiModel):
    """What was observed."""

    phase: Literal["Pending", "Progressing", "Ready", "Degraded", "Stopped"] | None = None
    """Summary for people; programs read the conditions."""
    conditions: Annotated[list[Condition], Field(max_length=32), *list_map("type")] | None = None
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
    stable_revision: str | None = None
    """ControllerRevision that last proved stable."""
    last_failure: LastFailure | None = None
    """The last failure that was seen."""
    last_sync_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """Start of the pass that last had something to say."""
