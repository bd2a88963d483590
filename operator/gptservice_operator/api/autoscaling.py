"""``spec.autoscaling``: how many replicas, by what, in the words of the HorizontalPodAutoscaler API."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from .base import ATOMIC, ApiModel, Rule, ruled
from .quantity import quantity
from .words import Quantity

Replicas = Annotated[int, Field(ge=1, le=2147483647)]
# A name that is one segment of a path: the custom metrics API has it in its URLs.
MetricName = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[A-Za-z_:][-A-Za-z0-9_:.]*$")]
POSITIVE = Rule(
    "quantity(string(self)).isGreaterThan(quantity('0'))",
    "must be greater than 0",
    lambda value: (quantity(value) or 0) > 0,
)


def _is_pods(metric: Any) -> bool:
    return metric.name is not None and metric.average_value is not None and metric.average_utilization is None


def _is_cpu(metric: Any) -> bool:
    return metric.name is None and metric.average_value is None and metric.average_utilization is not None


class Metric(ApiModel):
    """One metric; the one that asks for the most replicas wins."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.type != 'CPU' || (has(self.averageUtilization) && !has(self.name) && !has(self.averageValue))",
            "a CPU metric needs averageUtilization and neither name nor averageValue",
            lambda metric: metric.type != "CPU" or _is_cpu(metric),
        ),
        Rule(
            "self.type != 'Pods' || (has(self.name) && has(self.averageValue) && !has(self.averageUtilization))",
            "a Pods metric needs name and averageValue and no averageUtilization",
            lambda metric: metric.type != "Pods" or _is_pods(metric),
        ),
    )

    type: Literal["CPU", "Pods"]
    """CPU of the pods, or a metric that a custom metrics adapter knows for them."""
    name: MetricName | None = None
    """Pods: name of the metric, for example vllm:num_requests_waiting."""
    average_utilization: Annotated[int, Field(ge=1, le=10000)] | None = None
    """CPU: percent of the requested CPU to hold on average."""
    average_value: Annotated[Quantity, *ruled(POSITIVE)] | None = None
    """Pods: value per pod to hold on average."""


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

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.minReplicas) || self.minReplicas <= self.maxReplicas",
            "minReplicas must not be greater than maxReplicas",
            lambda scaling: scaling.min_replicas is None or scaling.min_replicas <= scaling.max_replicas,
            lambda scaling: (
                f"minReplicas ({scaling.min_replicas}) must not be greater than maxReplicas ({scaling.max_replicas})"
            ),
        ),
    )

    min_replicas: Replicas | None = None
    """Fewest replicas; 1 if absent. To stop a service, set spec.replicas to 0."""
    max_replicas: Replicas
    """Most replicas."""
    metrics: Annotated[list[Metric], Field(min_length=1, max_length=8, json_schema_extra=ATOMIC)] | None = None
    """What to scale by; CPU at 80 percent if absent."""
    behavior: Behavior | None = None
    """How fast to scale."""

    @property
    def least_replicas(self) -> int:
        """``minReplicas``, or 1."""
        return 1 if self.min_replicas is None else self.min_replicas
