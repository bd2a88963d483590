"""``spec.scheduling.affinity``, in the words of the Kubernetes Pod API and by its rules."""

import re
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from .base import ApiModel, Rule, ruled
from .words import KEYS, LabelKey, LabelValue, Name, NamespaceName

# Bounds keep the largest service well below what etcd stores, and the cost of the rules below what CEL allows.
Values = Annotated[list[LabelValue], Field(max_length=16)]
SelectorLabels = Annotated[dict[str, LabelValue], Field(max_length=8), *ruled(KEYS)]
_VALUES = Rule(
    "self.operator in ['In', 'NotIn'] ? has(self.values) && size(self.values) > 0 : "
    "!has(self.values) || size(self.values) == 0",
    "In and NotIn need values; Exists and DoesNotExist must have none",
    lambda requirement: bool(requirement.values) == (requirement.operator in ("In", "NotIn")),
)
_NODE_VALUES = Rule(
    "self.operator in ['Gt', 'Lt'] || " + f"({_VALUES.cel})",
    _VALUES.message,
    lambda requirement: requirement.operator in ("Gt", "Lt") or _VALUES.holds(requirement),
)
_WHOLE_NUMBER = r"[0-9]{1,18}"


def _has_one_number(requirement: Any) -> bool:
    values: list[str] = requirement.values or []
    return len(values) == 1 and re.fullmatch(_WHOLE_NUMBER, values[0]) is not None


class LabelRequirement(ApiModel):
    """One requirement on labels."""

    rules: ClassVar[tuple[Rule, ...]] = (_VALUES,)

    key: LabelKey
    """Label key."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """How the label's value relates to the values."""
    values: Values | None = None
    """Values for In and NotIn."""


class LabelSelector(ApiModel):
    """Selects objects by their labels."""

    match_labels: SelectorLabels | None = None
    """Labels that must be present with exactly these values."""
    match_expressions: Annotated[list[LabelRequirement], Field(max_length=4)] | None = None
    """Requirements that must all hold."""


class NodeRequirement(ApiModel):
    """One requirement on a node's labels."""

    rules: ClassVar[tuple[Rule, ...]] = (
        _NODE_VALUES,
        Rule(
            "!(self.operator in ['Gt', 'Lt']) || (has(self.values) && size(self.values) == 1 && "
            f"self.values[0].matches('^{_WHOLE_NUMBER}$'))",
            "Gt and Lt need exactly one value, which is a whole number",
            lambda requirement: requirement.operator not in ("Gt", "Lt") or _has_one_number(requirement),
        ),
    )

    key: LabelKey
    """Label key."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    """How the node's value relates to the values."""
    values: Values | None = None
    """Values for In and NotIn; one whole number for Gt and Lt."""


class NodeFieldRequirement(ApiModel):
    """A requirement on a node's name."""

    key: Literal["metadata.name"]
    """Field; only the name can be asked for."""
    operator: Literal["In", "NotIn"]
    """Whether the node must or must not have the name."""
    values: Annotated[list[Name], Field(min_length=1, max_length=1)]
    """One node's name."""


class NodeSelectorTerm(ApiModel):
    """Requirements on one node, all of which must hold."""

    match_expressions: Annotated[list[NodeRequirement], Field(max_length=8)] | None = None
    """Requirements on labels."""
    match_fields: Annotated[list[NodeFieldRequirement], Field(max_length=2)] | None = None
    """Requirements on the name."""


class NodeSelector(ApiModel):
    """Terms of which at least one must hold."""

    node_selector_terms: Annotated[list[NodeSelectorTerm], Field(min_length=1, max_length=8)]
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
    preferred_during_scheduling_ignored_during_execution: Annotated[list[PreferredNode], Field(max_length=8)] | None = (
        None
    )
    """Should hold when the pod is scheduled."""


class PodAffinityTerm(ApiModel):
    """Pods to be near to, or away from."""

    label_selector: LabelSelector | None = None
    """Which pods."""
    topology_key: LabelKey
    """Node label that says what "near" means."""
    namespaces: Annotated[list[NamespaceName], Field(max_length=8)] | None = None
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
        Annotated[list[PodAffinityTerm], Field(max_length=4)] | None
    ) = None
    """Must hold when the pod is scheduled."""
    preferred_during_scheduling_ignored_during_execution: Annotated[list[PreferredPod], Field(max_length=4)] | None = (
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
