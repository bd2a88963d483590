"""The two operators that are measured side by side, each as a ServiceAccount with rights of its own."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from e2e import operator_process
from e2e.bench.figures import OURS, REFERENCE
from e2e.bench.requests import account
from e2e.cluster import binaries
from e2e.kube import Kube, Object
from e2e.operator_process import FAST, NAMESPACE, Access, OperatorProcess
from gptservice_operator.config import Config

SOURCES = Path(__file__).resolve().parent / "reference"
_RUNTIME = "sigs.k8s.io/controller-runtime"
_REFERENCE_ACCOUNT = "gptservice-reference"
# Whatever else FAST shortens is as long here as in production. The ports stay closed: several runs may share a machine.
_SAME_AS_FAST = frozenset({"runtime_image", "health_port", "metrics_port", "debug_port"})


def production_settings() -> dict[str, str]:
    """The operator's own defaults, for what the tests' FAST changes."""
    defaults = Config(runtime_image=FAST["GPTSERVICE_RUNTIME_IMAGE"])
    names = [variable.removeprefix("GPTSERVICE_").lower() for variable in FAST]
    return {f"GPTSERVICE_{name.upper()}": str(getattr(defaults, name)) for name in names if name not in _SAME_AS_FAST}


@dataclass(frozen=True)
class Subject:
    """One of the operators, ready to be started."""

    process: OperatorProcess
    user: str
    """Its name at the API server."""
    elects: Callable[[bool], None]
    """Have its next process elect a leader, or not."""


Way = Callable[[Access], Access]
"""By which way it reaches the API server."""


def directly(access: Access) -> Access:
    """The way without anything between."""
    return access


def _ours(kube: Kube, kubeconfig: Path, folder: Path, way: Way = directly) -> Subject:
    name = operator_process.install(kube, binaries.ensure([binaries.HELM])[binaries.HELM])
    access = operator_process.access(kube, kubeconfig, name)
    process = OperatorProcess(way(access).write(folder / "kubeconfig"), folder / "log", production_settings())

    def elects(on: bool) -> None:
        process.settings = production_settings() | ({} if on else {"GPTSERVICE_LEASE_SECONDS": "0"})

    return Subject(process, account(NAMESPACE, name), elects)


def _reference(kube: Kube, kubeconfig: Path, folder: Path, way: Way = directly) -> Subject:
    binary = build_reference()
    # The CRDs, and the namespace of its Lease.
    operator_process.install(kube, binaries.ensure([binaries.HELM])[binaries.HELM])
    for manifest in _rights():
        kube.apply(manifest)
    access = operator_process.access(kube, kubeconfig, _REFERENCE_ACCOUNT)
    command: tuple[str, ...] = (
        str(binary),
        f"--lease-namespace={NAMESPACE}",
        f"--image={FAST['GPTSERVICE_RUNTIME_IMAGE']}",
    )
    if way is not directly:
        command = (*command, "--json")
    process = OperatorProcess(
        way(access).write(folder / "kubeconfig"), folder / "log", command=command, filled=b"caches filled"
    )

    def elects(on: bool) -> None:
        process.command = command if on else (*command, "--leader-elect=false")

    return Subject(process, account(NAMESPACE, _REFERENCE_ACCOUNT), elects)


class _Prepare(Protocol):
    def __call__(self, kube: Kube, kubeconfig: Path, folder: Path, way: Way = directly) -> Subject: ...


SUBJECTS: Mapping[str, _Prepare] = {OURS: _ours, REFERENCE: _reference}
"""By name: gives one its rights in a cluster, and a folder for its kubeconfig and its log."""


def build_reference() -> Path:
    """The reference's program; built if its sources have changed, which takes minutes with a cold compiler's cache."""
    return binaries.ensure_own(SOURCES, built_on=_RUNTIME)


def _rights() -> list[Object]:
    def rule(group: str, resources: list[str], *verbs: str) -> Object:
        return {"apiGroups": [group], "resources": resources, "verbs": list(verbs)}

    written = ("get", "list", "watch", "create", "patch")
    rules = [
        rule("ai.example.com", ["gptservices"], "get", "list", "watch"),
        rule("ai.example.com", ["gptservices/status"], "patch"),
        rule("apps", ["deployments", "controllerrevisions"], *written),
        rule("", ["services", "configmaps"], *written),
        rule("", ["events"], "create", "patch"),
        rule("events.k8s.io", ["events"], "create", "patch"),
        rule("coordination.k8s.io", ["leases"], "get", "create", "update"),
    ]
    group, name = "rbac.authorization.k8s.io", _REFERENCE_ACCOUNT
    subject = {"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}
    role = {"apiGroup": group, "kind": "ClusterRole", "name": name}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": NAMESPACE}},
        {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules},
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": role,
            "subjects": [subject],
        },
    ]
