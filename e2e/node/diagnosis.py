"""What a person would look at first when a test on a real node fails."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from e2e.kube import Kube, Object, show
from e2e.kubectl import Kubectl
from e2e.node import containers

PREFIX = "node"
"""Namespaces of tests begin with this."""
_LOG_LINES = 60


@dataclass(frozen=True)
class Diagnosis:
    """Reads the tests' namespaces that are not being deleted."""

    kube: Kube
    kubectl: Kubectl

    def services(self) -> str:
        """Every GPTService with its status."""
        return "\n".join(show(service) for name in self._namespaces() for service in self.kube.all("GPTService", name))

    def pods(self) -> str:
        """The pods, and for each container that is not ready its state and the end of its logs."""
        table = containers.said(self.kubectl, "get", "pods", "--all-namespaces", "-o", "wide")
        return "\n".join([table, *(part for name in self._namespaces() for part in self._troubled(name))])

    def events(self) -> str:
        """What Kubernetes had to say, oldest first."""
        command = ("get", "events", "--sort-by=.lastTimestamp", "--namespace")
        return "\n".join(containers.said(self.kubectl, *command, name) for name in self._namespaces())

    def _namespaces(self) -> list[str]:
        found = self.kube.all("Namespace")
        live = [one["metadata"]["name"] for one in found if "deletionTimestamp" not in one["metadata"]]
        return [name for name in live if name.startswith(f"{PREFIX}-")]

    def _troubled(self, namespace: str) -> Iterator[str]:
        for pod in self.kube.all("Pod", namespace):
            if containers.condition(pod, "Ready").get("status") == "True":
                continue
            name, live = pod["metadata"]["name"], pod["status"]
            yield f"--- pod {namespace}/{name}"
            yield show({key: live[key] for key in ("conditions", "initContainerStatuses") if key in live})
            yield from (self._container(namespace, name, one) for one in live.get("containerStatuses", []))

    def _container(self, namespace: str, pod: str, container: Object) -> str:
        command = ("logs", pod, "-c", container["name"], f"--tail={_LOG_LINES}", "--namespace", namespace)
        logs = [containers.said(self.kubectl, *command)]
        if container["restartCount"]:
            logs.insert(0, containers.said(self.kubectl, *command, "--previous"))
        return "\n".join([show(container), *logs])
