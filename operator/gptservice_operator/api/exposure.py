"""How pods are reached and watched: the Service, NetworkPolicy, PodDisruptionBudget, monitoring and tracing."""

from typing import Annotated, Literal

from pydantic import Field

from .base import SET, ApiModel, Rule, ruled
from .words import KEYS, AnnotationValue, NamespaceName

SOURCE_RANGES = "service.beta.kubernetes.io/load-balancer-source-ranges"
"""Kubernetes checks this one annotation of a Service, and refuses it but for type LoadBalancer."""
_NO_RANGES = Rule(
    f"!('{SOURCE_RANGES}' in self)",
    f"{SOURCE_RANGES} cannot be set here: restrict who reaches the pods by a NetworkPolicy of your own",
    lambda annotations: SOURCE_RANGES not in annotations,
)
ServiceAnnotations = Annotated[dict[str, AnnotationValue], Field(max_length=32), *ruled(KEYS, _NO_RANGES)]

DEFAULT_PORT = 80
DEFAULT_TLS_PORT = 443


class ServiceSpec(ApiModel):
    """The Kubernetes Service in front of the pods."""

    type: Literal["ClusterIP", "NodePort", "LoadBalancer"] | None = None
    """ClusterIP if absent."""
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    """Port of the Service; 80 if absent, 443 with TLS."""
    annotations: ServiceAnnotations | None = None
    """Annotations of the Service, for load balancers; they never replace the operator's own."""


class DisruptionBudget(ApiModel):
    """PodDisruptionBudget; there is one, with maxUnavailable 1, from two guaranteed replicas on."""

    disabled: Literal[True] | None = None
    """Make none."""


class NetworkPolicy(ApiModel):
    """NetworkPolicy; there is one that opens the serving port to all and the metrics port to monitoring."""

    disabled: Literal[True] | None = None
    """Make none."""


class Monitoring(ApiModel):
    """Who may scrape the pods, and by what."""

    pod_monitor: Literal["Enabled", "Disabled"] | None = None
    """Whether to make a Prometheus operator PodMonitor where its CRD exists; Enabled if absent."""
    namespaces: Annotated[list[NamespaceName], Field(min_length=1, max_length=16), *SET] | None = None
    """Namespaces that may reach the metrics port; the operator's own if absent."""


class Tracing(ApiModel):
    """Traces of requests."""

    otlp_endpoint: Annotated[
        str,
        Field(
            min_length=1,
            max_length=1024,
            pattern=r"^(http|https|grpc)://([A-Za-z0-9][-A-Za-z0-9.]*|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?(/[!-~]*)?$",
        ),
    ]
    """OTLP endpoint, for example http://collector.observability:4317; HTTP is spoken to port 4318 and to a path, else
    gRPC."""
