"""Where pods may run: the fields of ``spec.scheduling``, in the words of the Kubernetes Pod API."""

from typing import Annotated, Literal

from pydantic import Field

from .base import ApiModel, Int32, LabelKey, LabelValue, Name, list_map

Labels = Annotated[dict[str, LabelValue], Field(max_length=32)]
Values = Annotated[list[LabelValue], Field(max_length=64)]


class LabelRequirement(ApiModel):
    """One requirement on labels."""

    key: LabelKey
    """Label key."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """How the label's value relates to the values."""
    values: Values | None = None
    """Values for In and NotIn."""


class LabelSelector(ApiModel):
    """Selects objects by their labels."""

    match_labels: Labels | None = None
    """Labels that must be present with exactly these values."""
    match_expressions: Annotated[list[LabelRequirement], Field(max_length=16)] | None = None
    """Requirements that must all hold."""


class NodeRequirement(ApiModel):
    """One requirement on a node's labels or fields."""

    key: LabelKey
    """Label key or field name."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    """How the node's value relates to the values."""
    values: Values | None = None
    """Values for In, NotIn, Gt and Lt."""


class NodeSelectorTerm(ApiModel):
    """Requirements on one node, all of which must hold."""

    match_expressions: Annotated[list[NodeRequirement], Field(max_length=16)] | None = None
    """Requirements on labels."""
    match_fields: Annotated[list[NodeRequirement], Field(max_length=16)] | None = None
    """Requirements on fields."""


class NodeSelector(ApiModel):
    """Terms of which at least one must hold."""

    node_selector_terms: Annotated[list[NodeSelectorTerm], Field(min_length=1, max_length=16)]
    """The terms."""


class PreferredNode(ApiModel):
    """A weighted wish about nodes."""

    weight: Annotated[int, Field(ge=1, le=100)]
    """Weight, 1 to 100."""
    preference: NodeSelectorTerm
    """What is preferred."""


class NodeAffinity(ApiModel):
    """Which nodes a pod may or should run on."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    """Must hold when the pod is scheduled."""
    preferred_during_scheduling_ignored_during_execution: (
        Annotated[list[PreferredNode], Field(max_length=16)] | None
    ) = None
    """Should hold when the pod is scheduled."""


class PodAffinityTerm(ApiModel):
    """Pods to be near to, or away from."""

    label_selector: LabelSelector | None = None
    """Which pods."""
    topology_key: LabelKey
    """Node label that says what "near" means."""
    namespaces: Annotated[list[Name], Field(max_length=16)] | None = None
    """Namespaces of those pods; the pod's own if absent."""
    namespace_selector: LabelSelector | None = None
    """Namespaces of those pods, by label."""


class PreferredPod(ApiModel):
    """A weighted wish about other pods."""

    weight: Annotated[int, Field(ge=1, le=100)]
    """Weight, 1 to 100."""
    pod_affinity_term: PodAffinityTerm
    """Which pods."""


class PodAffinity(ApiModel):
    """Which pods to be near to, or away from."""

    required_during_scheduling_ignored_during_execution: (
        Annotated[list[PodAffinityTerm], Field(max_length=16)] | None
    ) = None
    """Must hold when the pod is scheduled."""
    preferred_during_scheduling_ignored_during_execution: Annotated[list[PreferredPod], Field(max_length=16)] | None = (
        None
    )
    """Should hold when the pod is scheduled."""


class Affinity(ApiModel):
    """Affinity of pods to nodes and to other pods."""

    node_affinity: NodeAffinity | None = None
    """Affinity to nodes."""
    pod_affinity: PodAffinity | None = None
    """Pods to be near to."""
    pod_anti_affinity: PodAffinity | None = None
    """Pods to stay away from."""


class Toleration(ApiModel):
    """A taint that pods tolerate."""

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


class Scheduling(ApiModel):
    """Where pods may run."""

    node_selector: Labels | None = None
    """Labels that a node must carry."""
    tolerations: Annotated[list[Toleration], Field(max_length=32)] | None = None
    """Taints that pods tolerate."""
    affinity: Affinity | None = None
    """Affinity of pods to nodes and to other pods."""
    topology_spread_constraints: (
        Annotated[
            list[TopologySpreadConstraint],
            Field(max_length=8, json_schema_extra=list_map("topologyKey", "whenUnsatisfiable")),
        ]
        | None
    ) = None
    """How pods are spread; the pods of this service are counted."""
    priority_class_name: Name | None = None
    """PriorityClass of the pods."""
    runtime_class_name: Name | None = None
    """RuntimeClass of the pods, for example nvidia."""
    scheduler_name: Name | None = None
    """Scheduler of the pods."""
