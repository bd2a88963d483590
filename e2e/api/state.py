"""What tests of this level make and look at: a small GPTService, its conditions, and its children in plain form."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from e2e.kube import WAIT_SECONDS, Kube, Object, wait_until
from gptservice_operator.api import kinds

# Seconds until Kubernetes has collected what was owned: it looks for new kinds, such as ours, every 30 s only.
COLLECTED = 60
# The cluster has no others, but for the tests that bring them.
CHILDREN = tuple(kind.name for kind in kinds.CHILDREN if kind not in kinds.OPTIONAL)
REVISION_LABEL = "ai.example.com/revision"
_SERVER_METADATA = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "namespace")
_SERVER_SPEC = ("clusterIP", "clusterIPs", "healthCheckNodePort")
# Kubernetes' own, in every namespace and on every Deployment.
_EVERYWHERE = ("ConfigMap/kube-root-ca.crt", "ServiceAccount/default")
# The tests' own, which holds the models.
_GIVEN = ("PersistentVolumeClaim/models",)
_WITH_STATUS = ("Deployment", "HorizontalPodAutoscaler", "PodDisruptionBudget", "PersistentVolumeClaim")
_REVISION = "deployment.kubernetes.io/revision"


def service(name: str = "gpt", **spec: Any) -> Object:
    """A GPTService of a model in the image on the CPU: it needs no catalogue, no volume and no GPU."""
    small = {"requests": {"cpu": "10m", "memory": "16Mi"}}
    defaults: Object = {"model": "file:///models/tiny", "gpu": {"count": 0}, "resources": small}
    if "modelRef" in spec:
        del defaults["model"]
    return {
        "apiVersion": "ai.example.com/v1",
        "kind": "GPTService",
        "metadata": {"name": name},
        "spec": {**defaults, **spec},
    }


def condition(obj: Object | None, kind: str) -> Object:
    """One condition; empty when there is none yet."""
    status = (obj or {}).get("status")
    found = status.get("conditions") if isinstance(status, dict) else None
    # A test may have stored something else before the operator writes conditions.
    return next((c for c in found or [] if isinstance(c, dict) and c["type"] == kind), {})


def holds(obj: Object | None, kind: str, status: str = "True", reason: str = "") -> bool:
    """Whether a condition has this status (and reason) for the object's current generation."""
    found = condition(obj, kind)
    return (
        obj is not None
        and found.get("status") == status
        and found.get("observedGeneration") == obj["metadata"]["generation"]
        and reason in ("", found.get("reason"))
    )


def is_ready(obj: Object | None) -> bool:
    """Ready for the current generation, with as many ready replicas as asked for."""
    return obj is not None and holds(obj, "Ready") and obj["status"].get("readyReplicas") == obj["spec"]["replicas"]


def is_stopped(obj: Object | None) -> bool:
    """Stopped, and every pod gone."""
    return holds(obj, "Ready", "False", "Stopped") and not ((obj or {})["status"].get("replicas"))


