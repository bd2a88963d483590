"""``spec.autoscaling``: how many replicas, by what, in the words of the HorizontalPodAutoscaler API."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, model_validator

from .base import ApiModel, Quantity, cel, rules

Replicas = Annotated[int, Field(ge=1, le=2147483647)]
MetricName = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[^\s]+$")]
ATOMIC: dict[str, Any] = {"x-kubernetes-list-type": "atomic"}

_CPU = "a CPU metric needs averageUtilization and neither name nor averageValue"
_PODS = "a Pods metric needs name and averageValue and no averageUtilization"
_RANGE = "minReplicas must not be greater than maxReplicas"


class Metric(ApiModel):
    """One metric; the one that asks for the most replicas wins."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            cel(
                "self.type != 'CPU' || (has(self.averageUtilization) && !has(self.name) && !has(self.averageValue))",
                _CPU,
            ),
            cel(
                "self.type != 'Pods' || (has(self.name) && has(self.averageValue) && !has(self.averageUtilization))",
                _PODS,
            ),
        )
    )

    type: Literal["CPU", "Pods"]
    """CPU of the pods, or a metric that a custom metrics adapter knows for them."""
    name: MetricName | None = None
    """Pods: name of the metric, for example vllm:num_requests_waiting."""
    average_utilization: Annotated[int, Field(ge=1, le=10000)] | None = None
    """CPU: percent of the requested CPU to hold on average."""
    average_value: Quantity | None = None
    """Pods: value per pod to hold on average."""

    @model_validator(mode="after")
    def _fits_its_type(self) -> "Metric":
        utilization, named = self.average_utilization is not None, self.name is not None
        valued = self.average_value is not None
        if self.type == "CPU" and (not utilization or named or valued):
            raise ValueError(_CPU)
        if self.type == "Pods" and (utilization or not named or not valued):
            raise ValueError(_PODS)
        return self


class ScalingPolicy(ApiModel):
    """One bound on how fast the number of replicas changes."""

    type: Literal["Pods", "Percent"]
    """What value counts."""
    value: Annotated[int, Field(ge=1, le=100000)]
    """Largest change within periodSeconds."""
    period_seconds: Annotated[int, Field(ge=1, le=1800)]
    """Window in seconds."""


class ScalingRules(ApiModel):
    """How fast to scale in one direction."""

    stabilization_window_seconds: Annotated[int, Field(ge=0, le=3600)] | None = None
    """Seconds over which past recommendations are considered."""
    select_policy: Literal["Max", "Min", "Disabled"] | None = None
    """Which policy counts when several are given."""
    policies: Annotated[list[ScalingPolicy], Field(min_length=1, max_length=8, json_schema_extra=ATOMIC)] | None = None
    """Bounds on the change."""


class Behavior(ApiModel):
    """How fast to scale."""

    scale_up: ScalingRules | None = None
    """Upwards."""
    scale_down: ScalingRules | None = None
    """Downwards."""


class Autoscaling(ApiModel):
    """Bounds and metrics of a HorizontalPodAutoscaler."""

    model_config = ConfigDict(
        json_schema_extra=rules(cel("!has(self.minReplicas) || self.minReplicas <= self.maxReplicas", _RANGE))
    )

    min_replicas: Replicas | None = None
    """Fewest replicas; 1 if absent. To stop a service, set spec.replicas to 0."""
    max_replicas: Replicas
    """Most replicas."""
    metrics: Annotated[list[Metric], Field(min_length=1, max_length=8, json_schema_extra=ATOMIC)] | None = None
    """What to scale by; CPU at 80 percent if absent."""
    behavior: Behavior | None = None
    """How fast to scale."""

    @model_validator(mode="after")
    def _range(self) -> "Autoscaling":
        if self.min_replicas is not None and self.min_replicas > self.max_replicas:
            raise ValueError(f"{_RANGE} ({self.min_replicas} > {self.max_replicas})")
        return self
