"""Where pods may run: the fields of ``spec.scheduling``, in the words of the Kubernetes Pod API."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from .affinity import Affinity
from .base import ApiModel, Rule, list_map
from .words import Int32, LabelKey, Labels, LabelValue, Name


class Toleration(ApiModel):
    """A taint that pods tolerate."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.key) || (has(self.operator) && self.operator == 'Exists')",
            "a toleration without key needs operator Exists: it then tolerates every taint",
            lambda toleration: toleration.key is not None or toleration.operator == "Exists",
        ),
        Rule(
            "!has(self.value) || self.value == '' || !has(self.operator) || self.operator != 'Exists'",
            "operator Exists takes no value: remove it, or use operator Equal",
            lambda toleration: not toleration.value or toleration.operator != "Exists",
        ),
        Rule(
            "!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
            "tolerationSeconds needs effect NoExecute",
            lambda toleration: toleration.toleration_seconds is None or toleration.effect == "NoExecute",
        ),
    )

    key: LabelKey | None = None
    """Taint key; absent with operator Exists tolerates every taint."""
    operator: Literal["Exists", "Equal"] | None = None
    """Equal if absent."""
    value: LabelValue | None = None
    """Taint value for Equal."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Taint effect; every effect if absent."""
    toleration_seconds: Int32 | None = None
    """For NoExecute: seconds until eviction; for ever if absent."""


class TopologySpreadConstraint(ApiModel):
    """How pods are spread over the topology."""

    max_skew: Annotated[int, Field(ge=1, le=1000)]
    """Largest allowed difference between domains."""
    topology_key: LabelKey
    """Node label that names the domain."""
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]
    """What to do when the skew cannot be kept."""


SpreadConstraints = Annotated[
    list[TopologySpreadConstraint], Field(max_length=8), *list_map("topologyKey", "whenUnsatisfiable")
]


class Scheduling(ApiModel):
    """Where pods may run."""

    node_selector: Labels | None = None
    """Labels that a node must carry."""
    tolerations: Annotated[list[Toleration], Field(max_length=32)] | None = None
    """Taints that pods tolerate."""
    affinity: Affinity | None = None
    """Affinity of pods to nodes and to other pods."""
    topology_spread_constraints: SpreadConstraints | None = None
    """How pods are spread; the pods of this service are counted."""
    priority_class_name: Name | None = None
    """PriorityClass of the pods."""
    runtime_class_name: Name | None = None
    """RuntimeClass of the pods, for example nvidia."""
    scheduler_name: Name | None = None
    """Scheduler of the pods."""
