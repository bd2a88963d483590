"""What a Prometheus scrapes, as the PodMonitors of the operator and of a service would have it."""

from __future__ import annotations

from e2e.api.state import Observer
from e2e.installation import NAMESPACE, RELEASE
from e2e.kube import Kube, Object
from e2e.monitoring.prometheus import Target
from gptservice_operator import names
from gptservice_runtime import contract

_OPERATOR_PORT = 9090


def targets(kube: Kube, observer: Observer, service: str) -> list[Target]:
    """The operator's pods and those of a service."""
    operators = kube.all("Pod", NAMESPACE, labels=f"app.kubernetes.io/instance={RELEASE}")
    return [
        *(_target(pod, _OPERATOR_PORT) for pod in operators),
        *(_target(pod, contract.PROBE_PORT, names.SERVICE_LABEL) for pod in observer.pods(service)),
    ]


def _target(pod: Object, port: int, *kept: str) -> Target:
    """With the labels that Prometheus' operator puts on a pod's series, and those of the pod that are kept."""
    metadata = pod["metadata"]
    own = {label.replace("-", "_"): metadata["labels"][label] for label in kept}
    labels = {"namespace": metadata["namespace"], "pod": metadata["name"], **own}
    return Target(f"{pod['status']['podIP']}:{port}", labels)
