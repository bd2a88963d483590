"""The inference engine and what it needs: ``spec.engine``, ``spec.gpu``, ``spec.resources``."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from .base import ATOMIC, ApiModel, Rule, list_map, ruled
from .quantity import quantity
from .words import DNS_SUBDOMAIN, LABEL_KEY, DataKey, LabelValue, Name, Quantity

EnvName = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
# A program cannot be given a NUL.
EngineArg = Annotated[str, Field(min_length=1, max_length=4096, pattern=r"^[^\x00]+$")]
EnvValue = Annotated[str, Field(max_length=4096, pattern=r"^[^\x00]*$")]
EngineArgs = Annotated[list[EngineArg], Field(max_length=64, json_schema_extra=ATOMIC)]
_IMAGE = (
    r"([A-Za-z0-9][-A-Za-z0-9.]*(:[0-9]{1,5})?/)?[a-z0-9]+([._/-]+[a-z0-9]+)*"
    r"(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?"
)
Image = Annotated[str, Field(min_length=1, max_length=512, pattern=f"^{_IMAGE}$")]
_FIELD_PATH = (
    r"metadata\.(name|namespace|uid)|spec\.(nodeName|serviceAccountName)|status\.(hostIPs?|podIPs?)"
    rf"|metadata\.(labels|annotations)\['{LABEL_KEY}'\]"
)


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

    field_path: Annotated[str, Field(min_length=1, max_length=300, pattern=f"^({_FIELD_PATH})$")]
    """metadata.name, .namespace or .uid, metadata.labels['key'] or .annotations['key'], spec.nodeName or
    .serviceAccountName, status.hostIP, .hostIPs, .podIP or .podIPs."""


class ResourceFieldRef(ApiModel):
    """A resource of the engine's container."""

    resource: Literal[
        "limits.cpu", "limits.memory", "limits.ephemeral-storage",
        "requests.cpu", "requests.memory", "requests.ephemeral-storage",
    ]  # fmt: skip
    """Resource, for example limits.memory."""
    container_name: Literal["engine"] | None = None
    """Container: the engine's own."""


_ONE_SOURCE = "exactly one of secretKeyRef, configMapKeyRef, fieldRef and resourceFieldRef must be set"


class EnvVarSource(ApiModel):
    """Where a variable's value comes from."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "[has(self.secretKeyRef), has(self.configMapKeyRef), has(self.fieldRef), "
            "has(self.resourceFieldRef)].filter(x, x).size() == 1",
            _ONE_SOURCE,
            lambda source: sum(value is not None for _, value in source) == 1,
        ),
    )

    secret_key_ref: KeyRef | None = None
    """A key of a Secret."""
    config_map_key_ref: KeyRef | None = None
    """A key of a ConfigMap."""
    field_ref: FieldRef | None = None
    """A field of the pod."""
    resource_field_ref: ResourceFieldRef | None = None
    """A resource of a container."""


class EnvVar(ApiModel):
    """An environment variable of the engine's container."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!(has(self.value) && has(self.valueFrom))",
            "value and valueFrom must not both be set",
            lambda variable: variable.value is None or variable.value_from is None,
        ),
    )

    name: EnvName
    """Variable name."""
    value: EnvValue | None = None
    """Value as it stands."""
    value_from: EnvVarSource | None = None
    """Value from elsewhere; not together with value."""


class Engine(ApiModel):
    """The inference engine of the pods."""

    type: Literal["VLLM"] | None = None
    """Engine; VLLM if absent."""
    image: Image | None = None
    """Runtime image, derived from ours; the operator's configured one if absent."""
    args: EngineArgs | None = None
    """Arguments for `vllm serve`, each flag and value as its own item or as --flag=value. What our vLLM would refuse is
    refused at once. Fields win over arguments: contextLength over --max-model-len, maxTokens over max_new_tokens."""
    env: Annotated[list[EnvVar], Field(max_length=64), *list_map("name")] | None = None
    """Environment variables of the engine's container."""


class ModelEngine(ApiModel):
    """Engine defaults of a catalogue entry."""

    args: EngineArgs | None = None
    """Arguments for `vllm serve`; a service's own args come after them, so that they win, and fields win over both."""


def _is_extended(name: str) -> bool:
    return "kubernetes.io/" not in name and not name.startswith("requests.")


ResourceName = Annotated[
    str,
    Field(
        min_length=3,
        max_length=200,
        pattern=rf"^{DNS_SUBDOMAIN}/[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?$",
    ),
    *ruled(
        Rule(
            "!self.contains('kubernetes.io/') && !self.startsWith('requests.')",
            "must be the name under which a device plugin offers its devices, such as nvidia.com/gpu",
            _is_extended,
        )
    ),
]


class Gpu(ApiModel):
    """GPUs of one replica."""

    count: Annotated[int, Field(ge=0, le=64)] | None = None
    """GPUs per replica; 0 runs on the CPU. 1 if no layer says otherwise."""
    resource_name: ResourceName | None = None
    """Extended resource that is requested; nvidia.com/gpu if absent. MIG names such as nvidia.com/mig-1g.10gb too."""
    product: LabelValue | None = None
    """GPU product as the node label nvidia.com/gpu.product has it."""


_RESOURCE_NAMES = ("cpu", "memory", "ephemeral-storage")
_ONLY = Rule(
    f"self.all(k, k in {list(_RESOURCE_NAMES)})",
    "only cpu, memory and ephemeral-storage can be set here; GPUs belong in spec.gpu",
    lambda quantities: all(name in _RESOURCE_NAMES for name in quantities),
)
ResourceMap = Annotated[dict[str, Quantity], Field(max_length=8), *ruled(_ONLY)]


def _requests_fit(resources: Any) -> bool:
    requests: dict[str, str | int] = resources.requests or {}
    limits: dict[str, str | int] = resources.limits or {}
    return all((quantity(requests[name]) or 0) <= (quantity(limits[name]) or 0) for name in requests if name in limits)


class Resources(ApiModel):
    """CPU, memory and local disk of the engine's container."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.requests) || !has(self.limits) || self.requests.all(k, !(k in self.limits) || "
            "quantity(string(self.requests[k])).compareTo(quantity(string(self.limits[k]))) <= 0)",
            "a request must not be greater than the limit of the same resource: lower the request or raise the limit",
            _requests_fit,
        ),
    )

    requests: ResourceMap | None = None
    """What is set aside for the container."""
    limits: ResourceMap | None = None
    """What the container may use at most. A memory limit is always set: the request if absent."""
