"""The operator as a Helm release in the cluster: which image its pods run, and its own pod."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from e2e.cluster.images import catalogue
from e2e.installation import NAMESPACE, RELEASE, Helm
from e2e.kube import Kube, Object, wait_until
from e2e.kubectl import Kubectl
from e2e.node import containers

STANDIN_IMAGE = catalogue.reference("standin")
RESYNC_SECONDS = 8

Values = Mapping[str, Any]

# What one replica takes; nothing here is about speed, so a CPU is never what a test waits for.
VLLM: Values = {"image": catalogue.reference("runtime-cpu"), "resources": {"cpu": "500m", "memory": "6Gi"}}
STANDIN: Values = {"image": STANDIN_IMAGE, "resources": {"cpu": "10m", "memory": "192Mi"}}


@dataclass
class Release:
    """The release, and through it the operator. Nothing is installed before the first `use`."""

    helm: Helm
    kube: Kube
    kubectl: Kubectl
    _used: Values | None = field(default=None, init=False)

    def use(self, runtime: Values) -> None:
        """Installs the operator, or has another runtime be the default; returns when it answers."""
        if runtime != self._used:
            self.helm.install_operator({**_COMMON, "runtime": dict(runtime)})
            self._used = runtime

    def pod(self) -> Object:
        """The operator's pod; raises AssertionError unless there is exactly one."""
        found = self.kube.all("Pod", NAMESPACE, labels=f"app.kubernetes.io/instance={RELEASE}")
        assert len(found) == 1, [pod["metadata"]["name"] for pod in found]
        return found[0]

    def scale(self, replicas: int) -> None:
        """Stops the operator (0) or starts it again (1); returns when that is so."""
        place = ("--namespace", NAMESPACE)
        self.kubectl.run("scale", "deployment", RELEASE, f"--replicas={replicas}", *place)
        self.kubectl.run("rollout", "status", "deployment", RELEASE, "--timeout=60s", *place, timeout=70)
        labels = f"app.kubernetes.io/instance={RELEASE}"
        wait_until(
            lambda: len(self.kube.all("Pod", NAMESPACE, labels=labels)),
            lambda count: count == replicas,
            f"{replicas} pods of the operator",
            timeout=60,
        )

    def kill(self) -> Object:
        """kill -9 of the operator's process; returns its pod when the next process in it is ready."""
        before = containers.status(self.pod(), "operator")
        os.kill(containers.first_process(before), signal.SIGKILL)

        def again(pod: Object) -> bool:
            now = containers.status(pod, "operator")
            return bool(now["ready"]) and now["containerID"] != before["containerID"]

        return wait_until(self.pod, again, "the operator to run again", timeout=120)

    def log(self) -> str:
        """What the operator's processes have logged, the one before the present one too."""
        texts: list[str] = []
        for option in ("--previous", "--tail=400"):
            command = ("logs", f"deployment/{RELEASE}", option, "--namespace", NAMESPACE)
            texts.append(containers.said(self.kubectl, *command))
        return "\n".join(texts)


_COMMON: Values = {
    "resyncSeconds": RESYNC_SECONDS,
    "extraEnv": [
        {"name": "GPTSERVICE_BACKOFF_BASE_SECONDS", "value": "0.2"},
        {"name": "GPTSERVICE_BACKOFF_MAX_SECONDS", "value": "2"},
        {"name": "GPTSERVICE_STATUS_INTERVAL_SECONDS", "value": "0.2"},
        # The tag is always `dev`: on a cluster that is kept, another build must be another pod.
        {"name": "E2E_OPERATOR_BUILD", "value": catalogue.key("operator")},
    ],
}
