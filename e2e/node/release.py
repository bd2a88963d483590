"""The operator as a Helm release in the cluster: which image its pods run, and its own pod."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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

    def upgrade(self, values: Values) -> None:
        """`helm upgrade` of the operator to other values; the next `use` takes them back."""
        self._used = None
        self.helm.install_operator({**_COMMON, **values})

    def scale(self, replicas: int) -> None:
        """Stops the operator (0) or starts it again (1); returns when that is so."""
        self.kubectl.run("scale", "deployment", RELEASE, f"--replicas={replicas}", *_PLACE)
        self._wait_rolled_out()
        wait_until(
            lambda: len(self._pods()), lambda count: count == replicas, f"{replicas} pods of the operator", timeout=60
        )

    def renew(self) -> None:
        """Puts another pod in the place of the operator's; returns when it is ready."""
        self.scale(0)
        self.scale(1)

    def kill(self) -> None:
        """kill -9 of the operator's process, of one that starts too; returns when another one is ready."""
        killed = wait_until(self._kill, bool, "the operator to run", timeout=60)

        def again(found: list[Object]) -> bool:
            return any(one["ready"] and one["containerID"] != killed for one in found)

        wait_until(self._containers, again, "the operator to run again", timeout=120)

    @contextmanager
    def stable_after(self, *, seconds: int) -> Iterator[None]:
        """Has revisions be stable after so many seconds, until the block ends."""
        self._set_environment(f"{_STABLE}={seconds}")
        try:
            yield
        finally:
            self._set_environment(f"{_STABLE}-")

    def _set_environment(self, setting: str) -> None:
        self.kubectl.run("set", "env", f"deployment/{RELEASE}", setting, *_PLACE)
        self._wait_rolled_out()

    def _wait_rolled_out(self) -> None:
        self.kubectl.run("rollout", "status", "deployment", RELEASE, "--timeout=60s", *_PLACE, timeout=70)

    def _pods(self) -> list[Object]:
        return self.kube.all("Pod", NAMESPACE, labels=f"app.kubernetes.io/instance={RELEASE}")

    def _kill(self) -> str:
        """The identifier of the container whose process was killed; empty while none runs."""
        for container in self._containers():
            try:
                containers.kill(containers.first_process(container), signal.SIGKILL)
                return str(container["containerID"])
            except (AssertionError, KeyError):  # it does not run yet, or any more
                continue
        return ""

    def _containers(self) -> list[Object]:
        return [status for pod in self._pods() if (status := containers.status(pod, "operator"))]

    def log(self) -> str:
        """What the operator's processes have logged, the one before the present one too."""
        texts: list[str] = []
        for option in ("--previous", "--tail=400"):
            command = ("logs", f"deployment/{RELEASE}", option, *_PLACE)
            texts.append(containers.said(self.kubectl, *command))
        return "\n".join(texts)


_PLACE = ("--namespace", NAMESPACE)
_STABLE = "GPTSERVICE_STABLE_SECONDS"
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