@dataclass(frozen=True)
class Observer:
    """Reads one namespace."""

    kube: Kube
    namespace: str

    def gpt(self, name: str = "gpt") -> Object | None:
        return self.kube.find("GPTService", name, self.namespace)

    def child(self, kind: str, name: str = "gpt") -> Object:
        return self.kube.get(kind, name, self.namespace)

    def pods(self, name: str = "gpt") -> list[Object]:
        """The pods of one service that are not being deleted."""
        found = self.kube.all("Pod", self.namespace, labels=f"gptservice-name={name}")
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def wait(
        self, accepts: Callable[[Object | None], bool], what: str, name: str = "gpt", *, timeout: float = WAIT_SECONDS
    ) -> Object:
        """Wait for a GPTService that is accepted, and return it."""
        found = wait_until(lambda: self.gpt(name), accepts, f"GPTService {name}: {what}", timeout=timeout)
        return found or {}

    def wait_ready(self, name: str = "gpt", *, timeout: float = WAIT_SECONDS) -> Object:
        """Wait until the operator says Ready, and Kubernetes too, and return the GPTService."""

        def both() -> tuple[Object | None, Object | None]:
            return self.gpt(name), self.kube.find("Deployment", name, self.namespace)

        def agree(found: tuple[Object | None, Object | None]) -> bool:
            gpt, deployment = found
            return is_ready(gpt) and deployment is not None and runs(deployment, (gpt or {})["spec"]["replicas"])

        return wait_until(both, agree, f"GPTService {name} to be Ready", timeout=timeout)[0] or {}

    def uid(self, kind: str, name: str = "gpt") -> str:
        return str(self.child(kind, name)["metadata"]["uid"])

    def wait_for_another(self, kind: str, name: str, uid: str) -> None:
        """Wait until there is a child that is not the one of this UID."""

        def is_another(child: Object | None) -> bool:
            return child is not None and child["metadata"]["uid"] != uid

        wait_until(lambda: self.kube.find(kind, name, self.namespace), is_another, f"a new {kind} {name}")

    def delete_and_wait_for_another(self, kind: str, name: str = "gpt") -> None:
        """Delete a child by hand and wait until it is back."""
        uid = self.uid(kind, name)
        self.kube.delete(kind, name, self.namespace)
        self.wait_for_another(kind, name, uid)

    def wait_rolled(self, name: str, accepts: Callable[[Object], bool], what: str) -> Object:
        """Wait until the child Deployment is as wanted and every pod is of it."""

        def done(deployment: Object | None) -> bool:
            return deployment is not None and accepts(deployment) and runs(deployment, deployment["spec"]["replicas"])

        def read() -> Object | None:
            return self.kube.find("Deployment", name, self.namespace)

        return wait_until(read, done, f"Deployment {name}: {what}") or {}

    def children(self) -> dict[str, Object]:
        """Every object in the namespace that could be a child, by kind and name, without what the server makes up.

        UIDs of owners are replaced by their names, and of the revisions only those that run are told, so that two
        namespaces can be compared whatever happened in them before.
        """
        services = self.kube.all("GPTService", self.namespace)
        owners = {gpt["metadata"]["uid"]: gpt["metadata"]["name"] for gpt in services}
        return {key: plain(obj, owners) for key, obj in self._objects(CHILDREN).items() if not self._is_history(obj)}

    def _objects(self, wanted: Sequence[str]) -> dict[str, Object]:
        found = {
            f"{kind}/{obj['metadata']['name']}": obj for kind in wanted for obj in self.kube.all(kind, self.namespace)
        }
        return {key: obj for key, obj in found.items() if key not in (*_EVERYWHERE, *_GIVEN)}

    def _is_history(self, obj: Object) -> bool:
        """Whether it is a revision that no Deployment runs, though there are some."""
        running = [revision_of(deployment) for deployment in self.kube.all("Deployment", self.namespace)]
        own = obj["metadata"].get("labels", {}).get(REVISION_LABEL)
        return own is not None and bool(running) and own not in running

    def revisions(self, name: str = "gpt") -> list[Object]:
        """The ControllerRevisions of one service, the newest last."""
        found = self.kube.all("ControllerRevision", self.namespace, labels=f"gptservice-name={name}")
        return sorted(found, key=lambda revision: int(revision["revision"]))

    def versions(self) -> dict[str, str]:
        """What differs after a write, of everything in the namespace that the operator could write."""
        found = self._objects(("GPTService", *CHILDREN))
        return {key: _version(key.partition("/")[0], obj) for key, obj in found.items()}


def _version(kind: str, obj: Object) -> str:
    """The resourceVersion, but where Kubernetes writes the status, which it may do late: then all but that."""
    metadata = obj["metadata"]
    if kind in _WITH_STATUS:
        annotations = {key: value for key, value in metadata.get("annotations", {}).items() if key != _REVISION}
        return json.dumps([metadata["uid"], annotations, plain(obj, {})], sort_keys=True)
    version: str = metadata["resourceVersion"]
    return version


def plain(obj: Object, owners: dict[str, str]) -> Object:
    """An object without identity, status and what the API server allocated."""
    metadata = {key: value for key, value in obj["metadata"].items() if key not in _SERVER_METADATA}
    references = [{**r, "uid": owners.get(r["uid"], "unknown")} for r in metadata.get("ownerReferences", [])]
    annotations = {k: v for k, v in metadata.get("annotations", {}).items() if k != _REVISION}
    spec = {key: value for key, value in obj.get("spec", {}).items() if key not in _SERVER_SPEC}
    if "ports" in spec:
        spec["ports"] = [{key: value for key, value in port.items() if key != "nodePort"} for port in spec["ports"]]
    data = obj.get("data")
    for uid, name in owners.items():
        # The names of the Secrets that are made hold part of their owner's UID.
        text = json.dumps([spec, data])
        for made in ("key", "tls"):
            text = text.replace(f"-{made}-{uid[:8]}", f"-{made}-of-{name}")
        spec, data = json.loads(text)
    return {
        "metadata": {**metadata, "ownerReferences": references, "annotations": sorted(annotations)},
        "spec": spec,
        "data": data,
        "token": obj.get("automountServiceAccountToken"),
    }


def runs(deployment: Object, replicas: int) -> bool:
    """Whether a Deployment has exactly so many pods, all of its newest template and all ready."""
    live = deployment.get("status", {})
    counts = [live.get(key, 0) for key in ("replicas", "updatedReplicas", "readyReplicas")]
    seen = live.get("observedGeneration") == deployment["metadata"]["generation"]
    return seen and [deployment["spec"]["replicas"], *counts] == [replicas] * 4


def revision_of(deployment: Object) -> str | None:
    """The key of the revision that a Deployment runs."""
    labels: dict[str, str] = deployment["spec"]["template"]["metadata"].get("labels", {})
    return labels.get(REVISION_LABEL)


def engine_args(deployment: Object) -> list[str]:
    """The arguments of the serving container."""
    containers = deployment["spec"]["template"]["spec"]["containers"]
    return list(next(c for c in containers if c["name"] == "engine")["args"])


def probe_deployment(kube: Kube, namespace: str) -> Object:
    """Return what would be stored of somebody's Deployment: a policy does not count at once when it was made."""
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "localhost/x:1"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "probe"}, "spec": spec}
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    return kube.request("POST", path, query={"dryRun": "All"}, body=body)
