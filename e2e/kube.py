"""A small client of the real API for tests: raw objects, pooled connections, waiting that explains itself."""

import json
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import urlencode

import yaml
from kubernetes import client, config

Object = dict[str, Any]
T = TypeVar("T")

FIELD_MANAGER = "gptservice-e2e"
THREADS = 8
WAIT_SECONDS = 60.0
"""How long tests wait for what comes in a second or two. Hang detection, not a statement about speed."""
_TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True)
class Kind:
    """Where objects of one kind live in the API."""

    api_version: str
    plural: str
    namespaced: bool = True

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The path of an object, or of its collection; an absent namespace means all of them."""
        root = "api" if "/" not in self.api_version else "apis"
        inside = ["namespaces", namespace] if self.namespaced and namespace else []
        parts = [root, self.api_version, *inside, self.plural, name, subresource]
        return "/" + "/".join(filter(None, parts))


KINDS = {
    "GPTService": Kind("ai.example.com/v1", "gptservices"),
    "GPTModel": Kind("ai.example.com/v1", "gptmodels", namespaced=False),
    "Deployment": Kind("apps/v1", "deployments"),
    "ReplicaSet": Kind("apps/v1", "replicasets"),
    "ControllerRevision": Kind("apps/v1", "controllerrevisions"),
    "Pod": Kind("v1", "pods"),
    "Service": Kind("v1", "services"),
    "EndpointSlice": Kind("discovery.k8s.io/v1", "endpointslices"),
    "ConfigMap": Kind("v1", "configmaps"),
    "HorizontalPodAutoscaler": Kind("autoscaling/v2", "horizontalpodautoscalers"),
    "Secret": Kind("v1", "secrets"),
    "Event": Kind("v1", "events"),
    "PersistentVolume": Kind("v1", "persistentvolumes", namespaced=False),
    "PersistentVolumeClaim": Kind("v1", "persistentvolumeclaims"),
    "ServiceAccount": Kind("v1", "serviceaccounts"),
    "PodDisruptionBudget": Kind("policy/v1", "poddisruptionbudgets"),
    "NetworkPolicy": Kind("networking.k8s.io/v1", "networkpolicies"),
    "Certificate": Kind("cert-manager.io/v1", "certificates"),
    "PodMonitor": Kind("monitoring.coreos.com/v1", "podmonitors"),
    "PrometheusRule": Kind("monitoring.coreos.com/v1", "prometheusrules"),
    "Lease": Kind("coordination.k8s.io/v1", "leases"),
    "Role": Kind("rbac.authorization.k8s.io/v1", "roles"),
    "RoleBinding": Kind("rbac.authorization.k8s.io/v1", "rolebindings"),
    "ResourceQuota": Kind("v1", "resourcequotas"),
    "CronJob": Kind("batch/v1", "cronjobs"),
    "Namespace": Kind("v1", "namespaces", namespaced=False),
    "Node": Kind("v1", "nodes", namespaced=False),
    "ClusterRole": Kind("rbac.authorization.k8s.io/v1", "clusterroles", namespaced=False),
    "ClusterRoleBinding": Kind("rbac.authorization.k8s.io/v1", "clusterrolebindings", namespaced=False),
    "CustomResourceDefinition": Kind("apiextensions.k8s.io/v1", "customresourcedefinitions", namespaced=False),
}


class KubeError(Exception):
    """The API server refused; `status` is the HTTP status, `message` its own words."""

    def __init__(self, call: str, status: int, body: str) -> None:
        self.fields: list[str] = []
        """The fields that it names as wrong."""
        try:
            reply: Any = json.loads(body)
            self.message = str(reply["message"])
            details = cast(Object, reply.get("details") or {})
            causes = cast(list[Object], details.get("causes") or [])
            self.fields = [str(cause["field"]) for cause in causes if "field" in cause]
        except (ValueError, KeyError, TypeError):
            self.message = body[:500]
        super().__init__(f"{call}: HTTP {status}: {self.message}")
        self.status = status


class NotFoundError(KubeError):
    """The object is not there."""


class Kube:
    """One user of one API server. Objects go in and out as plain dicts; kinds by name, as in KINDS."""

    def __init__(self, kubeconfig: Path, *, user_agent: str = FIELD_MANAGER) -> None:
        configuration = client.Configuration()
        configuration.connection_pool_maxsize = THREADS
        # Any: the client's own calls carry no types.
        load: Any = config.new_client_from_config  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        self._api: Any = load(str(kubeconfig), client_configuration=configuration)
        self._api.user_agent = user_agent

    def get(self, kind: str, name: str, namespace: str = "") -> Object:
        """Read one object; raises NotFoundError."""
        return self.request("GET", KINDS[kind].path(namespace, name))

    def find(self, kind: str, name: str, namespace: str = "") -> Object | None:
        """Read one object, None where there is none."""
        try:
            return self.get(kind, name, namespace)
        except NotFoundError:
            return None

    def all(self, kind: str, namespace: str = "", *, labels: str = "") -> list[Object]:
        """Read all objects of a kind, of one namespace or of every one."""
        query = {"labelSelector": labels} if labels else {}
        return cast(list[Object], self.request("GET", KINDS[kind].path(namespace), query=query)["items"])

    def apply(self, manifest: Object, namespace: str = "", *, manager: str = FIELD_MANAGER) -> Object:
        """Server-side apply, unknown fields refused, fields of others taken over."""
        name = manifest["metadata"]["name"]
        query = {"fieldManager": manager, "force": "true", "fieldValidation": "Strict"}
        # The server reads this as YAML, which has no surrogate pairs: an emoji goes as it is.
        path = KINDS[manifest["kind"]].path(self._namespace(manifest, namespace), name)
        return self.request(
            "PATCH",
            path,
            query=query,
            body=json.dumps(manifest, ensure_ascii=False),
            content_type="application/apply-patch+yaml",
        )

    def apply_file(self, path: Path, namespace: str = "") -> list[Object]:
        """Apply every document of a file unchanged."""
        return [self.apply(document, namespace) for document in yaml.safe_load_all(path.read_text()) if document]

    def create(self, manifest: Object, namespace: str = "") -> Object:
        """POST an object."""
        path = KINDS[manifest["kind"]].path(self._namespace(manifest, namespace))
        return self.request("POST", path, query={"fieldManager": FIELD_MANAGER}, body=manifest)

    def judge(self, manifest: Object, namespace: str = "") -> Object:
        """POST an object in a dry run with unknown fields refused; raises KubeError where it would be refused."""
        path = KINDS[manifest["kind"]].path(self._namespace(manifest, namespace))
        query = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict", "dryRun": "All"}
        return self.request("POST", path, query=query, body=manifest)

    def create_many(self, manifests: Iterable[Object]) -> list[Object]:
        """POST objects with 8 threads; their order in time is any, in the result as given."""
        with ThreadPoolExecutor(THREADS) as pool:
            return list(pool.map(self.create, manifests))

    def merge(
        self, kind: str, name: str, namespace: str, change: Mapping[str, Any], *, subresource: str = ""
    ) -> Object:
        """JSON merge patch of an object or of its subresource."""
        path = KINDS[kind].path(namespace, name, subresource)
        query = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict"}
        return self.request("PATCH", path, query=query, body=change, content_type="application/merge-patch+json")

    def scale(self, name: str, namespace: str, replicas: int) -> None:
        """`kubectl scale` of a GPTService: through its scale subresource."""
        self.merge("GPTService", name, namespace, {"spec": {"replicas": replicas}}, subresource="scale")

    def delete(self, kind: str, name: str, namespace: str = "") -> None:
        """Delete with background propagation; an absent object is fine."""
        try:
            self.request("DELETE", KINDS[kind].path(namespace, name), query={"propagationPolicy": "Background"})
        except NotFoundError:
            return

    def evict(self, pod: str, namespace: str) -> None:
        """Ask for a pod's eviction, as a drain does; KubeError with status 429 where a budget has no room for it."""
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": namespace}}
        self.request("POST", KINDS["Pod"].path(namespace, pod, "eviction"), body=body)

    @contextmanager
    def namespace(self, prefix: str = "e2e") -> Iterator[str]:
        """A new namespace with a unique name; its deletion is begun at the end and not waited for."""
        name = f"{prefix}-{uuid.uuid4().hex[:8]}"
        self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        try:
            yield name
        finally:
            self.delete("Namespace", name)

    def token(self, account: str, namespace: str, *, seconds: int = 24 * 3600) -> str:
        """A bearer token of a ServiceAccount, as a pod gets it (TokenRequest)."""
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": seconds},
        }
        path = KINDS["ServiceAccount"].path(namespace, account, "token")
        return str(self.request("POST", path, body=request)["status"]["token"])

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | str | None = None,
        content_type: str = "application/json",
    ) -> Object:
        """Any call; raises KubeError, NotFoundError among it. A body that is a text is sent as it is."""
        headers = {"Accept": "application/json", "Content-Type": content_type}
        _, url, headers, _, _ = self._api.param_serialize(
            method, path, header_params=headers, auth_settings=["BearerToken"]
        )
        answer = self._api.call_api(
            method,
            f"{url}?{urlencode(query)}" if query else url,
            headers,
            dict(body) if isinstance(body, Mapping) else body,
            _request_timeout=_TIMEOUT_SECONDS,
        )
        text = cast(bytes, answer.read()).decode()
        if answer.status >= 300:
            error = NotFoundError if answer.status == 404 else KubeError
            raise error(f"{method} {path}", answer.status, text)
        return cast(Object, json.loads(text))

    @staticmethod
    def _namespace(manifest: Object, namespace: str) -> str:
        return namespace or manifest["metadata"].get("namespace", "default")


