"""The inference engine and what it needs: ``spec.engine``, ``spec.gpu``, ``spec.resources``."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, model_validator

from .base import ApiModel, LabelValue, Name, Quantity, cel, list_map, rules

EnvName = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
DataKey = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+$")]
EngineArg = Annotated[str, Field(min_length=1, max_length=4096)]


class KeyRef(ApiModel):
    """A key of a Secret or ConfigMap in the service's namespace."""

    name: Name
    """Object name."""
    key: DataKey
    """Key in it."""
    optional: bool | None = None
    """Whether the object or key may be absent."""


class FieldRef(ApiModel):
    """A field of the pod."""

    field_path: Annotated[str, Field(min_length=1, max_length=256)]
    """For example metadata.name."""


class ResourceFieldRef(ApiModel):
    """A resource of a container."""

    resource: Annotated[str, Field(min_length=1, max_length=64)]
    """For example limits.memory."""
    container_name: Name | None = None
    """Container; the engine's own if absent."""


class EnvVarSource(ApiModel):
    """Where a variable's value comes from."""

    secret_key_ref: KeyRef | None = None
    """A key of a Secret."""
    config_map_key_ref: KeyRef | None = None
    """A key of a ConfigMap."""
    field_ref: FieldRef | None = None
    """A field of the pod."""
    resource_field_ref: ResourceFieldRef | None = None
    """A resource of a container."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            cel(
                "[has(self.secretKeyRef), has(self.configMapKeyRef), has(self.fieldRef), "
                "has(self.resourceFieldRef)].filter(x, x).size() == 1",
                "exactly one of secretKeyRef, configMapKeyRef, fieldRef and resourceFieldRef must be set",
            )
        )
    )

    @model_validator(mode="after")
    def _exactly_one(self) -> "EnvVarSource":
        if sum(value is not None for _, value in self) != 1:
            raise ValueError("exactly one of secretKeyRef, configMapKeyRef, fieldRef and resourceFieldRef must be set")
        return self


class EnvVar(ApiModel):
    """An environment variable of the engine's container."""

    name: EnvName
    """Variable name."""
    value: Annotated[str, Field(max_length=32768)] | None = None
    """Value as it stands."""
    value_from: EnvVarSource | None = None
    """Value from elsewhere; not together with value."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            cel("!(has(self.value) && has(self.valueFrom))", "value and valueFrom must not both be set")
        )
    )

    @model_validator(mode="after")
    def _one_source(self) -> "EnvVar":
        if self.value is not None and self.value_from is not None:
            raise ValueError("value and valueFrom must not both be set")
        return self


class Engine(ApiModel):
    """The inference engine of the pods."""

    type: Literal["VLLM"] | None = None
    """Engine; VLLM if absent."""
    image: Annotated[str, Field(min_length=1, max_length=512, pattern=r"^[^\s]+$")] | None = None
    """Runtime image, derived from ours; the operator's configured one if absent."""
    args: Annotated[list[EngineArg], Field(max_length=64, json_schema_extra={"x-kubernetes-list-type": "atomic"})] | (
        None
    ) = None
    """Arguments for `vllm serve`, each flag and value as its own item or as --flag=value."""
    env: Annotated[list[EnvVar], Field(max_length=64, json_schema_extra=list_map("name"))] | None = None
    """Environment variables of the engine's container."""


class ModelEngine(ApiModel):
    """Engine defaults of a catalogue entry."""

    args: Annotated[list[EngineArg], Field(max_length=64, json_schema_extra={"x-kubernetes-list-type": "atomic"})] | (
        None
    ) = None
    """Arguments for `vllm serve`; a service's own args come after them, so that they win."""


class Gpu(ApiModel):
    """GPUs of one replica."""

    count: Annotated[int, Field(ge=0, le=64)] | None = None
    """GPUs per replica; 0 runs on the CPU. 1 if no layer says otherwise."""
    resource_name: (
        Annotated[
            str,
            Field(
                min_length=3,
                max_length=253,
                pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
            ),
        ]
        | None
    ) = None
    """Extended resource that is requested; nvidia.com/gpu if absent. MIG names such as nvidia.com/mig-1g.10gb too."""
    product: LabelValue | None = None
    """GPU product as the node label nvidia.com/gpu.product has it."""


_RESOURCE_NAMES = ("cpu", "memory", "ephemeral-storage")
_ONLY = "only cpu, memory and ephemeral-storage can be set here; GPUs belong in spec.gpu"
ResourceMap = Annotated[
    dict[str, Quantity],
    Field(
        max_length=8,
        json_schema_extra=rules(cel(f"self.all(k, k in {list(_RESOURCE_NAMES)})", _ONLY)),
    ),
]


class Resources(ApiModel):
    """CPU, memory and local disk of the engine's container."""

    requests: ResourceMap | None = None
    """What is set aside for the container."""
    limits: ResourceMap | None = None
    """What the container may use at most. A memory limit is always set: the request if absent."""

    @model_validator(mode="after")
    def _known_names(self) -> "Resources":
        for quantities in (self.requests, self.limits):
            if any(name not in _RESOURCE_NAMES for name in quantities or {}):
                raise ValueError(_ONLY)
        return self
