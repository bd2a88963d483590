"""Installs what a platform team would: the operator by its chart, and a namespace's volume with models."""

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.cluster import paths
from e2e.kubectl import Kubectl, Object

CHART = paths.REPOSITORY / "charts" / "gptservice-operator"
RELEASE = "gptservice-operator"
NAMESPACE = "gptservice-system"
MODEL_CLAIM = "models"
"""Claim of the examples' `pvc://models/...`."""


class HelmError(Exception):
    """Helm refused or the release did not get ready; the message is what it said."""


@dataclass(frozen=True)
class Helm:
    """Runs Helm against one cluster."""

    program: Path
    kubeconfig: Path

    def run(self, *arguments: str, values: Mapping[str, Any] | None = None, timeout: float = 300) -> str:
        """Returns what the command printed; raises HelmError, or TimeoutExpired after `timeout` seconds."""
        done = subprocess.run(
            [self.program, *arguments, *(["--values", "-"] if values is not None else [])],
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig)},
            input=None if values is None else json.dumps(values),
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
        )
        if done.returncode:
            raise HelmError(f"helm {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def install_operator(
        self, values: Mapping[str, Any] | None = None, *, wait: bool = True, timeout_seconds: int = 180
    ) -> str:
        """Installs or upgrades the operator; with `wait` until it answers. Returns Helm's notes."""
        if self.is_locked():
            # Only the CRDs stay, which is all that anybody's services need.
            self.run("uninstall", RELEASE, "--namespace", NAMESPACE, "--wait")
        waiting = ["--wait", "--timeout", f"{timeout_seconds}s"] if wait else []
        place = ["--namespace", NAMESPACE, "--create-namespace"]
        command = ["upgrade", "--install", RELEASE, str(CHART), *place, *waiting]
        return self.run(*command, values=values or {}, timeout=timeout_seconds + 60)

    @contextmanager
    def background(self, *arguments: str, values: Mapping[str, Any]) -> Iterator[None]:
        """Runs a command until the block ends, which kills it."""
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write(json.dumps(values))
            file.flush()
            child = subprocess.Popen(
                [self.program, *arguments, "--values", file.name],
                env={**os.environ, "KUBECONFIG": str(self.kubeconfig)},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            with child:
                try:
                    yield
                finally:
                    child.kill()

    def is_locked(self) -> bool:
        """Whether a Helm is at work on the release, or has left it so as it was killed: no other would touch it."""
        listed = json.loads(self.run("list", "--namespace", NAMESPACE, "--pending", "--output", "json"))
        return any(one["name"] == RELEASE for one in listed)


def provide_models(kubectl: Kubectl, namespace: str, *, claim: str = MODEL_CLAIM) -> None:
    """Gives a namespace the claim with the test models: the node's folder, read-only, bound at once."""
    kubectl.apply(*model_volume(namespace, claim))


def model_volume(namespace: str, claim: str = MODEL_CLAIM) -> list[Object]:
    """A PersistentVolume with the node's model folder and the claim that is bound to it."""
    name = f"{claim}-{namespace}"
    shared = {"accessModes": ["ReadOnlyMany"], "storageClassName": ""}
    volume = {
        **shared,
        "capacity": {"storage": "10Gi"},
        "persistentVolumeReclaimPolicy": "Retain",
        "claimRef": {"namespace": namespace, "name": claim},
        "hostPath": {"path": str(paths.NODE_MODELS), "type": "Directory"},
    }
    request = {**shared, "volumeName": name, "resources": {"requests": {"storage": "10Gi"}}}
    return [
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": volume},
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": claim, "namespace": namespace},
            "spec": request,
        },
    ]