def wait_until(
    read: Callable[[], T], accepts: Callable[[T], bool], what: str, *, timeout: float = WAIT_SECONDS, every: float = 0.1
) -> T:
    """Read again and again until the value is accepted, and return it.

    Raises AssertionError after `timeout` seconds, with `what` was waited for and the last value.
    """
    deadline = time.monotonic() + timeout
    while True:
        value = read()
        if accepts(value):
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout:.0f} s for {what}; last seen:\n{show(value)}")
        time.sleep(every)


def stays(
    read: Callable[[], T], accepts: Callable[[T], bool], what: str, *, seconds: float, every: float = 0.1
) -> None:
    """Check that a value is accepted all the time; raises AssertionError with the first that is not."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = read()
        if not accepts(value):
            raise AssertionError(f"{what} did not last {seconds:.0f} s; seen:\n{show(value)}")
        time.sleep(every)


def show(value: object) -> str:
    """A value for people, objects without managedFields."""
    dump: Any = yaml.safe_dump  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return str(dump(_plain(value), sort_keys=False, width=160))


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        items = cast("Mapping[str, object]", value).items()
        return {key: _plain(item) for key, item in items if key != "managedFields"}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in cast("list[object]", value)]
    return value if isinstance(value, (str, int, float, bool, type(None))) else repr(value)
